//! Many double-forked members that ignore SIGTERM: `crowd COUNT`.

use tracker_tests::raw;
use tracker_tests::stage::{announce, await_cast, detach, linger};

use crate::number;

pub fn play(arguments: &[String]) {
    let count = number(arguments, 0, 1);
    raw::ignore(libc::SIGTERM);
    for _ in 0..count {
        detach(|| {
            announce("one-of-many");
            linger();
        });
    }
    await_cast("one-of-many", count);
}
