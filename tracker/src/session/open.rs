//! Opening a session.

use super::keep::KeepRule;
use crate::lineage::SessionId;
use crate::process::{ProcessId, Workdir};
use crate::source::SourceError;

/// What a session is opened with.
#[derive(Clone, Debug)]
pub struct OpenSession {
    /// What the opener calls it.
    pub name: String,
    /// For whom.
    pub root: Root,
    /// The uid that opens it.
    pub owner_uid: u32,
    /// Whom a reap spares.
    pub keep: Vec<KeepRule>,
    /// The directory that it works in. Who has its working directory there when
    /// the session ends, and is nobody else's, is ended with it.
    pub workdir: Option<Workdir>,
}

/// The process that a session is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// It is held back since its creation, so nothing can have been missed.
    Fresh(ProcessId),
    /// It is running. Its descendants, as far as they can be found, are
    /// members; who left its tree before tracking began is unknown.
    Running(ProcessId),
}

impl Root {
    /// Who it is.
    pub fn id(self) -> ProcessId {
        match self {
            Root::Fresh(id) | Root::Running(id) => id,
        }
    }
}

/// Something cannot be done with a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The process that it was to be opened for is gone.
    #[error("cannot open a session for process {0}: it is gone")]
    Gone(ProcessId),
    /// The id belongs to no live session.
    #[error("there is no session {0}; `tracker session list` shows those that are open")]
    Unknown(SessionId),
    /// The source could not answer.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// No descriptor or no random number could be had.
    #[error("cannot open a session: {0}")]
    System(#[from] std::io::Error),
}
