#![expect(unsafe_code, reason = "signalfd, and stopping this process itself")]
//! The signals that tracker gets while it runs a command.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;

use super::inherited::{SignalSet, change_mask, dispose};
use crate::process::Pid;
use tokio::io::unix::AsyncFd;

/// Signals that are left alone. The first two cannot be blocked. A fault of
/// tracker's own must end it. SIGPIPE is ignored, and sent by every write to a
/// pipe without a reader.
const LEFT_ALONE: [i32; 9] = [
    libc::SIGKILL,
    libc::SIGSTOP,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGPIPE,
];

/// Length of `struct signalfd_siginfo` of `signalfd(2)`.
const RECORD_LEN: usize = 128;

/// All signals to this process that can be received, from now on. They do not
/// have their usual effect any more, also when this is dropped.
#[derive(Debug)]
pub struct Signals(OwnedFd);

/// A signal that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its number.
    pub signal: i32,
    /// Who sent it: the first who did, if several did before it was read.
    pub origin: Origin,
}

/// Who sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The kernel, for example at a key of the terminal.
    Kernel,
    /// A process.
    Process(Pid),
    /// A process that this pid namespace does not show.
    Outside,
}

impl Signals {
    /// Blocks the signals in the calling thread, and in those that it starts
    /// later: to be called while there are no others.
    pub fn take_over() -> Result<Signals, SignalError> {
        let set = (1..=64)
            .filter(|signal| !LEFT_ALONE.contains(signal))
            // Between the two are those that the C library keeps for itself.
            .filter(|signal| *signal < 32 || *signal >= libc::SIGRTMIN())
            .fold(0, |set: SignalSet, signal| set | 1 << (signal - 1));
        // SAFETY: the kernel reads a set of the size that is passed.
        let raw = unsafe {
            libc::syscall(
                libc::SYS_signalfd4,
                -1,
                &raw const set,
                size_of::<SignalSet>(),
                libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
            )
        };
        let raw = i32::try_from(raw)
            .ok()
            .filter(|raw| *raw >= 0)
            .ok_or_else(|| SignalError(io::Error::last_os_error()))?;
        // SAFETY: the kernel has just opened it, so nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        change_mask(libc::SIG_BLOCK, set);
        dispose(libc::SIGCHLD, false);
        Ok(Signals(fd))
    }

    /// The next signal, if there is one.
    pub fn next(&self) -> Result<Option<Received>, SignalError> {
        let mut record = [0; RECORD_LEN];
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut record)) {
            Ok(_) => Ok(Received::parse(&record)),
            Err(Errno::AGAIN) => Ok(None),
            Err(errno) => Err(SignalError(errno.into())),
        }
    }
}

/// Readable when there is a signal.
impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Signals {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// [`Signals`] on a tokio runtime.
#[derive(Debug)]
pub struct SignalStream(AsyncFd<Signals>);

impl SignalStream {
    /// To be called on the runtime, which must have its I/O driver enabled.
    pub fn new(signals: Signals) -> Result<SignalStream, SignalError> {
        // SAFETY: `Signals` owns its descriptor, never exchanges it, and closes
        // it when it is dropped, which `AsyncFd` does last.
        let registered = unsafe { AsyncFd::register(signals) };
        registered
            .map(SignalStream)
            .map_err(|error| SignalError(error.into()))
    }

    /// Waits until there are signals; answers all that there are.
    pub async fn receive(&self) -> Result<Vec<Received>, SignalError> {
        loop {
            let mut guard = self.0.readable().await.map_err(SignalError)?;
            let mut received = Vec::new();
            while let Some(one) = guard.get_inner().next()? {
                received.push(one);
            }
            guard.clear_ready();
            if !received.is_empty() {
                return Ok(received);
            }
        }
    }
}

impl Received {
    fn parse(record: &[u8; RECORD_LEN]) -> Option<Received> {
        let (words, _) = record.as_chunks::<4>();
        let [signal, _errno, code, pid, ..] = words else {
            return None;
        };
        // SI_FROMUSER of the kernel: a process cannot claim a code above 0.
        let origin = if i32::from_ne_bytes(*code) > 0 {
            Origin::Kernel
        } else {
            let pid = Pid::new(i64::from(u32::from_ne_bytes(*pid)));
            pid.map_or(Origin::Outside, Origin::Process)
        };
        Some(Received {
            signal: i32::from_ne_bytes(*signal),
            origin,
        })
    }
}

/// Stops this process as `signal` stops one that does not handle it, so that
/// its parent sees it stopped by that signal. Comes back when it was
/// continued. In an orphaned process group only SIGSTOP has any effect, since
/// nobody would continue the others (`setpgid(2)`).
pub fn stop_like(signal: i32) {
    let Ok(bit @ 0..64) = u32::try_from(signal - 1) else {
        return;
    };
    let set: SignalSet = 1 << bit;
    // SAFETY: all zeroes is a valid `sigaction` (SIG_DFL); the old one is put
    // back as it was read. `raise` only affects this process.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        let mut old: libc::sigaction = std::mem::zeroed();
        let changed = libc::sigaction(signal, &raw const default, &raw mut old) == 0;
        // Raised while it is still blocked: if the signal is pending anyway,
        // the two make one stop, since SIGCONT takes away all that are pending.
        libc::raise(signal);
        let mask = change_mask(libc::SIG_UNBLOCK, set);
        change_mask(libc::SIG_SETMASK, mask);
        if changed {
            libc::sigaction(signal, &raw const old, std::ptr::null_mut());
        }
    }
}

/// Signals cannot be received.
#[derive(Debug, thiserror::Error)]
#[error("cannot receive signals: {0}")]
pub struct SignalError(#[source] io::Error);
