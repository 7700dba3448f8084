//! Many double-forked members that ignore SIGTERM: `crowd COUNT`.

use std::sync::atomic::Ordering;

use tracker_tests::stage::{announce_all, detach, linger};
use tracker_tests::{Who, proc, raw, until};

use crate::number;

pub fn play(arguments: &[String]) {
    let count = number(arguments, 0, 1);
    raw::ignore(libc::SIGTERM);
    // A crowd that wrote lines one by one would take longer for that than to come.
    let pids = raw::shared_numbers(count);
    for pid in pids {
        detach(|| {
            pid.store(proc::own_pid(), Ordering::SeqCst);
            linger();
        });
    }
    let crowd = pids.iter().map(|pid| {
        let pid = until("a member of the crowd", || {
            let pid = pid.load(Ordering::SeqCst);
            (pid != 0).then_some(pid)
        });
        Who::with_pid(pid.cast_unsigned())
    });
    announce_all("one-of-many", crowd);
}
