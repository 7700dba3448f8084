//! Answers. Fields are added, never changed, within one version of the API;
//! names from the kernel are escaped.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::lineage::SessionId;
use crate::process::{FilePath, Pid, ProcessId, StartTime};
use crate::reap::{Evidence, Report, SpareReason};
use crate::session::SessionState;
use crate::source::SourceKind;
use crate::source::ebpf::Counters;
use crate::store::ReapState;

/// Who a process is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
pub struct ProcessKey {
    /// Thread group id.
    pub pid: Pid,
    /// Field 22 of `/proc/PID/stat`.
    pub start_ticks: u64,
}

impl From<ProcessId> for ProcessKey {
    fn from(id: ProcessId) -> ProcessKey {
        ProcessKey {
            pid: id.pid,
            start_ticks: id.start_time.ticks(),
        }
    }
}

impl From<ProcessKey> for ProcessId {
    fn from(key: ProcessKey) -> ProcessId {
        ProcessId::new(key.pid, StartTime::from_ticks(key.start_ticks))
    }
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionInfo {
    /// Names it; does not change.
    pub id: SessionId,
    /// What its opener calls it. Not escaped: it came as JSON.
    pub name: String,
    /// The processes that it was opened for.
    pub roots: Vec<ProcessKey>,
    /// The session that it lies in.
    pub parent: Option<SessionId>,
    /// The uid that opened it.
    pub owner_uid: u32,
    /// Whom a reap spares.
    pub keep: Vec<String>,
    /// The directory that it works in, without symbolic links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<FilePath>,
    /// When it was opened: nanoseconds since boot.
    pub opened_ns: u64,
    /// Whether a reap is under way, or has left something alive.
    pub state: SessionState,
    /// How many of its own members are not known to be dead, without those of
    /// sessions inside it.
    pub alive: u64,
}

/// All sessions that the caller may see, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionList {
    /// The sessions.
    pub sessions: Vec<SessionInfo>,
}

/// A reap, under way or over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reap {
    /// Names it.
    pub id: String,
    /// Where it is in its life.
    pub state: ReapState,
    /// The session that it ends, if it is one.
    pub session: Option<String>,
    /// The directory that it is about, or that its session works in, escaped.
    #[serde(default)]
    pub directory: Option<String>,
    /// The uid that asked for it.
    pub owner_uid: u32,
    /// How often it was begun: more than once when an attempt has left somebody
    /// alive, or the daemon died.
    pub attempts: u32,
    /// Unix time, milliseconds.
    pub requested_ms: i64,
    /// Unix time, milliseconds; null until it is over.
    pub finished_ms: Option<i64>,
    /// When the next attempt is due, while it waits: Unix time, milliseconds.
    #[serde(default)]
    pub due_ms: Option<i64>,
    /// What all attempts so far have done, and what is proven. Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// Why there is no report, or no further attempt; while it waits, why the
    /// last attempt failed.
    pub error: Option<String>,
}

/// The last reaps that the caller may see, newest first, without their reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReapList {
    /// The reaps.
    pub reaps: Vec<Reap>,
}

/// A process, alive or remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Process {
    /// Who it is.
    #[serde(flatten)]
    pub id: ProcessKey,
    /// Who created it, dead or alive; the nearest remembered ancestor when
    /// `skipped_ancestors` is not 0; null when unknown.
    pub creator: Option<ProcessKey>,
    /// Dead ancestors between it and `creator` that were forgotten.
    pub skipped_ancestors: u64,
    /// In a tree: its nearest ancestor that the tree shows as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<ProcessKey>,
    /// The innermost session that owns it.
    pub session: Option<SessionId>,
    /// A keep rule spares it.
    pub kept: bool,
    /// Its name, escaped.
    pub comm: String,
    /// Its program, escaped; null when unknown.
    pub exe: Option<String>,
    /// Its arguments, escaped; null when unknown.
    pub cmdline: Option<Vec<String>>,
    /// `exe` or `cmdline` are cut.
    pub truncated: bool,
    /// Its real uid; null when unknown.
    pub uid: Option<u32>,
    /// When it was created: nanoseconds since boot.
    pub fork_ns: u64,
    /// When it last executed a program: nanoseconds since boot.
    pub exec_ns: Option<u64>,
    /// Its end; null while it is alive.
    pub exit: Option<Exit>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Exit {
    /// When: nanoseconds since boot.
    pub time_ns: u64,
    /// The exit code, when it ended by itself.
    pub code: Option<u8>,
    /// The number of the signal that ended it. Both are null when its end was not seen.
    pub signal: Option<u8>,
}

/// Processes, each with its creator, so that a tree can be drawn. A flat list,
/// since a chain of 8,000 would be nested deeper than JSON parsers go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tree {
    /// Where the knowledge comes from.
    pub source: SourceKind,
    /// The processes, by start time.
    pub processes: Vec<Process>,
}

/// The chain of creators of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Lineage {
    /// Where the knowledge comes from.
    pub source: SourceKind,
    /// The process itself, then its creator, and so on up, dead ones too.
    pub chain: Vec<Ancestor>,
    /// The chain goes up to pid 1. If not, the creator of the last is unknown.
    pub reached_root: bool,
}

/// One step of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ancestor {
    /// The process.
    #[serde(flatten)]
    pub process: Process,
    /// How many forgotten ancestors lie between the step before and this one.
    pub skipped_before: u64,
}

/// What a reap of the owning session would do with a process, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// The process.
    pub process: Process,
    /// The sessions that own it, the innermost first.
    pub sessions: Vec<SessionInfo>,
    /// The chain of those who created it, from itself up to a root of the
    /// innermost session, or as far as it is known.
    pub chain: Vec<Ancestor>,
    /// Each fact that makes it a member.
    pub evidence: Vec<Evidence>,
    /// What a reap would do.
    pub verdict: Verdict,
    /// That in words.
    pub detail: String,
}

/// What a reap would do with a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "would", rename_all = "snake_case")]
pub enum Verdict {
    /// End it.
    End,
    /// Leave it alone.
    Spare {
        /// Why.
        reason: SpareReason,
    },
    /// Nothing: it is dead.
    Nothing,
    /// No session owns it, so only a reap that names it would end it.
    NotOwned,
}

/// Something that happened to a process. The name of the server-sent event is
/// its kind; one named `missed` has `{"missed": N}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// When: nanoseconds since boot.
    pub time_ns: u64,
    /// To whom.
    #[serde(flatten)]
    pub id: ProcessKey,
    /// The innermost session that owns it.
    pub session: Option<SessionId>,
    /// `fork`: who created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creator: Option<ProcessKey>,
    /// `fork`, `exec`: its name, escaped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm: Option<String>,
    /// `exec`: its program, escaped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exe: Option<String>,
    /// `exec`: its arguments, escaped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cmdline: Option<Vec<String>>,
    /// `exit`: how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
}

/// What happened to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// It was created.
    Fork,
    /// It executed a program.
    Exec,
    /// It ended.
    Exit,
}

/// How the daemon is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// The daemon's version.
    pub version: String,
    /// The daemon's pid.
    pub pid: u32,
    /// Where its knowledge comes from.
    pub source: SourceKind,
    /// Seconds since it started.
    pub uptime_s: u64,
    /// Open sessions.
    pub sessions: u64,
    /// Reaps that are under way.
    pub reaps_running: u64,
    /// Reaps that have left somebody alive and will be tried again.
    #[serde(default)]
    pub reaps_waiting: u64,
    /// Processes that are not known to be dead.
    pub processes_live: u64,
    /// Dead processes that are remembered.
    pub processes_dead: u64,
    /// Dead processes that were forgotten, being too many or too old.
    pub processes_evicted: u64,
    /// What the kernel probe counted; null for another source.
    pub kernel: Option<Counters>,
}

/// One thing that a stream of events tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Streamed {
    /// Something happened to a process.
    Event(Box<Event>),
    /// The reader was too slow for so many events.
    Missed(u64),
}
