//! What the tests of tracker share.
//!
//! Nothing here uses tracker's own code: what it claims is judged by readers
//! of the kernel that were written apart from it.
//!
//! - [`Scene`]: a marked stage for one test. Whoever was started on it is
//!   found again, and ended when the test is over, however it ended.
//! - [`Lifeline`]: a pipe that every descendant inherits; end of file means
//!   that all are dead.
//! - [`Canary`]: a process outside that must live.
//! - [`Tracker`]: runs the binary, with a deadline.
//! - [`stage`] and [`raw`]: what the victim programs (`src/bin/victim`) share.

mod canary;
mod cgroup;
mod daemon;
mod dweller;
mod lifeline;
mod needs;
pub mod proc;
mod programs;
pub mod raw;
mod report;
mod scene;
mod settings;
mod shared_daemon;
mod source;
pub mod stage;
mod tracked;
mod wait;

pub use canary::Canary;
pub use cgroup::Cgroup;
pub use daemon::{Answer, Daemon, Shell};
pub use dweller::Dweller;
pub use lifeline::Lifeline;
pub use needs::{Need, able, has};
pub use proc::{Life, Stat, Who};
pub use programs::{copy_program, tracker_binary, victim_binary};
pub use report::{Entry, Report};
pub use scene::Scene;
pub use settings::{GlobalLock, LastPid, PidMax};
pub use shared_daemon::SharedDaemon;
pub use source::Source;
pub use tracked::{Ended, Running, Tracker};
pub use wait::{PATIENCE, until};
