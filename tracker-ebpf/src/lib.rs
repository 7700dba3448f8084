//! What the kernel probe and user space share: the values of the maps, the
//! records of the ring buffer, and the numbers that name them.
//!
//! Every struct is `#[repr(C)]`, has no implicit padding, and is frozen by the
//! assertions below it. A change of any of them is a change of [`ABI`].
#![cfg_attr(not(test), no_std)]

/// Version of this layout. It is part of the path under which maps are pinned,
/// so that a daemon never adopts maps of another layout.
pub const ABI: u32 = 1;

/// Nanoseconds in one tick of `/proc/PID/stat` (`USER_HZ` is 100 on every
/// architecture that Linux exposes to user space).
pub const NS_PER_TICK: u64 = 10_000_000;

/// The tag of a process that belongs to no session.
pub const TAG_NONE: u64 = 0;

/// Set in a tag when a keep rule spares the process. Its descendants inherit
/// it with the tag, and a condemned session's probe leaves them alone.
pub const TAG_EXEMPT: u64 = 1 << 48;

/// The process has begun to exit: the last thread of its group is on its way
/// out and cannot fork any more. It is dead when its pidfd is readable.
pub const PROCESS_EXITING: u32 = 1;
/// The entry was written by user space for a process that was there before
/// the probe.
pub const PROCESS_SEEDED: u32 = 1 << 1;
/// It was created by a member of a condemned session, which was killed for that.
pub const PROCESS_CONDEMNED: u32 = 1 << 2;

/// A live process, keyed by its thread group id in the `PROCESSES` map.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// `start_boottime` of the thread group leader, nanoseconds.
    pub start_ns: u64,
    /// The same of the process that called `clone`; 0 when it is not known.
    pub creator_start_ns: u64,
    /// The innermost session, [`TAG_NONE`] for none, with [`TAG_EXEMPT`].
    pub tag: u64,
    /// Thread group id of the process that called `clone`; 0 when not known.
    pub creator_pid: u32,
    /// `PROCESS_*`.
    pub flags: u32,
}

/// What went wrong for one session, keyed by tag in the `LOSSES` map.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Records that found no room in the ring buffer. History is lost, not membership.
    pub records: u64,
    /// Children that the full `PROCESSES` map did not take. Membership is lost.
    pub members: u64,
}

/// Value of a field offset that this kernel does not have. The probe leaves out
/// what it would have read there.
pub const NO_FIELD: u32 = u32::MAX;

/// How many sessions fit in `LOSSES`, and in `CONDEMNED`.
pub const MAX_SESSIONS: u32 = 4096;
/// How many processes fit in `SHIELDED`.
pub const MAX_SHIELDED: u32 = 4096;

/// Indices into the per-CPU `COUNTERS` array.
pub mod counter {
    /// Records that found no room in the ring buffer.
    pub const RING_FULL: u32 = 0;
    /// Children that the `PROCESSES` map did not take.
    pub const INSERT_FAILED: u32 = 1;
    /// Entries found under a pid that another process has now. The exit or
    /// the release of the first one was missed.
    pub const STALE_ENTRY: u32 = 2;
    /// Entries of released processes that could not be deleted.
    pub const DELETE_FAILED: u32 = 3;
    /// Losses that could not be attributed, because `LOSSES` was full.
    pub const LOSS_UNATTRIBUTED: u32 = 4;
    /// Forks by members of condemned sessions that were answered by SIGKILL.
    pub const CONDEMNED_FORK: u32 = 5;
    /// Process creations seen (threads are not counted).
    pub const FORKS: u32 = 6;
    /// Programs executed.
    pub const EXECS: u32 = 7;
    /// Thread groups that began to exit.
    pub const EXITS: u32 = 8;
    /// How often earlier programs on these maps were skipped by the kernel.
    /// Written by user space when it replaces them.
    pub const SKIPPED_BEFORE: u32 = 9;
    /// How many counters there are.
    pub const COUNT: u32 = 10;
}

/// The kind of a ring buffer record.
pub mod kind {
    /// A [`super::ForkRecord`].
    pub const FORK: u32 = 1;
    /// A [`super::ExecRecord`].
    pub const EXEC: u32 = 2;
    /// An [`super::ExitRecord`].
    pub const EXIT: u32 = 3;
}

/// Length of a task's `comm`, with its final NUL (`TASK_COMM_LEN`).
pub const COMM_LEN: usize = 16;
/// The longest program path that a record carries, without its final NUL.
pub const FILENAME_LEN: usize = 255;
/// The most of a command line that a record carries.
pub const ARGV_LEN: usize = 1024;

/// [`ExecRecord::flags`]: the program path did not fit.
pub const EXEC_FILENAME_TRUNCATED: u32 = 1;
/// [`ExecRecord::flags`]: the command line did not fit.
pub const EXEC_ARGV_TRUNCATED: u32 = 1 << 1;
/// [`ExecRecord::flags`]: the command line could not be read.
pub const EXEC_ARGV_UNREADABLE: u32 = 1 << 2;

/// The start of every record.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// One of [`kind`].
    pub kind: u32,
    /// Thread group id of the process that this record is about.
    pub pid: u32,
    /// `start_boottime` of its leader, nanoseconds.
    pub start_ns: u64,
    /// Its tag.
    pub tag: u64,
    /// When it happened: `CLOCK_BOOTTIME`, nanoseconds.
    pub time_ns: u64,
}

/// A process was created. The header names the child.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForkRecord {
    /// The child.
    pub header: Header,
    /// `start_boottime` of the creator's leader, nanoseconds.
    pub creator_start_ns: u64,
    /// The creator's cgroup, which is the child's unless it asked for another.
    pub cgroup_id: u64,
    /// Thread group id of the process that called `clone`.
    pub creator_pid: u32,
    /// Real uid of the creator, in the initial user namespace.
    pub uid: u32,
    /// The creator's `comm`, which the child starts with.
    pub comm: [u8; COMM_LEN],
}

/// A program was executed. This is the fixed part of the record; right after it
/// come `filename_len` bytes of the path that was given to `execve`, then
/// `argv_len` bytes of the command line, in which NUL ends each argument.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecRecord {
    /// The process.
    pub header: Header,
    /// Its cgroup.
    pub cgroup_id: u64,
    /// Its real uid, in the initial user namespace.
    pub uid: u32,
    /// `EXEC_*`.
    pub flags: u32,
    /// Its new `comm`.
    pub comm: [u8; COMM_LEN],
    /// Bytes of the path, without its NUL; at most [`FILENAME_LEN`].
    pub filename_len: u32,
    /// Bytes of the command line; at most [`ARGV_LEN`].
    pub argv_len: u32,
}

/// The last thread of a process began to exit.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitRecord {
    /// The process.
    pub header: Header,
    /// The wait status, as `waitpid` reports it.
    pub code: u32,
    /// Always 0.
    pub reserved: u32,
}

/// One row of the census: a thread group leader that the kernel's task
/// iterator walked over.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CensusRow {
    /// `start_boottime`, nanoseconds.
    pub start_ns: u64,
    /// `start_boottime` of the real parent's leader, nanoseconds.
    pub parent_start_ns: u64,
    /// Thread group id.
    pub pid: u32,
    /// Thread group id of the real parent.
    pub parent_pid: u32,
    /// [`PROCESS_EXITING`] or 0.
    pub flags: u32,
    /// Always 0.
    pub reserved: u32,
}

macro_rules! frozen {
    ($($type:ty: $size:expr, align 8;)*) => {
        $(const _: () = {
            assert!(size_of::<$type>() == $size, concat!("size of ", stringify!($type)));
            assert!(align_of::<$type>() == 8, concat!("alignment of ", stringify!($type)));
        };)*
    };
}

frozen! {
    Process: 32, align 8;
    Losses: 16, align 8;
    Header: 32, align 8;
    ForkRecord: 72, align 8;
    ExecRecord: 72, align 8;
    ExitRecord: 40, align 8;
    CensusRow: 32, align 8;
}

// A size alone does not notice two fields that changed places.
const _: () = {
    assert!(core::mem::offset_of!(Process, tag) == 16);
    assert!(core::mem::offset_of!(Process, creator_pid) == 24);
    assert!(core::mem::offset_of!(Header, start_ns) == 8);
    assert!(core::mem::offset_of!(Header, time_ns) == 24);
    assert!(core::mem::offset_of!(ForkRecord, creator_start_ns) == 32);
    assert!(core::mem::offset_of!(ForkRecord, creator_pid) == 48);
    assert!(core::mem::offset_of!(ForkRecord, comm) == 56);
    assert!(core::mem::offset_of!(ExecRecord, comm) == 48);
    assert!(core::mem::offset_of!(ExecRecord, filename_len) == 64);
    assert!(core::mem::offset_of!(ExitRecord, code) == 32);
    assert!(core::mem::offset_of!(CensusRow, pid) == 16);
};
