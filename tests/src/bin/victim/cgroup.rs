//! Leaves for another cgroup: `move-cgroup CGROUP_PROCS`.

use tracker_tests::Who;
use tracker_tests::stage::{announce, await_cast, detach, linger};

pub fn play(arguments: &[String]) {
    let file = arguments[0].clone();
    detach(|| {
        std::fs::write(file, Who::own().pid.to_string()).expect("the cgroup takes a process");
        announce("emigrant");
        linger();
    });
    await_cast("emigrant", 1);
}
