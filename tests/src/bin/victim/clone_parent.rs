//! A child that is a sibling by its parent link: `clone-parent [EXIT_STATUS]`.

use tracker_tests::raw;
use tracker_tests::stage::{announce, await_cast, linger};

use crate::number;

pub fn play(arguments: &[String]) {
    announce("creator");
    raw::clone_parent(|| {
        announce("sibling");
        linger();
    });
    await_cast("sibling", 1);
    let status = number(arguments, 0, 0);
    raw::exit_now(i32::try_from(status).expect("an exit status"));
}
