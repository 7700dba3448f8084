//! The way of daemons: fork, setsid, fork again, let the middle one exit.

use tracker_tests::stage::{announce, await_cast, detach, linger};

pub fn play(_: &[String]) {
    detach(|| {
        announce("orphan");
        linger();
    });
    await_cast("orphan", 1);
}
