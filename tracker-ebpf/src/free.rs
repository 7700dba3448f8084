//! A process was waited for, and the kernel lets go of it.

use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use tracker_ebpf::counter;

use crate::maps::{PROCESSES, count};
use crate::task::{Struct, Task};

/// `TP_PROTO(struct task_struct *p)`, from an RCU callback. The pid may belong
/// to another process by now, whose entry is not touched.
///
/// A leader that was replaced by a thread which executed a program comes here
/// too, but it has that thread's id by then, so it does not look like a leader.
#[btf_tracepoint(function = "sched_process_free")]
pub(crate) fn tracker_free(ctx: BtfTracePointContext) -> i32 {
    let task = Task(Struct::at(ctx.arg(0)));
    let pid = task.pid();
    if pid == task.tgid()
        && let Some(entry) = PROCESSES.get_ptr(pid)
        // SAFETY: the kernel returned a valid pointer to the value.
        && unsafe { (*entry).start_ns } == task.start_ns()
        && PROCESSES.remove(pid).is_err()
    {
        count(counter::DELETE_FAILED);
    }
    0
}
