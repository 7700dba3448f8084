//! A 64-bit process that forks by a 32-bit system call.

use tracker_tests::raw;
use tracker_tests::stage::{announce, await_cast, linger};

pub fn play(_: &[String]) {
    raw::fork_32bit(|| {
        announce("compat");
        linger();
    });
    await_cast("compat", 1);
}

/// Ends by a signal where the kernel does not have such calls.
pub fn can(_: &[String]) {
    raw::fork_32bit(|| {});
}
