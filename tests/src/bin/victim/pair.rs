//! Two processes that replace each other: when one dies, the other forks a new
//! one. They ignore SIGTERM.

use std::sync::atomic::{AtomicI32, Ordering};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags};
use tracker_tests::stage::{announce, await_cast, detach, is_over};
use tracker_tests::{proc, raw};

/// So that a test that fails ends.
const MOST_FORKS: i32 = 50_000;

pub fn play(_: &[String]) {
    raw::ignore(libc::SIGTERM);
    raw::ignore(libc::SIGCHLD);
    let forks = &raw::shared_numbers(1)[0];
    detach(|| replace(forks));
    await_cast("twin", 2);
}

/// Goes on as the one that has nobody to watch.
fn replace(forks: &AtomicI32) {
    announce("twin");
    while !is_over() && forks.fetch_add(1, Ordering::SeqCst) < MOST_FORKS {
        let own = proc::own_pid();
        let other = raw::fork(|| {
            announce("twin");
            await_death(own);
            replace(forks);
        });
        await_death(other);
    }
}

fn await_death(pid: i32) {
    let pid = Pid::from_raw(pid).expect("a pid");
    // No such process: it is dead already.
    if let Ok(fd) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
        rustix::event::poll(&mut fds, None).expect("poll");
    }
}
