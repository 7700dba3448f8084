//! A command line with an empty argument, and with one of 100 kB.

use std::os::unix::process::CommandExt;
use std::process::Command;

use tracker_tests::stage::{await_cast, detach, own_program};

pub fn play(_: &[String]) {
    detach(|| {
        let error = Command::new(own_program())
            .args(["linger", "orator", "", &"x".repeat(100_000)])
            .exec();
        panic!("exec: {error}");
    });
    await_cast("orator", 1);
}
