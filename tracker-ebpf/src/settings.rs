//! What the loader tells the probe before it is verified.
//!
//! These live in `.rodata`, which the loader freezes. The verifier then knows
//! their values, so a load at `pointer + offset` is a load at a constant
//! offset that it can check against the kernel's types, and a branch on a mode
//! that is off does not exist.

use aya_ebpf::Global;
use tracker_ebpf::NO_FIELD;

macro_rules! offsets {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])* #[unsafe(no_mangle)] pub(crate) static $name: Global<u32> = Global::new(NO_FIELD);)*
    };
}

offsets! {
    /// `task_struct.pid`: the thread's id.
    TASK_PID;
    /// `task_struct.tgid`.
    TASK_TGID;
    /// `task_struct.start_boottime`.
    TASK_START;
    /// `task_struct.group_leader`.
    TASK_LEADER;
    /// `task_struct.real_parent`.
    TASK_PARENT;
    /// `task_struct.comm`.
    TASK_COMM;
    /// `task_struct.exit_code`.
    TASK_EXIT_CODE;
    /// `task_struct.signal`.
    TASK_SIGNAL;
    /// `task_struct.mm`.
    TASK_MM;
    /// `signal_struct.live`: threads that have not begun to exit.
    SIGNAL_LIVE;
    /// `signal_struct.flags`.
    SIGNAL_FLAGS;
    /// `signal_struct.group_exit_code`.
    SIGNAL_EXIT_CODE;
    /// `mm_struct.arg_start`.
    MM_ARG_START;
    /// `mm_struct.arg_end`.
    MM_ARG_END;
    /// `linux_binprm.filename`.
    BPRM_FILENAME;
}

/// 1: every process goes into the map and into the ring buffer. 0: only tagged ones.
#[unsafe(no_mangle)]
pub(crate) static TRACK_ALL: Global<u32> = Global::new(0);

/// 1: `sched_process_exit` says itself whether the thread group is dead (since 6.16).
#[unsafe(no_mangle)]
pub(crate) static EXIT_HAS_GROUP_DEAD: Global<u32> = Global::new(0);

/// So many unread bytes in the ring buffer wake its reader.
#[unsafe(no_mangle)]
pub(crate) static WAKE_AT: Global<u64> = Global::new(0);

/// Beyond [`WAKE_AT`] the reader is woken again every `1 << WAKE_SHIFT` bytes.
#[unsafe(no_mangle)]
pub(crate) static WAKE_SHIFT: Global<u32> = Global::new(0);

/// Whether every process is recorded, tagged or not.
#[inline(always)]
pub(crate) fn track_all() -> bool {
    TRACK_ALL.load() != 0
}

/// Whether this kernel has the field.
#[inline(always)]
pub(crate) fn has(offset: &Global<u32>) -> bool {
    offset.load() != NO_FIELD
}
