//! A creator that exits right after it has forked, and stays known by name
//! only: the orphan's parent is somebody else from then on.

use tracker_tests::stage::{announce, await_cast, linger};
use tracker_tests::{raw, stage};

pub fn play(_: &[String]) {
    let creator = raw::fork(|| {
        announce("creator");
        raw::fork(|| {
            announce("orphan");
            linger();
        });
        await_cast("orphan", 1);
    });
    stage::wait_for(creator);
}
