//! The report of a reap: a stable JSON document, described in docs/api.md.

use serde::{Deserialize, Serialize};

use crate::lineage::SessionId;
use crate::process::Pid;
use crate::source::SourceKind;

/// Version of the document. It grows when a field changes its meaning or goes;
/// fields that are added leave it as it is.
pub const SCHEMA: u32 = 1;

/// What was done, to whom, why, and what is proven.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Names this reap: unique, opaque.
    pub reap_id: String,
    /// What was reaped.
    pub target: TargetEntry,
    /// What is proven.
    pub verdict: Verdict,
    /// Why the verdict is not `complete`; also what else is worth saying.
    pub reasons: Vec<String>,
    /// Where the knowledge came from.
    pub source: SourceKind,
    /// Nothing was signalled because that was asked for.
    pub dry_run: bool,
    /// The time between SIGTERM and SIGKILL, milliseconds.
    pub grace_ms: u64,
    /// From the request to the verdict, milliseconds.
    pub duration_ms: u64,
    /// Everybody whom the target owned and might end, by pid.
    pub processes: Vec<ProcessEntry>,
    /// Everybody who was left alone, by pid.
    pub spared: Vec<SparedEntry>,
    /// Sums of the two lists.
    pub counts: Counts,
    /// Who uses files of the directory in other ways than as its working
    /// directory, alive when the reap was over, by pid. Of a directory only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<HolderEntry>,
}

/// Somebody who uses files of the directory that was reaped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HolderEntry {
    /// Thread group id; null for what is mounted where tracker runs.
    pub pid: Option<Pid>,
    /// Field 22 of its `/proc/PID/stat`.
    pub start_ticks: Option<u64>,
    /// Its name, escaped.
    pub comm: String,
    /// What it uses, the largest first.
    pub files: Vec<HeldEntry>,
    /// How many more there are that are not listed.
    #[serde(default)]
    pub more: u64,
}

/// A file in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HeldEntry {
    /// How it is used.
    pub kind: HeldBy,
    /// Its path, escaped; of a mount, where it is.
    pub path: String,
    /// It is removed, and its room is given back when nobody uses it any more.
    pub deleted: bool,
    /// Bytes; null when it is not a regular file, or cannot be looked at.
    pub size: Option<u64>,
}

/// A way to use a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HeldBy {
    /// It is open.
    File,
    /// It is mapped into memory, as programs are that run.
    Map,
    /// It is a root directory.
    Root,
    /// It is a mount in the directory, or of something in it, in the mount
    /// namespace of this process.
    Mount,
}

/// What was reaped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TargetEntry {
    /// A session, with the sessions inside it.
    Session {
        /// Its id.
        id: SessionId,
        /// Its name, escaped.
        name: String,
    },
    /// A process and the descendants that a look at `/proc` finds.
    Process {
        /// Its pid.
        pid: Pid,
        /// Its start time in ticks, as in field 22 of `/proc/PID/stat`.
        start_ticks: u64,
    },
    /// Processes whose working directory lies in a directory.
    Directory {
        /// The directory, escaped.
        path: String,
    },
}

/// What is proven of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing that the target owns and may end is alive.
    Complete,
    /// The processes whose outcome is `survived` are alive, or could not be
    /// signalled for lack of permission.
    Survivors,
    /// Nothing known is alive, but there may be more than is known.
    Incomplete,
    /// Nothing was done.
    Refused,
}

/// A process that the target owned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProcessEntry {
    /// Thread group id.
    pub pid: Pid,
    /// Field 22 of `/proc/PID/stat`.
    pub start_ticks: u64,
    /// Nanoseconds since boot; null where only `/proc` told.
    pub start_ns: Option<u64>,
    /// Its name, escaped.
    pub comm: String,
    /// Its program, escaped; empty when unknown.
    pub exe: String,
    /// Its arguments, escaped.
    pub cmdline: Vec<String>,
    /// `cmdline` is only the beginning of the command line.
    #[serde(default)]
    pub truncated: bool,
    /// Its real uid; null when unknown.
    pub uid: Option<u32>,
    /// Why it belongs to the target.
    pub evidence: Vec<Evidence>,
    /// What became of it.
    pub outcome: Outcome,
    /// The outcome in words, where it needs some.
    pub reason: Option<String>,
    /// The state letter of its leader when it was last looked at, as in field
    /// 3 of `/proc/PID/stat`; null when it was gone.
    pub state: Option<char>,
    /// The signals that it was sent, in order: `TERM`, `CONT`, `KILL`.
    pub signals: Vec<String>,
}

/// A process that was left alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SparedEntry {
    /// Thread group id.
    pub pid: Pid,
    /// Field 22 of `/proc/PID/stat`.
    pub start_ticks: u64,
    /// Nanoseconds since boot; null where only `/proc` told.
    pub start_ns: Option<u64>,
    /// Its name, escaped.
    pub comm: String,
    /// Its program, escaped; empty when unknown.
    pub exe: String,
    /// Its arguments, escaped.
    pub cmdline: Vec<String>,
    /// `cmdline` is only the beginning of the command line.
    #[serde(default)]
    pub truncated: bool,
    /// Its real uid; null when unknown.
    pub uid: Option<u32>,
    /// Why it was looked at.
    pub evidence: Vec<Evidence>,
    /// Why it was left alone.
    pub reason: SpareReason,
    /// The reason in words.
    pub detail: String,
}

/// Why a process belongs to a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Evidence {
    /// The kind.
    pub kind: EvidenceKind,
    /// In words, escaped.
    pub detail: String,
}

/// A kind of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceKind {
    /// It was created by a member.
    Lineage,
    /// Its working directory lies in the directory.
    Cwd,
    /// It uses a file of the directory.
    OpenFile,
    /// It was running when the session was opened for it or its ancestor.
    Adopted,
    /// It is a descendant by the parent links that `/proc` shows now.
    Parent,
}

/// What became of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Dead before a signal was sent.
    Exited,
    /// Dead after SIGTERM.
    Terminated,
    /// Dead after SIGKILL.
    Killed,
    /// Alive at the end.
    Survived,
    /// Not signalled: a dry run, or cancelled.
    Skipped,
}

/// Why a process was left alone.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SpareReason {
    /// A keep rule names it or an ancestor of it.
    Kept,
    /// It belongs to another live session.
    OtherSession,
    /// Pid 1, a kernel thread, tracker, the client, or an ancestor of these.
    Protected,
    /// Who owns it cannot be told.
    Inconclusive,
    /// Its pid belongs to another process now.
    IdentityChanged,
    /// It left the directory before it was to be signalled.
    Left,
    /// The kernel does not let tracker signal it.
    PermissionDenied,
}

/// Sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Counts {
    /// Of [`Outcome::Exited`].
    pub exited: u64,
    /// Of [`Outcome::Terminated`].
    pub terminated: u64,
    /// Of [`Outcome::Killed`].
    pub killed: u64,
    /// Of [`Outcome::Survived`].
    pub survived: u64,
    /// Of [`Outcome::Skipped`].
    pub skipped: u64,
    /// Length of [`Report::spared`].
    pub spared: u64,
    /// How many of the processes were not there at the first look.
    pub forked_during_reap: u64,
}

impl Report {
    /// Whether something had to be signalled.
    pub fn signalled_any(&self) -> bool {
        self.processes
            .iter()
            .any(|process| !process.signals.is_empty())
    }
}
