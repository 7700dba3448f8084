//! The memory of this process.
#![expect(unsafe_code, reason = "a function of the C library")]

/// Gives memory that is free back to the kernel. The allocator keeps what was
/// used once, between what is still in use; worth it after a step that needed
/// much more than all that follows.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes the allocator's own locks, and touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}
