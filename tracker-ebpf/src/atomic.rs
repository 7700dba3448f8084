//! Atomic operations on map values. Rust's own do not exist for this target.

/// Adds one.
///
/// # Safety
/// `value` points to an aligned field of a map value.
#[inline(always)]
pub(crate) unsafe fn increment(value: *mut u64) {
    // SAFETY: as this function demands.
    unsafe {
        core::arch::asm!(
            "lock *(u64 *)({value} + 0) += {one}",
            value = in(reg) value,
            one = in(reg) 1u64,
        );
    }
}

/// Sets bits; answers what was there before.
///
/// # Safety
/// `value` points to an aligned field of a map value.
#[inline(always)]
pub(crate) unsafe fn fetch_or(value: *mut u32, mut bits: u32) -> u32 {
    // SAFETY: as this function demands.
    unsafe {
        core::arch::asm!(
            "{bits} = atomic_fetch_or((u32 *)({value} + 0), {bits})",
            value = in(reg) value,
            bits = inout(wreg) bits,
        );
    }
    bits
}
