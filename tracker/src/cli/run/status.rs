//! The exit status of `tracker run`.

use crate::cli::exit::Exit;
use crate::process::launch::{Change, ExecError};
use crate::reap::{Report, Verdict};

/// How the command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// By itself, with this code.
    Exited(u8),
    /// By this signal.
    Signalled(u8),
    /// It was never executed.
    NotExecuted(ExecError),
}

impl Ended {
    /// From what `wait(2)` tells, unless the command goes on.
    pub(super) fn of_change(change: Change) -> Option<Ended> {
        match change {
            Change::Exited(code) => Some(Ended::Exited(code)),
            Change::Signalled(signal) => Some(Ended::Signalled(signal)),
            Change::Stopped(_) | Change::Continued => None,
        }
    }

    /// The status as a shell or `env(1)` would have it.
    fn exit(&self) -> Exit {
        match self {
            Ended::Exited(code) => Exit::code(*code),
            Ended::Signalled(signal) => Exit::signal(*signal),
            Ended::NotExecuted(error) if error.is_not_found() => Exit::NOT_FOUND,
            Ended::NotExecuted(_) => Exit::NOT_EXECUTABLE,
        }
    }
}

/// The command's own status, unless that is 0 and the teardown was not a success.
/// `None` for the report: there is none, because the teardown failed.
pub(super) fn exit(ended: &Ended, report: Option<&Report>, fail_on_leak: bool) -> Exit {
    let own = ended.exit();
    if own != Exit::SUCCESS {
        return own;
    }
    match report {
        None => Exit::NOT_PROVEN,
        // Nobody asked for what is alive to be ended.
        Some(report) if report.dry_run && fail_on_leak && !report.processes.is_empty() => {
            Exit::LEAKED
        }
        Some(report) if report.dry_run => own,
        Some(report) if report.verdict != Verdict::Complete => Exit::NOT_PROVEN,
        Some(report) if fail_on_leak && report.signalled_any() => Exit::LEAKED,
        Some(_) => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reap::TargetEntry;
    use crate::source::SourceKind;

    fn report(verdict: Verdict) -> Report {
        let path = "/w".to_owned();
        let target = TargetEntry::Directory { path };
        Report {
            verdict,
            ..Report::refused(target, SourceKind::Ebpf, String::new())
        }
    }

    fn leaky(verdict: Verdict, signals: &[&str]) -> Report {
        let entry = serde_json::json!({
            "pid": 7, "start_ticks": 1, "comm": "", "exe": "", "cmdline": [], "evidence": [],
            "outcome": "terminated", "signals": signals,
        });
        Report {
            processes: vec![serde_json::from_value(entry).unwrap()],
            ..report(verdict)
        }
    }

    #[test]
    fn the_commands_own_status_comes_first() {
        for (ended, status) in [
            (Ended::Exited(3), Exit::code(3)),
            (Ended::Signalled(2), Exit::code(130)),
            (Ended::Signalled(64), Exit::code(192)),
        ] {
            assert_eq!(exit(&ended, None, true), status);
            assert_eq!(
                exit(&ended, Some(&report(Verdict::Survivors)), true),
                status
            );
        }
    }

    #[test]
    fn success_is_only_reported_when_nothing_is_left() {
        let zero = Ended::Exited(0);
        let exit = |report: &Report, fail| exit(&zero, Some(report), fail);
        assert_eq!(exit(&report(Verdict::Complete), true), Exit::SUCCESS);
        for verdict in [Verdict::Survivors, Verdict::Incomplete, Verdict::Refused] {
            assert_eq!(exit(&report(verdict), false), Exit::NOT_PROVEN);
        }
        let ended = leaky(Verdict::Complete, &["TERM"]);
        assert_eq!(exit(&ended, false), Exit::SUCCESS);
        assert_eq!(exit(&ended, true), Exit::LEAKED);
        let by_itself = leaky(Verdict::Complete, &[]);
        assert_eq!(exit(&by_itself, true), Exit::SUCCESS);
    }

    #[test]
    fn what_was_to_be_left_alone_is_no_failure_unless_that_was_asked_for() {
        let zero = Ended::Exited(0);
        let mut left = leaky(Verdict::Incomplete, &[]);
        left.dry_run = true;
        assert_eq!(exit(&zero, Some(&left), false), Exit::SUCCESS);
        assert_eq!(exit(&zero, Some(&left), true), Exit::LEAKED);
        left.processes.clear();
        assert_eq!(exit(&zero, Some(&left), true), Exit::SUCCESS);
    }

    #[test]
    fn a_command_that_was_not_executed_has_the_status_of_env() {
        let error = |errno| {
            Ended::NotExecuted(ExecError {
                program: "x".into(),
                errno,
            })
        };
        let status = |errno| exit(&error(errno), None, false);
        assert_eq!(status(rustix::io::Errno::NOENT), Exit::NOT_FOUND);
        assert_eq!(status(rustix::io::Errno::ACCESS), Exit::NOT_EXECUTABLE);
        assert_eq!(status(rustix::io::Errno::NOEXEC), Exit::NOT_EXECUTABLE);
    }
}
