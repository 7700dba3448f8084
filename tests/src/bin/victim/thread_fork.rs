//! A thread that is not the first one forks.

use tracker_tests::raw;
use tracker_tests::stage::{announce, await_cast, linger};

pub fn play(_: &[String]) {
    announce("creator");
    let thread = std::thread::spawn(|| {
        raw::fork(|| {
            announce("child-of-thread");
            linger();
        });
    });
    thread.join().expect("the thread");
    await_cast("child-of-thread", 1);
}
