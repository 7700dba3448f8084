//! Records into the ring buffer, and when to wake its reader.

use aya_ebpf::bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP};
use aya_ebpf::helpers::{bpf_ringbuf_output, bpf_ringbuf_reserve, bpf_ringbuf_submit};
use tracker_ebpf::TAG_NONE;

use crate::maps::{EAGER, RING, lose_record};
use crate::settings;

/// Whether to wake the reader.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// When the buffer fills up.
    WhenFull,
    /// Now.
    Now,
}

/// Writes a record of `tag`.
#[inline(always)]
pub(crate) fn write<T: 'static>(tag: u64, record: T, wake: Wake) {
    let length = size_of::<T>() as u64;
    let flags = flags(length, wake);
    // SAFETY: the map is a ring buffer, and the size a constant.
    let place = unsafe { bpf_ringbuf_reserve(ring(), length, 0) };
    if place.is_null() {
        return lose_record(tag);
    }
    // SAFETY: the kernel reserved that many bytes, aligned to 8.
    unsafe {
        place.cast::<T>().write(record);
        bpf_ringbuf_submit(place, flags);
    }
}

/// Writes a record of `tag` whose length is not a constant.
///
/// # Safety
/// `data` points to `length` readable bytes that the verifier knows of.
#[inline(always)]
pub(crate) unsafe fn write_bytes(tag: u64, data: *const u8, length: u64) {
    let flags = flags(length, Wake::WhenFull);
    // SAFETY: as this function demands.
    if unsafe { bpf_ringbuf_output(ring(), data.cast_mut().cast(), length, flags) } < 0 {
        lose_record(tag);
    }
}

/// Whether a fork by a process of `tag` is news that somebody waits for.
#[inline(always)]
pub(crate) fn eager(tag: u64) -> bool {
    tag != TAG_NONE && EAGER.get(0).is_some_and(|eager| *eager != 0)
}

/// A wakeup costs more than all the rest of the probe, so there is one when the
/// unread data grows past a mark, and again after each further stretch of it:
/// one alone could be missed, when two CPUs pass the mark together.
#[inline(always)]
fn flags(length: u64, wake: Wake) -> u64 {
    if wake == Wake::Now {
        return u64::from(BPF_RB_FORCE_WAKEUP);
    }
    let unread = RING.query(u64::from(BPF_RB_AVAIL_DATA));
    // As the kernel counts: 8 bytes before each record, and a multiple of 8.
    let after = unread + ((length + 15) & !7);
    let shift = settings::WAKE_SHIFT.load();
    let passed = (unread ^ after).wrapping_shr(shift) != 0;
    if after >= settings::WAKE_AT.load() && passed {
        u64::from(BPF_RB_FORCE_WAKEUP)
    } else {
        u64::from(BPF_RB_NO_WAKEUP)
    }
}

#[inline(always)]
fn ring() -> *mut core::ffi::c_void {
    (&raw const RING).cast_mut().cast()
}
