//! A pidfd: a handle that keeps meaning the same process when its pid is reused.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::PidfdFlags;

use super::identity::Pid;

/// An open pidfd.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

/// What `pidfd_open` found.
#[derive(Debug)]
pub enum Opened {
    /// A process has the pid: maybe a zombie, maybe another one than expected.
    Live(PidFd),
    /// Nobody has.
    Gone,
}

impl PidFd {
    /// `pidfd_open(2)`.
    pub fn open(pid: Pid) -> Result<Opened, PidFdError> {
        let Some(raw) = rustix::process::Pid::from_raw(pid.raw()) else {
            return Ok(Opened::Gone);
        };
        match rustix::process::pidfd_open(raw, PidfdFlags::empty()) {
            Ok(fd) => Ok(Opened::Live(PidFd(fd))),
            // EINVAL (ENOENT since 6.16): the pid is a thread's, or its holder
            // is past the point where it still is a thread group leader.
            Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => Ok(Opened::Gone),
            Err(errno) => Err(PidFdError {
                call: "pidfd_open",
                pid,
                errno,
            }),
        }
    }

    /// Whether the whole thread group has exited. Does not wait.
    pub fn is_dead(&self) -> bool {
        self.wait(Duration::ZERO)
    }

    /// Waits until the whole thread group has exited, at most for `limit`;
    /// answers whether it has.
    pub fn wait(&self, limit: Duration) -> bool {
        let limit = Timespec::try_from(limit).ok();
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        matches!(rustix::event::poll(&mut fds, limit.as_ref()), Ok(1..))
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A pidfd could not be had.
#[derive(Debug, thiserror::Error)]
#[error("{call} of process {pid}: {errno}")]
pub struct PidFdError {
    /// The system call.
    pub call: &'static str,
    /// Whose.
    pub pid: Pid,
    /// What the kernel answered.
    pub errno: Errno,
}

impl PidFdError {
    /// Whether a descriptor that is closed could help.
    pub fn is_out_of_descriptors(&self) -> bool {
        matches!(self.errno, Errno::MFILE | Errno::NFILE)
    }
}
