#![expect(
    unsafe_code,
    reason = "what was inherited can only be seen before main, and by raw system calls"
)]
//! What tracker inherited and has changed by the time a command is started.
//!
//! Rust's runtime ignores `SIGPIPE` and opens `/dev/null` on closed standard
//! descriptors before `main` runs, so the originals are recorded before that.

use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, Ordering};

/// A signal set as the kernel has it: bit `n - 1` is signal `n`.
pub(super) type SignalSet = u64;

/// Whether each of [`RESTORED`] was ignored, one bit each.
static IGNORED: AtomicU8 = AtomicU8::new(0);
/// Which of the descriptors 0, 1 and 2 were closed, one bit each.
static CLOSED: AtomicU8 = AtomicU8::new(0);
/// The signal mask.
static MASK: AtomicU64 = AtomicU64::new(0);
/// `PR_GET_PDEATHSIG`.
static DEATH_SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Signals whose disposition tracker changes for itself. An ignored `SIGCHLD`
/// would have the kernel drop the exit status of every child (`wait(2)`, NOTES).
pub(super) const RESTORED: [i32; 2] = [libc::SIGPIPE, libc::SIGCHLD];

/// What a command must get back before it is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inherited {
    pub(super) mask: SignalSet,
    pub(super) ignored: u8,
    pub(super) closed: u8,
    pub(super) death_signal: i32,
}

impl Inherited {
    /// What this process was started with.
    pub fn at_start() -> Inherited {
        // Without a reference to it, a linker may leave out the object file
        // that the static is in.
        std::hint::black_box(&RECORD);
        Inherited {
            mask: MASK.load(Ordering::Relaxed),
            ignored: IGNORED.load(Ordering::Relaxed),
            closed: CLOSED.load(Ordering::Relaxed),
            death_signal: DEATH_SIGNAL.load(Ordering::Relaxed),
        }
    }
}

#[used]
// SAFETY: the C library calls each pointer of this section once, before `main`,
// on the only thread. `record` needs nothing of Rust's runtime.
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record;

extern "C" fn record() {
    MASK.store(current_mask(), Ordering::Relaxed);
    let bits = |flags: &mut dyn Iterator<Item = bool>| {
        flags
            .zip(0..)
            .fold(0, |bits, (flag, at)| bits | u8::from(flag) << at)
    };
    IGNORED.store(
        bits(&mut RESTORED.into_iter().map(is_ignored)),
        Ordering::Relaxed,
    );
    CLOSED.store(bits(&mut (0..3).map(is_closed)), Ordering::Relaxed);
    let mut signal = 0;
    // SAFETY: the kernel writes an int to the address, which is that of one.
    unsafe { libc::prctl(libc::PR_GET_PDEATHSIG, &raw mut signal) };
    DEATH_SIGNAL.store(signal, Ordering::Relaxed);
}

/// The signal mask of the calling thread.
pub(super) fn current_mask() -> SignalSet {
    change_mask(libc::SIG_BLOCK, 0)
}

/// `rt_sigprocmask(2)`; answers the mask as it was. Safe to call after `fork`.
///
/// The raw call, since the C library's leaves out the signals that it keeps
/// for itself, and a parent may have blocked those too.
pub(super) fn change_mask(how: i32, set: SignalSet) -> SignalSet {
    let mut old: SignalSet = 0;
    // SAFETY: both addresses are those of sets of the size that is passed. A
    // blocked or unblocked signal breaks no invariant of Rust.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            how,
            &raw const set,
            &raw mut old,
            size_of::<SignalSet>(),
        );
    }
    old
}

fn is_ignored(signal: i32) -> bool {
    handler(signal) == libc::SIG_IGN
}

/// The address of a signal's handler, or `SIG_DFL`, or `SIG_IGN`.
pub(super) fn handler(signal: i32) -> libc::sighandler_t {
    // SAFETY: all zeroes is a valid `sigaction`; the call only writes to it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action);
        action.sa_sigaction
    }
}

/// Sets a disposition to `SIG_DFL` or `SIG_IGN`. Safe to call after `fork`.
pub(super) fn dispose(signal: i32, ignore: bool) {
    let handler = if ignore { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: neither of the two runs any code of this process.
    unsafe { libc::signal(signal, handler) };
}

fn is_closed(fd: i32) -> bool {
    // SAFETY: this call touches no memory, and takes any number.
    unsafe { libc::fcntl(fd, libc::F_GETFD) == -1 }
}
