//! Keeps so many of itself alive whatever happens: `fork-bomb COUNT`. Who dies
//! is replaced by whoever notices first.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use tracker_tests::stage::{announce, await_cast, detach, is_over};
use tracker_tests::{proc, raw};

use crate::number;

/// More were never forked, so that a test that fails ends.
const MOST_FORKS: i32 = 50_000;

pub fn play(arguments: &[String]) {
    let count = number(arguments, 0, 8);
    raw::ignore(libc::SIGTERM);
    // Children that nobody waits for.
    raw::ignore(libc::SIGCHLD);
    let shared = raw::shared_numbers(count + 1);
    detach(|| bomb(shared));
    await_cast("bomb", count);
}

/// The first number counts forks; each of the others is the pid in a place.
fn bomb(shared: &'static [AtomicI32]) {
    announce("bomb");
    let (forks, places) = shared.split_first().expect("a counter");
    while !is_over() {
        for place in places {
            let holder = place.load(Ordering::SeqCst);
            // Negative: of who is about to fork for this place.
            let is_free = proc::stat(holder.abs()).is_none_or(|stat| stat.is_zombie());
            if !is_free || forks.load(Ordering::SeqCst) > MOST_FORKS {
                continue;
            }
            let own = -proc::own_pid();
            let taken = place.compare_exchange(holder, own, Ordering::SeqCst, Ordering::SeqCst);
            if taken.is_ok() {
                forks.fetch_add(1, Ordering::SeqCst);
                let child = raw::fork(|| {
                    place.store(proc::own_pid(), Ordering::SeqCst);
                    bomb(shared);
                });
                // Also when the child was killed before it could say so.
                let _ = place.compare_exchange(own, child, Ordering::SeqCst, Ordering::SeqCst);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
