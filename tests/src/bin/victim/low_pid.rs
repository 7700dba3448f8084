//! A child whose pid is lower than its parent's. Sets `ns_last_pid`: the test
//! holds the lock.

use tracker_tests::stage::{announce, await_cast, linger};
use tracker_tests::{LastPid, proc, raw, stage};

pub fn play(_: &[String]) {
    let parent = proc::own_pid();
    for pid in (2..parent).rev() {
        if proc::stat(pid).is_some() {
            continue;
        }
        LastPid::next_is(pid);
        let child = raw::fork(|| {
            if proc::own_pid() < parent {
                announce("junior");
                linger();
            }
        });
        if child < parent {
            await_cast("junior", 1);
            return;
        }
        // Somebody else forked in between.
        stage::wait_for(child);
    }
}
