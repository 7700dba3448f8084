//! The controlling terminal, and which process group it listens to.

use std::fs::File;

use rustix::process::Pid as RawPid;

use crate::process::Pid;

/// The controlling terminal, if there is one.
pub(super) struct Terminal(File);

impl Terminal {
    pub(super) fn open() -> Option<Terminal> {
        File::open("/dev/tty").ok().map(Terminal)
    }

    /// The process group in the foreground.
    pub(super) fn foreground(&self) -> Option<i32> {
        let group = rustix::termios::tcgetpgrp(&self.0).ok()?;
        Some(group.as_raw_pid())
    }

    /// Puts the group of the command into the foreground, if tracker's is.
    ///
    /// A shell continues the job that it knows, and gives the terminal to that
    /// job's group. A command that is a shell itself, with a group of its own,
    /// would have been that job.
    pub(super) fn hand_over(&self, group: i32) {
        let own = rustix::process::getpgrp().as_raw_pid();
        let group = Pid::new(i64::from(group)).and_then(|group| RawPid::from_raw(group.raw()));
        if let Some(group) = group
            && self.foreground() == Some(own)
        {
            // The group can be gone by now. Then the terminal stays here.
            let _ = rustix::termios::tcsetpgrp(&self.0, group);
        }
    }
}
