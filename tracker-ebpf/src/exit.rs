//! The last thread of a process begins to exit.

use aya_ebpf::helpers::generated::bpf_ktime_get_boot_ns;
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use tracker_ebpf::{ExitRecord, Header, PROCESS_EXITING, TAG_NONE, counter, kind};

use crate::atomic;
use crate::maps::{self, count};
use crate::ring::{self, Wake};
use crate::settings::{self, has, track_all};
use crate::task::{Struct, Task};

/// `signal_struct.flags`: the whole group was told to exit, with one code.
const SIGNAL_GROUP_EXIT: u32 = 4;

/// `TP_PROTO(struct task_struct *p, bool group_dead)`; before 6.16 without the
/// second one.
#[btf_tracepoint(function = "sched_process_exit")]
pub(crate) fn tracker_exit(ctx: BtfTracePointContext) -> i32 {
    let task = Task(Struct::at(ctx.arg(0)));
    let signal = task.0.follow(&settings::TASK_SIGNAL);
    let dead = if settings::EXIT_HAS_GROUP_DEAD.load() != 0 {
        ctx.arg::<u64>(1) & 0xff != 0
    } else {
        // The thread has taken itself off already. Two that exit together may
        // both read 0; the flag in the map lets only one of them through.
        signal.field::<u32>(&settings::SIGNAL_LIVE) == 0
    };
    if dead {
        exiting(task, signal);
    }
    0
}

/// The entry stays: the process cannot fork any more, but its memory and files
/// are still in use, and user space must not lose sight of it before it is dead.
#[inline(always)]
fn exiting(task: Task, signal: Struct) {
    let pid = task.tgid();
    // The leader may have exited long ago; it is kept until the group is dead.
    let leader = task.leader();
    let start_ns = leader.start_ns();
    let mut tag = TAG_NONE;
    match maps::entry(pid, start_ns) {
        Some(entry) => {
            // SAFETY: the kernel returned a valid pointer to the value.
            let before = unsafe { atomic::fetch_or(&raw mut (*entry).flags, PROCESS_EXITING) };
            if before & PROCESS_EXITING != 0 {
                return;
            }
            // SAFETY: the same pointer.
            tag = unsafe { (*entry).tag };
        }
        None if !track_all() => return,
        None => {}
    }
    count(counter::EXITS);
    let record = ExitRecord {
        header: Header {
            kind: kind::EXIT,
            pid,
            start_ns,
            tag,
            // SAFETY: a helper without arguments.
            time_ns: unsafe { bpf_ktime_get_boot_ns() },
        },
        code: code(leader, signal),
        reserved: 0,
    };
    ring::write(tag, record, Wake::WhenFull);
}

/// As `wait_task_zombie` of `kernel/exit.c` makes the status.
#[inline(always)]
fn code(leader: Task, signal: Struct) -> u32 {
    if has(&settings::SIGNAL_FLAGS)
        && has(&settings::SIGNAL_EXIT_CODE)
        && signal.field::<u32>(&settings::SIGNAL_FLAGS) & SIGNAL_GROUP_EXIT != 0
    {
        return signal.field(&settings::SIGNAL_EXIT_CODE);
    }
    if has(&settings::TASK_EXIT_CODE) {
        return leader.0.field(&settings::TASK_EXIT_CODE);
    }
    0
}
