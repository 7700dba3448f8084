//! Exit statuses, and errors that carry one.

use std::fmt;
use std::process::ExitCode;

use super::output::PrintError;
use crate::reap::Verdict;

/// An exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exit(u8);

impl Exit {
    /// Done; of a reap: nothing in the target is alive.
    pub(super) const SUCCESS: Exit = Exit(0);
    /// Something failed.
    pub(super) const ERROR: Exit = Exit(1);
    /// The arguments make no sense.
    pub(super) const USAGE: Exit = Exit(2);
    /// A reap left something alive.
    pub(super) const SURVIVORS: Exit = Exit(3);
    /// A reap cannot prove that nothing is alive.
    pub(super) const INCOMPLETE: Exit = Exit(4);
    /// A reap was refused.
    pub(super) const REFUSED: Exit = Exit(5);
    /// `run`: something was left behind.
    pub(super) const LEAKED: Exit = Exit(120);
    /// `run`: it is not proven that nothing is left.
    pub(super) const NOT_PROVEN: Exit = Exit(121);
    /// `run`: tracker could not start the command.
    pub(super) const NOT_STARTED: Exit = Exit(125);
    /// `run`: the command cannot be executed.
    pub(super) const NOT_EXECUTABLE: Exit = Exit(126);
    /// `run`: the command was not found.
    pub(super) const NOT_FOUND: Exit = Exit(127);

    /// A command's own status.
    pub(super) fn code(code: u8) -> Exit {
        Exit(code)
    }

    /// What a shell says of a command that a signal ended.
    pub(super) fn signal(signal: u8) -> Exit {
        Exit(128_u8.saturating_add(signal))
    }

    /// The status of `reap` and of `session close`.
    pub(super) fn of_verdict(verdict: Verdict) -> Exit {
        match verdict {
            Verdict::Complete => Exit::SUCCESS,
            Verdict::Survivors => Exit::SURVIVORS,
            Verdict::Incomplete => Exit::INCOMPLETE,
            Verdict::Refused => Exit::REFUSED,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.0)
    }
}

/// Why a command did not do what it was asked. Any error turns into one by
/// `?`, with [`Exit::ERROR`].
#[derive(Debug)]
pub(super) struct Failure {
    /// The exit status.
    pub(super) exit: Exit,
    error: anyhow::Error,
}

impl Failure {
    /// An error with a status of its own.
    pub(super) fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Failure {
        Failure {
            exit,
            error: error.into(),
        }
    }

    /// The same with another status.
    pub(super) fn with_exit(self, exit: Exit) -> Failure {
        Failure { exit, ..self }
    }

    /// Whether stdout was closed by its reader.
    pub(super) fn is_broken_pipe(&self) -> bool {
        self.error
            .downcast_ref::<PrintError>()
            .is_some_and(PrintError::is_broken_pipe)
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::new(Exit::ERROR, error)
    }
}

/// The error and what caused it, on one line. A cause that the error's own
/// text has already is not repeated.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = String::new();
        for cause in self.error.chain() {
            let cause = cause.to_string();
            if !line.contains(&cause) {
                if !line.is_empty() {
                    line.push_str(": ");
                }
                line.push_str(&cause);
            }
        }
        f.write_str(&line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let inner = anyhow::anyhow!("no such file");
        let failure = Failure::from(
            inner
                .context("cannot read /x: no such file")
                .context("reap"),
        );
        assert_eq!(failure.to_string(), "reap: cannot read /x: no such file");
        let inner = anyhow::anyhow!("no such file");
        let failure = Failure::from(inner.context("nobody at /x (no such file); start one"));
        assert_eq!(
            failure.to_string(),
            "nobody at /x (no such file); start one"
        );
    }
}
