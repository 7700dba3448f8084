//! Forks, lets the parent exit, and so on: `hopper MICROSECONDS` a hop. Each
//! process lives too short to be caught by looking it up.

use std::time::Duration;

use tracker_tests::raw;
use tracker_tests::stage::{announce, await_cast, detach, is_over};

use crate::number;

/// So that a test that fails ends.
const MOST_HOPS: u32 = 500_000;

pub fn play(arguments: &[String]) {
    let rest = u64::try_from(number(arguments, 0, 1000)).expect("a time");
    detach(|| {
        announce("hopper");
        for _ in 0..MOST_HOPS {
            std::thread::sleep(Duration::from_micros(rest));
            if is_over() {
                return;
            }
            raw::hop();
        }
    });
    await_cast("hopper", 1);
}
