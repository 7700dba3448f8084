//! The kernel probe: who creates whom, recorded where it happens.
//!
//! Membership is decided here, at the fork, so that no state of user space can
//! lose a member. The ring buffer only carries the history.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]
#![expect(
    unsafe_code,
    reason = "the kernel hands out raw pointers, and its verifier proves every access before it loads the program"
)]
#![expect(
    unstable_features,
    reason = "asm_experimental_arch: a bound that the optimizer must not take away needs one instruction of assembly"
)]

mod atomic;
mod census;
mod exec;
mod exit;
mod fork;
mod free;
mod maps;
mod newborn;
mod ring;
mod settings;
mod task;

/// `bpf_get_current_cgroup_id`, `bpf_send_signal` and direct loads are for
/// GPL-compatible programs only.
#[unsafe(no_mangle)]
#[unsafe(link_section = "license")]
static LICENSE: [u8; 4] = *b"GPL\0";

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // Nothing in here can panic; the verifier rejects a program that loops for ever.
    loop {}
}
