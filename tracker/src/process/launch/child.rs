//! The command, once it may run.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;

use crate::process::forward::forward;
use crate::process::{Escaped, PidFd, ProcessId};

/// A child of this process that [`super::Launch`] started.
#[derive(Debug)]
pub struct Child {
    id: ProcessId,
    pidfd: PidFd,
    status: OwnedFd,
    program: OsString,
}

impl Child {
    pub(super) fn new(id: ProcessId, pidfd: PidFd, status: OwnedFd, program: &OsStr) -> Child {
        Child {
            id,
            pidfd,
            status,
            program: program.to_owned(),
        }
    }

    /// Who it is.
    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// Passes a signal on to it; nothing happens when it is dead.
    ///
    /// The descriptor was opened by its parent before anybody could wait for
    /// it, so it has never meant another process.
    pub fn forward(&self, signal: i32) -> Result<(), Errno> {
        match forward(&self.pidfd, signal) {
            Err(Errno::SRCH) => Ok(()),
            answer => answer,
        }
    }

    /// Why the command was not executed; `None` when it was. Ask when it has
    /// ended: before that, `None` can also mean "not yet".
    pub fn exec_error(&self) -> Option<ExecError> {
        let mut errno = [0; 4];
        let read = rustix::io::retry_on_intr(|| rustix::io::read(&self.status, &mut errno));
        (read == Ok(errno.len())).then(|| ExecError {
            program: self.program.clone(),
            errno: Errno::from_raw_os_error(i32::from_ne_bytes(errno)),
        })
    }

    /// Ends it and takes its exit status away.
    pub(super) fn kill_and_wait(self) {
        // It is this process's own child, so neither call can fail but by
        // somebody else having waited for it: then there is nothing to do.
        let _ = self.forward(rustix::process::Signal::KILL.as_raw());
        if let Some(pid) = rustix::process::Pid::from_raw(self.id.pid.raw()) {
            let _ = rustix::io::retry_on_intr(|| {
                rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty())
            });
        }
    }
}

/// Readable when it has ended.
impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// The command could not be executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot run '{}': {}", Escaped(program.as_bytes()), self.reason())]
pub struct ExecError {
    /// The command as it was given.
    pub program: OsString,
    /// What the kernel answered.
    pub errno: Errno,
}

impl ExecError {
    /// Whether there is no such program.
    pub fn is_not_found(&self) -> bool {
        self.errno == Errno::NOENT
    }

    fn reason(&self) -> String {
        match self.errno {
            Errno::NOENT if self.program.as_bytes().contains(&b'/') => {
                "no such file, or its interpreter is missing".to_owned()
            }
            Errno::NOENT if self.program.is_empty() => "its name is empty".to_owned(),
            Errno::NOENT => "command not found".to_owned(),
            Errno::ACCESS if std::path::Path::new(&self.program).is_dir() => {
                "it is a directory".to_owned()
            }
            errno => errno.to_string(),
        }
    }
}
