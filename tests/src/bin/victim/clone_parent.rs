//! A child that is a sibling by its parent link.

use tracker_tests::raw;
use tracker_tests::stage::{announce, await_cast, linger};

pub fn play(_: &[String]) {
    announce("creator");
    raw::clone_parent(|| {
        announce("sibling");
        linger();
    });
    await_cast("sibling", 1);
}
