//! A population that comes and goes, and of which nobody may be signalled:
//! `churn COUNT`. Each lives up to a second and exits with status 0; whoever
//! ends otherwise is announced as struck.

use std::time::Duration;

use rustix::process::{WaitOptions, waitpid};
use tracker_tests::stage::{announce, announce_all, is_over};
use tracker_tests::{Who, proc, raw};

use crate::number;

pub fn play(arguments: &[String]) {
    let live = || {
        // Spread out, without any two of a row at the same time.
        let millis = proc::own_pid().unsigned_abs().wrapping_mul(7919) % 1000;
        std::thread::sleep(Duration::from_millis(millis.into()));
    };
    for _ in 0..number(arguments, 0, 100) {
        raw::fork(live);
    }
    announce("churn");
    while !is_over() {
        let (pid, status) = waitpid(None, WaitOptions::empty())
            .expect("children")
            .expect("one that ended");
        if status.exit_status() != Some(0) {
            let (pid, start) = (pid.as_raw_nonzero().get(), 0);
            announce_all("struck", [Who { pid, start }]);
        }
        raw::fork(live);
    }
}
