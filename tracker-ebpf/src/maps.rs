//! The maps, and the few things that are done with them.

use aya_ebpf::bindings::{BPF_ANY, BPF_NOEXIST};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, PerCpuArray, RingBuf};
use aya_log_ebpf::warn;
use tracker_ebpf::{Losses, MAX_SESSIONS, MAX_SHIELDED, Process, TAG_EXEMPT, TAG_NONE, counter};

use crate::atomic;

/// Live processes by thread group id. Preallocated: an insert in a tracepoint
/// must not depend on the allocator. The loader sets the capacity.
#[map]
pub(crate) static PROCESSES: HashMap<u32, Process> = HashMap::with_max_entries(32768, 0);

/// The history of them. The loader sets the size.
#[map]
pub(crate) static RING: RingBuf = RingBuf::with_byte_size(1 << 20, 0);

/// Sums, see [`counter`].
#[map]
pub(crate) static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(counter::COUNT, 0);

/// What each session lost.
#[map]
pub(crate) static LOSSES: HashMap<u64, Losses> = HashMap::with_max_entries(MAX_SESSIONS, 0);

/// Sessions whose members are killed when they fork, and until when
/// (`CLOCK_BOOTTIME`, nanoseconds): user space may die in the middle of a reap.
#[map]
pub(crate) static CONDEMNED: HashMap<u64, u64> = HashMap::with_max_entries(MAX_SESSIONS, 0);

/// Processes that a condemned session does not end though they belong to it:
/// thread group id, and start time.
#[map]
pub(crate) static SHIELDED: HashMap<u32, u64> = HashMap::with_max_entries(MAX_SHIELDED, 0);

/// Not 0: wake the reader at each fork by a tagged process.
#[map]
pub(crate) static EAGER: Array<u32> = Array::with_max_entries(1, 0);

/// Adds one to a counter.
#[inline(always)]
pub(crate) fn count(index: u32) {
    if let Some(value) = COUNTERS.get_ptr_mut(index) {
        // SAFETY: the value is this CPU's, and its programs do not interrupt
        // each other but for `sched_process_free`, which has counters of its own.
        unsafe { *value += 1 }
    }
}

/// The session of a tag.
#[inline(always)]
pub(crate) fn session(tag: u64) -> u64 {
    tag & !TAG_EXEMPT
}

/// The entry of a process, if there is one and it is of this very process.
///
/// An entry with another start time belongs to an earlier holder of the pid
/// whose release was missed. Nothing may be inherited from it.
#[inline(always)]
pub(crate) fn entry(pid: u32, start_ns: u64) -> Option<*mut Process> {
    let entry = PROCESSES.get_ptr_mut(pid)?;
    // SAFETY: the kernel returned a valid pointer to the value.
    if unsafe { (*entry).start_ns } == start_ns {
        return Some(entry);
    }
    // SAFETY: as above; it may be of yet another process by now, which a log can bear.
    stale(pid, start_ns, unsafe { (*entry).start_ns });
    None
}

/// Rare, so it is a function of its own: it would be in three programs otherwise.
#[cold]
#[inline(never)]
fn stale(pid: u32, start_ns: u64, entry_start_ns: u64) {
    count(counter::STALE_ENTRY);
    warn!(
        (),
        "process {} started at {} ns, but its entry says {} ns; it is dropped",
        pid,
        start_ns,
        entry_start_ns
    );
    let _ = PROCESSES.remove(pid);
}

/// The tag of a process, [`TAG_NONE`] when it has none.
#[inline(always)]
pub(crate) fn tag_of(pid: u32, start_ns: u64) -> u64 {
    // SAFETY: the kernel returned a valid pointer to the value.
    entry(pid, start_ns).map_or(TAG_NONE, |entry| unsafe { (*entry).tag })
}

/// A record of `tag` was lost.
#[inline(always)]
pub(crate) fn lose_record(tag: u64) {
    count(counter::RING_FULL);
    if let Some(losses) = losses(tag) {
        // SAFETY: the kernel returned a valid pointer to the value.
        unsafe { atomic::increment(&raw mut (*losses).records) }
    }
}

/// A child with `tag` did not fit in the map.
#[inline(always)]
pub(crate) fn lose_member(tag: u64) {
    count(counter::INSERT_FAILED);
    if let Some(losses) = losses(tag) {
        // SAFETY: as above.
        unsafe { atomic::increment(&raw mut (*losses).members) }
    }
}

#[inline(always)]
fn losses(tag: u64) -> Option<*mut Losses> {
    let session = session(tag);
    if session == TAG_NONE {
        return None;
    }
    if let Some(losses) = LOSSES.get_ptr_mut(session) {
        return Some(losses);
    }
    // Another CPU may do the same at the same time; its value stays.
    let none = Losses {
        records: 0,
        members: 0,
    };
    let _ = LOSSES.insert(session, none, u64::from(BPF_NOEXIST));
    let losses = LOSSES.get_ptr_mut(session);
    if losses.is_none() {
        count(counter::LOSS_UNATTRIBUTED);
    }
    losses
}

/// Puts a new process into the map.
#[inline(always)]
pub(crate) fn put(pid: u32, process: &Process) -> bool {
    PROCESSES.insert(pid, process, u64::from(BPF_ANY)).is_ok()
}
