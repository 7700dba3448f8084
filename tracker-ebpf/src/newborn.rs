//! A child of a condemned forker, before its first instruction.

use aya_ebpf::helpers::generated::{
    bpf_get_current_pid_tgid, bpf_get_current_task_btf, bpf_send_signal,
};
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use tracker_ebpf::PROCESS_CONDEMNED;

use crate::fork::{SIGKILL, is_condemned, is_shielded};
use crate::maps::PROCESSES;
use crate::task::{Struct, Task};

/// `TP_PROTO(struct pt_regs *regs, long ret)`: the end of every system call of
/// the machine. A new process comes here before anything else, by the `clone`
/// that created it, and the signal is delivered before it runs.
///
/// The answer to a fork kills the forker, but a chain of processes that fork
/// and exit goes on in the child, and only this ends it for sure. It costs all
/// system calls of the machine a little, so it is attached only while members
/// of a condemned session go on forking.
#[btf_tracepoint(function = "sys_exit")]
pub(crate) fn tracker_newborn(_ctx: BtfTracePointContext) -> i32 {
    // SAFETY: a helper without arguments. The upper half is the thread group.
    let pid = (unsafe { bpf_get_current_pid_tgid() } >> 32) as u32;
    let Some(entry) = PROCESSES.get_ptr(pid) else {
        return 0;
    };
    // SAFETY: the kernel returned a valid pointer to the value.
    let process = unsafe { *entry };
    if process.flags & PROCESS_CONDEMNED == 0 {
        return 0;
    }
    // SAFETY: a helper without arguments.
    let current = Task(Struct::at(unsafe { bpf_get_current_task_btf() }.cast()));
    if current.leader().start_ns() == process.start_ns
        && is_condemned(process.tag)
        && !is_shielded(pid, process.start_ns)
    {
        // SAFETY: a helper that takes a number.
        unsafe { bpf_send_signal(SIGKILL) };
    }
    0
}
