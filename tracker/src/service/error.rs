//! Why the daemon does not do what it was asked.

use crate::api::ErrorCode;
use crate::lineage::SessionId;
use crate::process::{Pid, PlaceError, ProcError, ProcessId};
use crate::reap::DirError;
use crate::session::{ParseKeepRuleError, SessionError};
use crate::source::SourceError;
use crate::store::StoreError;

/// A request failed.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// No session has this id or name, or the caller may not see it: who may
    /// not see a session does not learn that there is one.
    #[error("there is no session '{0}'; 'tracker session list' shows those that are open")]
    NoSession(String),
    /// Several sessions have this name.
    #[error("{count} sessions are called '{name}'; use the id")]
    Ambiguous {
        /// The name.
        name: String,
        /// How many.
        count: usize,
    },
    /// Nobody has the pid.
    #[error("there is no process {0}")]
    NoProcess(Pid),
    /// The pid belongs to another process than was meant.
    #[error("process {given} is gone: its pid belongs to {now} now")]
    AnotherProcess {
        /// Who was meant.
        given: ProcessId,
        /// Who has the pid.
        now: ProcessId,
    },
    /// Nothing is remembered of the process.
    #[error("nothing is known of process {0}")]
    Unknown(ProcessId),
    /// The process is dead, and waits for its parent.
    #[error("process {0} is dead")]
    Dead(ProcessId),
    /// The process is pid 1, a kernel thread, or the daemon.
    #[error("process {pid} is never ended, so no session can own it: it is {why}")]
    Unsuitable {
        /// Which one.
        pid: Pid,
        /// Why not.
        why: &'static str,
    },
    /// The caller has no pid that the daemon could know.
    #[error("the caller is in another pid namespace, so 'self' means nothing here; name a pid")]
    NoCaller,
    /// The process belongs to no session of the caller's.
    #[error("process {0} belongs to no session of yours, so only root may have it kept")]
    NotAMember(ProcessId),
    /// The caller may not do that.
    #[error("{0}")]
    Forbidden(String),
    /// There is no such reap, or the caller may not see it.
    #[error("there is no reap '{0}'")]
    NoReap(String),
    /// A reap of the session is under way.
    #[error("session {session} is being reaped already, by reap {reap}")]
    Busy {
        /// The session.
        session: SessionId,
        /// The reap.
        reap: String,
    },
    /// The reap is under way already.
    #[error("reap {0} is under way already")]
    Underway(String),
    /// A directory cannot be reaped, or worked in.
    #[error(transparent)]
    Directory(#[from] DirError),
    /// A field has a value that makes no sense.
    #[error("{0}")]
    BadField(String),
    /// A keep rule makes no sense.
    #[error(transparent)]
    Keep(#[from] ParseKeepRuleError),
    /// Too many of something.
    #[error("{0}")]
    TooMany(String),
    /// The daemon is shutting down.
    #[error("the daemon is shutting down; a reap under way goes on when it starts again")]
    ShuttingDown,
    /// A thread could not be started, or ended badly.
    #[error("cannot run the request: {0}")]
    Thread(String),
    /// The state could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A session could not be used.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The source could not answer.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// `/proc` could not be read.
    #[error(transparent)]
    Proc(#[from] ProcError),
    /// What was stored cannot be read back.
    #[error("cannot read back what was stored: {0}")]
    Json(#[from] serde_json::Error),
    /// A descriptor or a random number could not be had.
    #[error("cannot run the request: {0}")]
    System(#[from] std::io::Error),
}

impl ServiceError {
    /// What kind of thing went wrong.
    pub fn code(&self) -> ErrorCode {
        match self {
            ServiceError::NoSession(_)
            | ServiceError::NoProcess(_)
            | ServiceError::Dead(_)
            | ServiceError::Unknown(_)
            | ServiceError::NoReap(_)
            | ServiceError::Session(SessionError::Gone(_) | SessionError::Unknown(_)) => {
                ErrorCode::NotFound
            }
            ServiceError::Ambiguous { .. }
            | ServiceError::AnotherProcess { .. }
            | ServiceError::NotAMember(_)
            | ServiceError::Underway(_)
            | ServiceError::Busy { .. } => ErrorCode::Conflict,
            ServiceError::Directory(error) => code_of(error),
            ServiceError::NoCaller | ServiceError::BadField(_) | ServiceError::Keep(_) => {
                ErrorCode::BadRequest
            }
            ServiceError::Unsuitable { .. } | ServiceError::Forbidden(_) => ErrorCode::Forbidden,
            ServiceError::TooMany(_)
            | ServiceError::ShuttingDown
            | ServiceError::Session(SessionError::Source(SourceError::Full(_))) => {
                ErrorCode::Unavailable
            }
            ServiceError::Thread(_)
            | ServiceError::Store(_)
            | ServiceError::Session(SessionError::Source(_) | SessionError::System(_))
            | ServiceError::Source(_)
            | ServiceError::Proc(_)
            | ServiceError::Json(_)
            | ServiceError::System(_) => ErrorCode::Internal,
        }
    }
}

fn code_of(error: &DirError) -> ErrorCode {
    match error {
        DirError::StillThere(_) | DirError::Place(PlaceError::Root) => ErrorCode::Refused,
        DirError::Missing(_) | DirError::Place(PlaceError::Missing(_)) => ErrorCode::NotFound,
        DirError::Place(
            PlaceError::Relative(_) | PlaceError::NotADirectory(_) | PlaceError::Io { .. },
        ) => ErrorCode::BadRequest,
        DirError::Place(PlaceError::Proc(_))
        | DirError::Look { .. }
        | DirError::Hangs(_)
        | DirError::Target(_) => ErrorCode::Internal,
    }
}
