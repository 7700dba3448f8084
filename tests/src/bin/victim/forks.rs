//! Many short lives: `forks COUNT` creates so many children one after the
//! other, and then leaves a detached one behind. Each child has one of its own.

use tracker_tests::raw;
use tracker_tests::stage::{announce, await_cast, detach, linger, wait_for};

use crate::number;

pub fn play(arguments: &[String]) {
    for _ in 0..number(arguments, 0, 1000) / 2 {
        wait_for(raw::fork(|| wait_for(raw::fork(|| raw::exit_now(0)))));
    }
    detach(|| {
        announce("left");
        linger();
    });
    await_cast("left", 1);
}
