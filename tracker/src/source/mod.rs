//! Where the knowledge about processes comes from: the kernel probe, or
//! snapshots of `/proc`.

pub mod ebpf;
mod gap;
pub mod host;
mod procfs;
mod select;

use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};

use crate::lineage::{Event, SessionId, Tag};
use crate::process::ProcessId;

pub use gap::Gap;
pub use procfs::{ProcfsSource, Standby};
pub use select::{OpenError, Opened, PassedOver, Purpose, SourceChoice, open, open_pinned};

/// Which source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// The kernel probe.
    Ebpf,
    /// Snapshots of `/proc`.
    Procfs,
}

impl SourceKind {
    /// As options and reports write it.
    pub fn name(self) -> &'static str {
        match self {
            SourceKind::Ebpf => "ebpf",
            SourceKind::Procfs => "procfs",
        }
    }
}

/// A process that belongs to a session, and is not yet known to be dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Who it is.
    pub id: ProcessId,
    /// Its start time to the nanosecond, where the source is the kernel itself.
    pub start_ns: Option<u64>,
    /// Its innermost session, and whether it is kept.
    pub tag: Tag,
    /// Who created it, where that is known.
    pub creator: Option<ProcessId>,
    /// It cannot fork any more. It may be dead already (a zombie), so a pidfd
    /// has to tell.
    pub exiting: bool,
}

/// What the source knows about the sessions it was asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Every member that is not known to be dead. Zombies may be among them.
    pub found: Vec<Member>,
    /// Why there may be more, each with the session that it touches; none when
    /// this is proven to be all.
    pub gaps: Vec<(SessionId, Gap)>,
    /// What is not known of their past, though who is a member is: in words, for the report.
    pub notes: Vec<String>,
}

/// A process that is to be tagged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adoption {
    /// Who. Must be alive.
    pub root: ProcessId,
    /// What it gets.
    pub tag: Tag,
    /// The caller holds it back since its creation, so it has no descendants
    /// yet and nothing can have been missed.
    pub fresh: bool,
}

/// A source of knowledge about processes.
///
/// All calls are blocking and quick (milliseconds); they belong on a thread of
/// their own, not on an async runtime.
pub trait Source: Send + std::fmt::Debug {
    /// Which one it is.
    fn kind(&self) -> SourceKind;

    /// Hands over what happened since the last call, oldest first. What
    /// happened before this call is in it (read your own writes).
    fn drain(&mut self, sink: &mut dyn FnMut(Event)) -> Result<(), SourceError>;

    /// Tags a process and its descendants, going on until no untagged
    /// descendant is found. Descendants that carry the tag of a session other
    /// than `instead_of` keep it: the innermost session owns. Answers who got the tag.
    fn adopt(
        &mut self,
        adoption: Adoption,
        instead_of: Option<SessionId>,
    ) -> Result<Vec<ProcessId>, SourceError>;

    /// Takes a closed session's tag from whoever still has it (kept processes).
    fn release(&mut self, session: SessionId) -> Result<(), SourceError>;

    /// Who belongs to one of `sessions` now.
    fn members(&mut self, sessions: &[SessionId]) -> Result<Members, SourceError>;

    /// The tag of one process now, also while it exits; `None` when it has none
    /// or is gone. What is asked before a signal, so it has to be cheap.
    fn tag_of(&mut self, id: ProcessId) -> Result<Option<Tag>, SourceError>;

    /// Makes the kernel answer a fork of a member of `sessions` with SIGKILL
    /// until [`Source::absolve`], and at the latest until `until_ns`
    /// (`CLOCK_BOOTTIME`), should the caller die. Called again when members go
    /// on forking: the source then also kills what they create, at a cost to
    /// everybody. A source that cannot do so does nothing.
    fn condemn(&mut self, sessions: &[SessionId], until_ns: u64) -> Result<(), SourceError>;

    /// Ends [`Source::condemn`] and [`Source::shield`].
    fn absolve(&mut self, sessions: &[SessionId]) -> Result<(), SourceError>;

    /// Exempts processes from [`Source::condemn`] until [`Source::absolve`]:
    /// tracker's and the client's ancestors may be members of the very session
    /// that is reaped, and may fork. To be called before the session is
    /// condemned. Their descendants are not exempt.
    fn shield(&mut self, ids: &[ProcessId]) -> Result<(), SourceError> {
        let _ = ids;
        Ok(())
    }

    /// Asks for a wakeup of [`Source::news`] at each fork of a tagged process
    /// (while a reap runs), or no longer.
    fn wake_eagerly(&mut self, eagerly: bool) -> Result<(), SourceError>;

    /// Readable when there is something to drain; `None` for a source that has
    /// to be asked from time to time.
    fn news(&self) -> Option<BorrowedFd<'_>>;

    /// What the kernel probe counted; `None` for another source.
    fn counters(&self) -> Result<Option<ebpf::Counters>, SourceError> {
        Ok(None)
    }

    /// Since when each fork on this host has been handed over by
    /// [`Source::drain`] without an exception: `CLOCK_BOOTTIME`, nanoseconds.
    /// `None` for a source that does not see each fork.
    fn recorded_since(&self) -> Option<u64> {
        None
    }

    /// Withdraws [`Gap::AdoptedLate`] of a session that was opened just now:
    /// the caller has had those adopted as well who left the root's tree
    /// before, and knows from the record that there are no more.
    fn vouch(&mut self, session: SessionId) {
        let _ = session;
    }

    /// Whether the tags that an earlier tracker gave are still in force.
    fn took_over(&self) -> bool {
        false
    }

    /// The sessions that somebody has a tag of, also such as this tracker has
    /// not heard of.
    fn tagged(&mut self) -> Result<Vec<SessionId>, SourceError> {
        Ok(Vec::new())
    }

    /// Adds to what [`Source::members`] says about a session that an earlier
    /// tracker opened.
    fn note(&mut self, session: SessionId, gap: Gap) {
        let _ = (session, gap);
    }
}

/// A source could not answer.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// `/proc` could not be read.
    #[error(transparent)]
    Proc(#[from] crate::process::ProcError),
    /// A map of the probe could not be used.
    #[error("cannot {call} the probe's map {map}: {source}")]
    Map {
        /// What was tried.
        call: &'static str,
        /// On which map.
        map: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// The task iterator could not be read.
    #[error("cannot walk the kernel's tasks: {0}")]
    Census(#[source] std::io::Error),
    /// A program of the probe could not be attached.
    #[error("cannot attach to the end of system calls: {0}")]
    Attach(#[source] std::io::Error),
    /// The calling process could not be made a child subreaper.
    #[error("prctl(PR_SET_CHILD_SUBREAPER): {0}")]
    Subreaper(#[source] std::io::Error),
    /// A process that was to be tagged is gone.
    #[error("process {0} is gone")]
    Gone(ProcessId),
    /// A process that was to be tagged did not fit.
    #[error(
        "process {0} does not fit in the probe's map, which is full: end some processes, or, \
         if kernel.pid_max was raised, remake the map: stop the daemon, run \
         'tracker serve --unpin', and start it again"
    )]
    Full(ProcessId),
}

impl SourceError {
    /// Whether a descriptor that is closed could help.
    pub fn is_out_of_descriptors(&self) -> bool {
        match self {
            SourceError::Proc(error) => error.is_out_of_descriptors(),
            SourceError::Map { source, .. }
            | SourceError::Census(source)
            | SourceError::Attach(source) => {
                let errno = rustix::io::Errno::from_io_error(source);
                matches!(
                    errno,
                    Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE)
                )
            }
            SourceError::Subreaper(_) | SourceError::Gone(_) | SourceError::Full(_) => false,
        }
    }
}
