//! What is known of one session.

use serde::{Deserialize, Serialize};

use super::keep::KeepRule;
use crate::lineage::SessionId;
use crate::process::{ProcessId, Workdir};

/// A session.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its id, which is also its tag in the kernel.
    pub id: SessionId,
    /// What its opener calls it; need not be unique.
    pub name: String,
    /// The processes that it was opened for.
    pub roots: Vec<ProcessId>,
    /// The session that it lies in: reaping that one reaps this one too.
    pub parent: Option<SessionId>,
    /// The uid that opened it.
    pub owner_uid: u32,
    /// Whom a reap spares.
    pub keep: Vec<KeepRule>,
    /// The directory that it works in.
    pub workdir: Option<Workdir>,
    /// It was opened for a process whose past was not recorded.
    pub late: bool,
    /// When it was opened: `CLOCK_BOOTTIME`, nanoseconds.
    pub opened_ns: u64,
    /// Where it is in its life.
    pub state: SessionState,
}

/// Where a session is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// It owns what its members create.
    Open,
    /// A reap is under way, or failed and will be tried again.
    Closing,
}
