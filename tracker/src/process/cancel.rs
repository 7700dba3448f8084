//! Cancellation that can interrupt a wait.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::EventfdFlags;

/// Shared by who may cancel and by who must stop. Once cancelled, it stays so.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    cancelled: AtomicBool,
    wake: OwnedFd,
}

impl Cancel {
    /// Not cancelled yet. Fails when no descriptor is free.
    pub fn new() -> std::io::Result<Cancel> {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Cancel(Arc::new(Inner {
            cancelled: AtomicBool::new(false),
            wake,
        })))
    }

    /// Cancels: no signal is sent after this returns, but for one that is
    /// being sent by another thread in this instant.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::SeqCst);
        // The counter cannot overflow by calls of this size, and nobody reads
        // it, so the descriptor stays readable.
        let _ = rustix::io::write(&self.0.wake, &1u64.to_ne_bytes());
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::SeqCst)
    }
}

/// Readable once cancelled.
impl AsFd for Cancel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec};

    #[test]
    fn every_clone_hears_of_it() {
        let cancel = Cancel::new().unwrap();
        let clone = cancel.clone();
        let readable = || {
            let mut fds = [PollFd::new(&clone, PollFlags::IN)];
            rustix::event::poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
        };
        assert!(!clone.is_cancelled() && !readable());
        cancel.cancel();
        cancel.cancel();
        assert!(clone.is_cancelled() && readable());
    }
}
