//! A process executes a program.

use aya_ebpf::helpers::generated::{
    bpf_get_current_cgroup_id, bpf_get_current_uid_gid, bpf_ktime_get_boot_ns,
    bpf_probe_read_kernel_str, bpf_probe_read_user,
};
use aya_ebpf::macros::{btf_tracepoint, map};
use aya_ebpf::maps::PerCpuArray;
use aya_ebpf::programs::BtfTracePointContext;
use tracker_ebpf::{
    ARGV_LEN, EXEC_ARGV_TRUNCATED, EXEC_ARGV_UNREADABLE, EXEC_FILENAME_TRUNCATED, ExecRecord,
    FILENAME_LEN, Header, TAG_NONE, counter, kind,
};

use crate::maps::{self, count};
use crate::ring;
use crate::settings::{self, has, track_all};
use crate::task::{Struct, Task};

/// Bounds that the verifier can follow: a power of two minus one is one
/// instruction, and a path that runs to its bound still leaves room for the
/// longest command line.
const FILENAME_MASK: u64 = 0x1ff;
const ARGV_MASK: u64 = 0x7ff;
const _: () = assert!(FILENAME_LEN < FILENAME_MASK as usize && ARGV_LEN < ARGV_MASK as usize);

/// A record with room for its text.
#[repr(C)]
pub(crate) struct Scratch {
    fixed: ExecRecord,
    text: [u8; (FILENAME_MASK + ARGV_MASK + 1) as usize],
}

/// The record is put together here: it is too large for the stack. A program
/// does not run twice at once on one CPU.
#[map]
static SCRATCH: PerCpuArray<Scratch> = PerCpuArray::with_max_entries(1, 0);

/// `TP_PROTO(struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)`.
/// When a thread other than the leader executes, it becomes the leader and gets
/// the old one's pid and start time: the identity of the process stays.
#[btf_tracepoint(function = "sched_process_exec")]
pub(crate) fn tracker_exec(ctx: BtfTracePointContext) -> i32 {
    executed(Task(Struct::at(ctx.arg(0))), Struct::at(ctx.arg(2)));
    0
}

#[inline(always)]
fn executed(task: Task, bprm: Struct) {
    count(counter::EXECS);
    let pid = task.tgid();
    let start_ns = task.leader().start_ns();
    let tag = maps::tag_of(pid, start_ns);
    if tag == TAG_NONE && !track_all() {
        return;
    }
    let Some(scratch) = SCRATCH.get_ptr_mut(0) else {
        return;
    };
    let header = Header {
        kind: kind::EXEC,
        pid,
        start_ns,
        tag,
        // SAFETY: a helper without arguments.
        time_ns: unsafe { bpf_ktime_get_boot_ns() },
    };
    // SAFETY: the scratch is this CPU's and this program's alone. The masks keep
    // every access inside of it, which the verifier checks.
    unsafe {
        let text = (&raw mut (*scratch).text).cast::<u8>();
        let mut flags = 0;
        let filename_len = read_filename(bprm, text, &mut flags);
        let argv_len = read_argv(task, text.add(filename_len as usize), &mut flags);
        (*scratch).fixed = ExecRecord {
            header,
            cgroup_id: bpf_get_current_cgroup_id(),
            uid: bpf_get_current_uid_gid() as u32,
            flags,
            comm: task.comm(),
            filename_len: filename_len as u32,
            argv_len: argv_len as u32,
        };
        let length = size_of::<ExecRecord>() as u64 + filename_len + argv_len;
        ring::write_bytes(tag, scratch.cast(), length);
    }
}

/// Reads the path; answers its length.
///
/// # Safety
/// `to` has room for `FILENAME_MASK` bytes.
#[inline(always)]
unsafe fn read_filename(bprm: Struct, to: *mut u8, flags: &mut u32) -> u64 {
    if !has(&settings::BPRM_FILENAME) {
        return 0;
    }
    let filename = bprm.follow(&settings::BPRM_FILENAME).address();
    // One byte more than a record may carry tells a cut path from one that just fits.
    let room = FILENAME_LEN as u32 + 2;
    // SAFETY: the helper checks the source; the caller promised the room.
    let copied = unsafe { bpf_probe_read_kernel_str(to.cast(), room, filename.cast()) };
    if copied <= 0 {
        return 0;
    }
    // The final NUL is not part of the path.
    let mut length = copied as u64 - 1;
    if length > FILENAME_LEN as u64 {
        *flags |= EXEC_FILENAME_TRUNCATED;
        length = FILENAME_LEN as u64;
    }
    bound(length, FILENAME_MASK)
}

/// Reads the command line from the new program's stack; answers its length.
///
/// # Safety
/// `to` has room for `ARGV_MASK` bytes.
#[inline(always)]
unsafe fn read_argv(task: Task, to: *mut u8, flags: &mut u32) -> u64 {
    if !has(&settings::TASK_MM) || !has(&settings::MM_ARG_START) || !has(&settings::MM_ARG_END) {
        *flags |= EXEC_ARGV_UNREADABLE;
        return 0;
    }
    let mm = task.0.follow(&settings::TASK_MM);
    let start: u64 = mm.field(&settings::MM_ARG_START);
    let end: u64 = mm.field(&settings::MM_ARG_END);
    let mut length = end.wrapping_sub(start);
    if length > ARGV_LEN as u64 {
        *flags |= EXEC_ARGV_TRUNCATED;
        length = ARGV_LEN as u64;
    }
    let length = bound(length, ARGV_MASK);
    // SAFETY: the helper checks the source; the caller promised the room.
    if unsafe { bpf_probe_read_user(to.cast(), length as u32, start as *const _) } != 0 {
        *flags |= EXEC_ARGV_UNREADABLE;
        return 0;
    }
    length
}

/// Cuts `value` to the bits of `mask`, in an instruction that the optimizer
/// cannot prove to be needless: the verifier needs to see it.
#[inline(always)]
fn bound(mut value: u64, mask: u64) -> u64 {
    // SAFETY: one instruction on one register.
    unsafe { core::arch::asm!("{value} &= {mask}", value = inout(reg) value, mask = in(reg) mask) }
    value
}
