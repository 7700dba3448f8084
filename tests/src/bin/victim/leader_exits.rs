//! The first thread exits; another one lives on, and forks.

use tracker_tests::stage::{announce, await_cast, await_state, detach, linger};
use tracker_tests::{Who, raw};

pub fn play(_: &[String]) {
    detach(|| {
        let own = Who::own();
        std::thread::spawn(move || {
            await_state(own, 'Z');
            announce("leaderless");
            raw::fork(|| {
                announce("late-child");
                linger();
            });
            linger();
        });
        raw::exit_thread();
    });
    await_cast("leaderless", 1);
    await_cast("late-child", 1);
}
