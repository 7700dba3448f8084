//! `PID` or `PID@START` on a command line.

use std::str::FromStr;

use crate::api::ProcessRef;
use crate::process::{ParseProcessIdError, Pid, Proc, ProcError, ProcessId, StartTime};

/// A process as a user names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessArg {
    /// Its pid.
    pub(super) pid: Pid,
    /// Its start time as `/proc` shows it; whoever has the pid now, if it was left out.
    pub(super) start_time: Option<StartTime>,
}

impl ProcessArg {
    /// Who that is now.
    pub(super) fn resolve(self, proc: &Proc) -> Result<ProcessId, ResolveError> {
        let pid = self.pid;
        let seen = proc.seen(pid)?.ok_or(ResolveError::Nobody(pid))?;
        match self.start_time {
            Some(given) if given != seen.stat.start_time => Err(ResolveError::Another {
                given: ProcessId::new(pid, given),
                now: ProcessId::new(pid, seen.stat.start_time),
            }),
            _ => Ok(seen.id),
        }
    }
}

impl ProcessArg {
    /// As the daemon, in the initial time namespace, knows it.
    pub(super) fn for_daemon(self, proc: &Proc) -> ProcessRef {
        match self.start_time {
            None => ProcessRef::Pid(self.pid),
            Some(shown) => {
                let start_time = proc.clock().to_initial(shown);
                ProcessRef::Exact(ProcessId::new(self.pid, start_time))
            }
        }
    }
}

impl FromStr for ProcessArg {
    type Err = ParseProcessIdError;

    fn from_str(text: &str) -> Result<ProcessArg, ParseProcessIdError> {
        if text.contains('@') {
            let id: ProcessId = text.parse()?;
            return Ok(ProcessArg {
                pid: id.pid,
                start_time: Some(id.start_time),
            });
        }
        Ok(ProcessArg {
            pid: text.parse()?,
            start_time: None,
        })
    }
}

/// A process that was named cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResolveError {
    /// Nobody has the pid.
    #[error("there is no process {0}")]
    Nobody(Pid),
    /// The pid belongs to another process than was meant.
    #[error("process {given} is gone: its pid belongs to {now} now")]
    Another {
        /// Who was meant.
        given: ProcessId,
        /// Who has the pid.
        now: ProcessId,
    },
    /// `/proc` could not be read.
    #[error(transparent)]
    Proc(#[from] ProcError),
}
