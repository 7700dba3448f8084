//! A parent that never waits for its child.

use tracker_tests::raw;
use tracker_tests::stage::{announce, linger};

pub fn play(_: &[String]) {
    announce("parent");
    raw::fork(|| {
        announce("child");
        linger();
    });
    linger();
}
