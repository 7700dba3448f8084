//! Waiting for children, all of them: a tracker that runs a command can get
//! more than it started, by `CLONE_PARENT` and as a subreaper.

use rustix::io::Errno;
use rustix::process::{WaitOptions, WaitStatus};

use crate::process::Pid;

/// `__WALL` of `wait(2)`: children that do not announce their end by `SIGCHLD` too.
const ALL: WaitOptions = WaitOptions::from_bits_retain(0x4000_0000);

/// What became of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It ended by itself, with this code.
    Exited(u8),
    /// A signal ended it.
    Signalled(u8),
    /// A signal stopped it.
    Stopped(i32),
    /// It was continued.
    Continued,
}

/// What [`wait_any`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// A child changed. If it ended, its pid is free from now on.
    Changed(Pid, Change),
    /// There are children, and nothing is new about them.
    Nothing,
    /// There are no children.
    NoChildren,
}

/// Asks for one change of one child. Does not block.
pub fn wait_any() -> Waited {
    let options = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED | ALL;
    loop {
        match rustix::io::retry_on_intr(|| rustix::process::wait(options)) {
            Ok(Some((pid, status))) => {
                let pid = Pid::new(i64::from(pid.as_raw_pid()));
                if let (Some(pid), Some(change)) = (pid, change(status)) {
                    return Waited::Changed(pid, change);
                }
            }
            Err(Errno::CHILD) => return Waited::NoChildren,
            // No other error of `wait(2)` can come of these arguments.
            Ok(None) | Err(_) => return Waited::Nothing,
        }
    }
}

fn change(status: WaitStatus) -> Option<Change> {
    let small = |number: i32| u8::try_from(number).ok();
    if let Some(code) = status.exit_status() {
        return small(code).map(Change::Exited);
    }
    if let Some(signal) = status.terminating_signal() {
        return small(signal).map(Change::Signalled);
    }
    if let Some(signal) = status.stopping_signal() {
        return Some(Change::Stopped(signal));
    }
    status.continued().then_some(Change::Continued)
}
