//! What the map knows of one process.

use super::event::WaitStatus;
use super::tag::Tag;
use crate::process::ProcessId;

/// A process, alive or remembered.
///
/// Of two reports that differ, the later one by its time wins, whichever came
/// first; but the first seen parent is kept, as it is the likeliest creator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Who it is.
    pub id: ProcessId,
    /// Who created it; when [`Node::skipped_ancestors`] is not 0, the nearest
    /// ancestor that is remembered. `None` when it is not known.
    pub creator: Option<ProcessId>,
    /// How many dead ancestors between it and [`Node::creator`] were forgotten.
    pub skipped_ancestors: u64,
    /// The creator is known only as the parent that a snapshot showed, which is
    /// not the creator of a process that was reparented before.
    pub parent_only: bool,
    /// The innermost session that owns it, as last reported.
    pub tag: Option<Tag>,
    /// Its name; empty when it is not known.
    pub comm: Vec<u8>,
    /// Its program; `None` when it is not known, as for a process that has
    /// executed none since it was created.
    pub exe: Option<Vec<u8>>,
    /// Its arguments; `None` when they are not known.
    pub argv: Option<Vec<Vec<u8>>>,
    /// Whether `exe` or `argv` were cut.
    pub truncated: bool,
    /// Its real uid.
    pub uid: Option<u32>,
    /// Its cgroup when it was created, or at its last exec.
    pub cgroup_id: Option<u64>,
    /// When it was created: `CLOCK_BOOTTIME`, nanoseconds. Its start time,
    /// rounded down to a tick, when nobody saw it.
    pub fork_ns: u64,
    /// When it last executed a program.
    pub exec_ns: Option<u64>,
    /// Its end; `None` while it is alive.
    pub exit: Option<ExitSeen>,
}

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitSeen {
    /// When it began to exit, `CLOCK_BOOTTIME`, nanoseconds; without a status,
    /// when it was noticed to be dead.
    pub time_ns: u64,
    /// How it ended; `None` when its exit was not heard of.
    pub status: Option<WaitStatus>,
}

impl Node {
    /// A process of which nothing is known but that it was there.
    pub(super) fn new(id: ProcessId) -> Node {
        Node {
            id,
            creator: None,
            skipped_ancestors: 0,
            parent_only: false,
            tag: None,
            comm: Vec::new(),
            exe: None,
            argv: None,
            truncated: false,
            uid: None,
            cgroup_id: None,
            fork_ns: id
                .start_time
                .ticks()
                .saturating_mul(tracker_ebpf::NS_PER_TICK),
            exec_ns: None,
            exit: None,
        }
    }

    /// Whether it is not known to be dead.
    pub fn is_alive(&self) -> bool {
        self.exit.is_none()
    }
}
