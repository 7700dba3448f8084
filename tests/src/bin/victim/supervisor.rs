//! Starts its worker again whenever that dies. It ignores SIGTERM; the worker
//! does not.

use tracker_tests::stage::{announce, await_cast, detach, is_over, linger};
use tracker_tests::{raw, stage};

/// So that a test that fails ends.
const MOST_FORKS: u32 = 50_000;

pub fn play(_: &[String]) {
    detach(|| {
        raw::on_term(|| {});
        announce("supervisor");
        for _ in 0..MOST_FORKS {
            if is_over() {
                return;
            }
            let worker = raw::fork(|| {
                raw::default(libc::SIGTERM);
                announce("worker");
                linger();
            });
            stage::wait_for(worker);
        }
    });
    await_cast("worker", 1);
}
