//! Ignores SIGTERM, SIGHUP and SIGINT.

use tracker_tests::raw;
use tracker_tests::stage::{announce, await_cast, detach, linger};

pub fn play(_: &[String]) {
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
        raw::ignore(signal);
    }
    detach(|| {
        announce("stubborn");
        linger();
    });
    await_cast("stubborn", 1);
}
