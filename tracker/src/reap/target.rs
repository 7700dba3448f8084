//! What the engine asks of a target: a session, a process with its
//! descendants, or a directory.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::describe::Description;
use super::report::{Evidence, HolderEntry, SpareReason, TargetEntry};
use crate::process::ProcessId;
use crate::session::SessionError;
use crate::source::{SourceError, SourceKind};

/// A process that the target owns and may end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Who.
    pub id: ProcessId,
    /// Its start time in nanoseconds, where the kernel told.
    pub start_ns: Option<u64>,
    /// Who created it, where that is known.
    pub creator: Option<ProcessId>,
    /// Why it belongs to the target.
    pub evidence: Vec<Evidence>,
}

/// A process that the target came across and leaves alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spared {
    /// Who.
    pub id: ProcessId,
    /// Its start time in nanoseconds, where the kernel told.
    pub start_ns: Option<u64>,
    /// Why it was looked at at all.
    pub evidence: Vec<Evidence>,
    /// Why it is left alone.
    pub reason: SpareReason,
    /// The reason in words: by which rule, whose session.
    pub detail: String,
}

/// What one look found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Who is to be ended and is not known to be dead. Zombies may be among
    /// them; the engine finds that out by their pidfds.
    pub candidates: Vec<Candidate>,
    /// Who is left alone.
    pub spared: Vec<Spared>,
    /// Why there may be more than was found. None: this is proven to be all.
    /// Those of the last look count, so a target repeats what it cannot heal.
    pub gaps: Vec<String>,
    /// What else the report should say without any bearing on the verdict.
    pub notes: Vec<String>,
}

/// Something that can be reaped.
///
/// The engine calls it from one thread. `survey` decides who may be ended
/// (protection, ownership, keep rules: guarantee G5); the engine decides when,
/// and verifies identity.
pub trait Target {
    /// How the report names it.
    fn entry(&self) -> TargetEntry;

    /// Which source it knows its members from.
    fn source(&self) -> SourceKind;

    /// Looks once. Must find every candidate that was there before the call.
    fn survey(&mut self) -> Result<Survey, TargetError>;

    /// What is known of `id` without asking `/proc`; `None` when that is
    /// nothing, so that `/proc` is read.
    fn describe(&mut self, id: ProcessId) -> Option<Description> {
        let _ = id;
        None
    }

    /// Who else uses what the target is about: asked once, when all is over.
    fn holders(&mut self) -> Vec<HolderEntry> {
        Vec::new()
    }

    /// Asked right before each signal: whether the target still owns `id` and
    /// may end it. Cheap.
    fn recheck(&mut self, id: ProcessId) -> Result<(), (SpareReason, String)>;

    /// Marks the target's members so that the kernel kills whoever of them
    /// forks, until [`Target::absolve`] and at the latest until `until_ns`
    /// (`CLOCK_BOOTTIME`). Called in the SIGKILL phase only, and once more in it
    /// when they go on forking. Nothing, where the kernel does not know them.
    fn condemn(&mut self, until_ns: u64) -> Result<(), TargetError> {
        let _ = until_ns;
        Ok(())
    }

    /// Ends [`Target::condemn`]. Called on every way out.
    fn absolve(&mut self) -> Result<(), TargetError> {
        Ok(())
    }

    /// A descriptor that becomes readable when a member may have been created;
    /// [`Target::survey`] makes it unreadable again. `None` where nothing tells.
    fn news(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// How often to look again where [`Target::news`] cannot tell.
    fn look_again(&self) -> Option<Duration>;
}

/// A look at the target failed.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The source could not answer.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// `/proc` could not be read.
    #[error(transparent)]
    Proc(#[from] crate::process::ProcError),
    /// The session is gone, or could not be looked at.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl TargetError {
    /// Whether a descriptor that is closed could help.
    pub fn is_out_of_descriptors(&self) -> bool {
        match self {
            TargetError::Source(error) | TargetError::Session(SessionError::Source(error)) => {
                error.is_out_of_descriptors()
            }
            TargetError::Proc(error) => error.is_out_of_descriptors(),
            TargetError::Session(_) => false,
        }
    }
}
