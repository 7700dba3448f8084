//! Everybody who is there now, as the kernel knows them.

use aya_ebpf::helpers::generated::bpf_seq_write;
use tracker_ebpf::{CensusRow, PROCESS_EXITING};

use crate::settings;
use crate::task::{Struct, Task};

/// `struct bpf_iter__task`.
#[repr(C)]
pub(crate) struct Context {
    meta: *const *mut core::ffi::c_void,
    task: *const u8,
}

/// Writes one row for each process. The iterator walks over threads, and comes
/// once more without a task at the end.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
pub(crate) extern "C" fn tracker_census(ctx: *const Context) -> i32 {
    // SAFETY: the kernel passes its context, whose first field points to
    // `struct bpf_iter_meta`, which begins with the `seq_file`.
    let (seq, task) = unsafe { (*(*ctx).meta, (*ctx).task) };
    if task.is_null() {
        return 0;
    }
    let task = Task(Struct::at(task));
    let pid = task.pid();
    if pid != task.tgid() {
        return 0;
    }
    let parent = task.parent();
    let signal = task.0.follow(&settings::TASK_SIGNAL);
    let live: u32 = signal.field(&settings::SIGNAL_LIVE);
    let row = CensusRow {
        start_ns: task.start_ns(),
        parent_start_ns: parent.leader().start_ns(),
        pid,
        parent_pid: parent.tgid(),
        flags: if live == 0 { PROCESS_EXITING } else { 0 },
        reserved: 0,
    };
    // A row that does not fit is asked for again by the kernel.
    // SAFETY: the row is on the stack, with its size.
    unsafe {
        bpf_seq_write(
            seq.cast(),
            (&raw const row).cast_mut().cast(),
            size_of::<CensusRow>() as u32,
        )
    };
    0
}
