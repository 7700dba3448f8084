//! Waiting for a state of the system.

use std::time::{Duration, Instant};

/// How long anything may take before a test gives up. Far more than is ever
/// needed: it tells a hang from a busy machine, and measures nothing.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Asks until the answer is `Some`. Fails the test, saying `what` was awaited,
/// when [`PATIENCE`] ends.
#[track_caller]
pub fn until<T>(what: &str, mut answer: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = answer() {
            return answer;
        }
        assert!(Instant::now() < end, "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
