//! A process creates another one.

use aya_ebpf::helpers::generated::{
    bpf_get_current_cgroup_id, bpf_get_current_uid_gid, bpf_ktime_get_boot_ns, bpf_send_signal,
};
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use tracker_ebpf::{
    ForkRecord, Header, PROCESS_CONDEMNED, Process, TAG_EXEMPT, TAG_NONE, counter, kind,
};

use crate::maps::{self, CONDEMNED, SHIELDED, count};
use crate::ring::{self, Wake};
use crate::settings::track_all;
use crate::task::{Struct, Task};

pub(crate) const SIGKILL: u32 = 9;

/// `TP_PROTO(struct task_struct *parent, struct task_struct *child)`. The first
/// one is whoever called `clone`, whatever it asked the child's parent to be.
/// The child does not run yet, so it cannot fork before it is in the map.
#[btf_tracepoint(function = "sched_process_fork")]
pub(crate) fn tracker_fork(ctx: BtfTracePointContext) -> i32 {
    created(Task(Struct::at(ctx.arg(0))), Task(Struct::at(ctx.arg(1))));
    0
}

#[inline(always)]
fn created(creator: Task, child: Task) {
    let pid = child.pid();
    if pid != child.tgid() {
        return; // a thread
    }
    count(counter::FORKS);
    let creator_pid = creator.tgid();
    // Any thread may fork; the process is known by its leader's start time.
    let creator_start_ns = creator.leader().start_ns();
    let tag = maps::tag_of(creator_pid, creator_start_ns);
    if tag == TAG_NONE && !track_all() {
        return;
    }
    let start_ns = child.start_ns();
    let condemned = is_condemned(tag);
    let killed = condemned && !is_shielded(creator_pid, creator_start_ns);
    let process = Process {
        start_ns,
        creator_start_ns,
        tag,
        creator_pid,
        flags: if killed { PROCESS_CONDEMNED } else { 0 },
    };
    if !maps::put(pid, &process) {
        maps::lose_member(tag);
    }
    if killed {
        kill();
    }
    let wake = if condemned || ring::eager(tag) {
        Wake::Now
    } else {
        Wake::WhenFull
    };
    let record = ForkRecord {
        header: Header {
            kind: kind::FORK,
            pid,
            start_ns,
            tag,
            time_ns: start_ns,
        },
        creator_start_ns,
        // SAFETY: helpers without arguments.
        cgroup_id: unsafe { bpf_get_current_cgroup_id() },
        creator_pid,
        // SAFETY: the same. The low half is the uid.
        uid: unsafe { bpf_get_current_uid_gid() } as u32,
        comm: creator.comm(),
    };
    ring::write(tag, record, wake);
}

/// Answers a fork by a member of a condemned session with SIGKILL, so that a
/// fork bomb dies of forking.
#[inline(always)]
fn kill() {
    count(counter::CONDEMNED_FORK);
    // To the whole group of the current thread, which is the creator. Pid 1 and
    // kernel threads are refused by the kernel.
    // SAFETY: a helper that takes a number.
    unsafe { bpf_send_signal(SIGKILL) };
}

/// Whether the members of this tag are killed when they fork.
#[inline(always)]
pub(crate) fn is_condemned(tag: u64) -> bool {
    if tag == TAG_NONE || tag & TAG_EXEMPT != 0 {
        return false;
    }
    // SAFETY: a valid pointer to a map value; a helper without arguments.
    CONDEMNED
        .get_ptr(tag)
        .is_some_and(|until_ns| unsafe { *until_ns > bpf_ktime_get_boot_ns() })
}

/// Whether a process is exempt from what its session is condemned to.
#[inline(always)]
pub(crate) fn is_shielded(pid: u32, start_ns: u64) -> bool {
    // SAFETY: a valid pointer to a map value.
    SHIELDED
        .get_ptr(pid)
        .is_some_and(|shielded| unsafe { *shielded } == start_ns)
}
