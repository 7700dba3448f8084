//! Job control: when tracker stops because the command has stopped.
//!
//! The shell knows tracker, not the command. Without tracker it would see the
//! command stop, so it has to see tracker stop, or nobody could type `fg`. But
//! who stops the command alone, to throttle it, continues it alone as well:
//! then tracker has to stay awake.

use crate::process::launch::Change;

/// Signals by which a terminal or a shell stops a job.
const STOPS_JOBS: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// What is known of stops.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    /// Tracker itself was asked to stop.
    asked: bool,
    /// The command is stopped, by this signal.
    stopped: Option<i32>,
    /// Tracker has stopped and was continued.
    resumed: bool,
}

impl Jobs {
    /// Whether a signal asks tracker to stop.
    pub(super) fn is_stop(signal: i32) -> bool {
        STOPS_JOBS.contains(&signal)
    }

    /// Tracker got a signal.
    pub(super) fn hear(&mut self, signal: i32) {
        if Jobs::is_stop(signal) {
            self.asked = true;
        }
        if signal == libc::SIGCONT {
            self.asked = false;
        }
    }

    /// The command changed.
    pub(super) fn note(&mut self, change: Change) {
        self.stopped = match change {
            Change::Stopped(signal) => Some(signal),
            Change::Continued | Change::Exited(_) | Change::Signalled(_) => None,
        };
    }

    /// Whether the command is stopped, and tracker has not stopped since.
    pub(super) fn is_command_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// The signal that tracker is to stop by now, if it is to stop. It is taken
    /// to have done so, and to have been continued.
    pub(super) fn take_stop(&mut self, in_foreground: impl FnOnce() -> bool) -> Option<i32> {
        let signal = self.stopped?;
        let with_us = self.asked && Jobs::is_stop(signal);
        if !with_us && !in_foreground() {
            return None;
        }
        *self = Jobs {
            asked: false,
            stopped: None,
            resumed: true,
        };
        Some(signal)
    }

    /// Whether a SIGCONT is the one that has just continued tracker.
    pub(super) fn take_resumed(&mut self) -> bool {
        std::mem::take(&mut self.resumed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_the_terminal_stops_both_in_whatever_order_it_is_noticed() {
        let mut jobs = Jobs::default();
        jobs.hear(libc::SIGTSTP);
        assert_eq!(jobs.take_stop(|| false), None, "the command may handle it");
        jobs.note(Change::Stopped(libc::SIGTSTP));
        assert_eq!(jobs.take_stop(|| false), Some(libc::SIGTSTP));
        assert_eq!(jobs.take_stop(|| true), None, "once");

        jobs.note(Change::Stopped(libc::SIGTTIN));
        assert_eq!(jobs.take_stop(|| false), None);
        jobs.hear(libc::SIGTTIN);
        assert_eq!(jobs.take_stop(|| false), Some(libc::SIGTTIN));
    }

    #[test]
    fn a_throttled_command_does_not_stop_tracker() {
        let mut jobs = Jobs::default();
        jobs.note(Change::Stopped(libc::SIGSTOP));
        assert_eq!(jobs.take_stop(|| false), None);
        jobs.hear(libc::SIGTSTP);
        assert_eq!(jobs.take_stop(|| false), None);
    }

    #[test]
    fn a_command_that_stops_itself_at_the_terminal_gives_the_shell_back() {
        let mut jobs = Jobs::default();
        jobs.note(Change::Stopped(libc::SIGSTOP));
        assert_eq!(jobs.take_stop(|| true), Some(libc::SIGSTOP));
        assert!(jobs.take_resumed());
        assert!(!jobs.take_resumed());
    }

    #[test]
    fn a_command_that_runs_again_is_not_stopped() {
        let mut jobs = Jobs::default();
        jobs.note(Change::Stopped(libc::SIGTSTP));
        jobs.note(Change::Continued);
        jobs.hear(libc::SIGTSTP);
        assert_eq!(jobs.take_stop(|| true), None);
    }
}
