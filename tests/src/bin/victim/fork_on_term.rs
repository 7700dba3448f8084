//! Answers SIGTERM with a child that ignores it, and exits.

use tracker_tests::raw;
use tracker_tests::stage::{announce, await_cast, detach, linger};

pub fn play(_: &[String]) {
    detach(|| {
        raw::on_term(|| {
            raw::ignore(libc::SIGTERM);
            raw::fork(|| {
                announce("heir");
                linger();
            });
            raw::exit_now(0);
        });
        announce("testator");
        linger();
    });
    await_cast("testator", 1);
}
