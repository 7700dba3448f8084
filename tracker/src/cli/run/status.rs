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
