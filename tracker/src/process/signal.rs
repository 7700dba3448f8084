//! The one function that sends signals.

use rustix::io::Errno;

use super::cancel::Cancel;
use super::identity::{Pid, ProcessId};
use super::pidfd::PidFd;
use super::proc::{Proc, ProcError, Seen};

/// The signals that a teardown sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// `SIGTERM`: please end.
    Term,
    /// `SIGCONT`: to a stopped process, so that its handler for `SIGTERM` runs.
    Cont,
    /// `SIGKILL`.
    Kill,
}

impl Signal {
    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Term => "TERM",
            Signal::Cont => "CONT",
            Signal::Kill => "KILL",
        }
    }

    fn raw(self) -> rustix::process::Signal {
        match self {
            Signal::Term => rustix::process::Signal::TERM,
            Signal::Cont => rustix::process::Signal::CONT,
            Signal::Kill => rustix::process::Signal::KILL,
        }
    }
}

/// Sends signals, each one checked first.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'a> {
    proc: &'a Proc,
    cancel: &'a Cancel,
}

impl<'a> Sender<'a> {
    /// A sender that stops when `cancel` says so.
    pub fn new(proc: &'a Proc, cancel: &'a Cancel) -> Sender<'a> {
        Sender { proc, cancel }
    }

    /// Sends `signal` to `id` through `fd`, which was opened for its pid after
    /// `id` was known.
    ///
    /// The order of the checks closes the races. `fd` means whoever had the pid
    /// when it was opened: `id`, or somebody later. If the start time that is
    /// read *after* that is still `id`'s, then `id` has had the pid all along,
    /// so `fd` means `id`. `owned` is asked next, and cancellation last, so that
    /// nothing is sent on an answer that has been withdrawn.
    ///
    /// Answers what was read of the process right before the signal.
    pub fn send<W>(
        &self,
        fd: &PidFd,
        id: ProcessId,
        signal: Signal,
        owned: impl FnOnce() -> Result<(), W>,
    ) -> Result<Seen, NotSent<W>> {
        let seen = match self.proc.seen(id.pid) {
            Ok(seen) => seen,
            Err(error) => return Err(NotSent::Failed(SendError::Identity(error))),
        };
        let Some(seen) = seen else {
            return Err(NotSent::Gone);
        };
        if seen.id != id {
            return Err(NotSent::Reused(seen.id));
        }
        if id.pid == Pid::INIT || id.pid == Pid::own() || seen.stat.is_kernel_thread() {
            return Err(NotSent::Protected);
        }
        // The kernel takes a signal for a zombie and says that all is well.
        if seen.stat.state.is_zombie() && fd.is_dead() {
            return Err(NotSent::Gone);
        }
        owned().map_err(NotSent::Withdrawn)?;
        if self.cancel.is_cancelled() {
            return Err(NotSent::Cancelled);
        }
        match rustix::process::pidfd_send_signal(fd, signal.raw()) {
            Ok(()) => Ok(seen),
            Err(Errno::SRCH) => Err(NotSent::Gone),
            Err(Errno::PERM) => Err(NotSent::PermissionDenied),
            Err(errno) => Err(NotSent::Failed(SendError::Call {
                id,
                signal: signal.name(),
                errno,
            })),
        }
    }
}

/// Why a signal was not sent. `W` is the owner's reason.
#[derive(Debug)]
pub enum NotSent<W> {
    /// No thread of the process is left.
    Gone,
    /// The pid belongs to this other process now.
    Reused(ProcessId),
    /// Pid 1, a kernel thread, or tracker itself.
    Protected,
    /// The owner no longer allows it.
    Withdrawn(W),
    /// The reap was cancelled.
    Cancelled,
    /// The kernel does not let this user signal that process.
    PermissionDenied,
    /// Something else failed, so nothing is known.
    Failed(SendError),
}

/// A signal could not be sent, or could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The start time could not be read again.
    #[error("cannot verify the identity before a signal: {0}")]
    Identity(#[source] ProcError),
    /// The system call failed.
    #[error("pidfd_send_signal of SIG{signal} to process {id}: {errno}")]
    Call {
        /// To whom.
        id: ProcessId,
        /// Which one.
        signal: &'static str,
        /// What the kernel answered.
        errno: Errno,
    },
}

#[cfg(test)]
mod tests {
    use super::super::{Opened, StartTime};
    use super::*;
    use std::process::{Child, Command};

    struct Sleep(Child);

    impl Sleep {
        fn new() -> (Sleep, ProcessId) {
            let child = Command::new("sleep").arg("600").spawn().unwrap();
            let pid = Pid::new(i64::from(child.id())).unwrap();
            let id = Proc::open().unwrap().seen(pid).unwrap().unwrap().id;
            (Sleep(child), id)
        }
    }

    impl Drop for Sleep {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn fd(pid: Pid) -> PidFd {
        match PidFd::open(pid).unwrap() {
            Opened::Live(fd) => fd,
            Opened::Gone => panic!("{pid} is gone"),
        }
    }

    fn send(id: ProcessId, cancel: &Cancel, owned: Result<(), ()>) -> Result<Seen, NotSent<()>> {
        Sender::new(&Proc::open().unwrap(), cancel).send(&fd(id.pid), id, Signal::Kill, || owned)
    }

    #[test]
    fn the_process_that_was_meant_is_ended() {
        let (_sleep, id) = Sleep::new();
        send(id, &Cancel::new().unwrap(), Ok(())).unwrap();
        assert!(fd(id.pid).wait(std::time::Duration::from_secs(60)));
    }

    #[test]
    fn a_zombie_is_gone() {
        let (_sleep, id) = Sleep::new();
        let cancel = Cancel::new().unwrap();
        send(id, &cancel, Ok(())).unwrap();
        assert!(fd(id.pid).wait(std::time::Duration::from_secs(60)));
        assert!(matches!(send(id, &cancel, Ok(())), Err(NotSent::Gone)));
    }

    #[test]
    fn another_start_time_gets_nothing() {
        let (_sleep, id) = Sleep::new();
        let other = ProcessId::new(id.pid, StartTime::from_ticks(id.start_time.ticks() - 1));
        let answer = send(other, &Cancel::new().unwrap(), Ok(()));
        assert!(
            matches!(answer, Err(NotSent::Reused(who)) if who == id),
            "{answer:?}"
        );
        assert!(!fd(id.pid).is_dead());
    }

    #[test]
    fn an_owner_that_withdraws_and_a_cancellation_stop_the_signal() {
        let (_sleep, id) = Sleep::new();
        let cancel = Cancel::new().unwrap();
        assert!(matches!(
            send(id, &cancel, Err(())),
            Err(NotSent::Withdrawn(()))
        ));
        cancel.cancel();
        assert!(matches!(send(id, &cancel, Ok(())), Err(NotSent::Cancelled)));
        assert!(!fd(id.pid).is_dead());
    }

    #[test]
    fn tracker_init_and_kernel_threads_are_protected() {
        let proc = Proc::open().unwrap();
        let cancel = Cancel::new().unwrap();
        let kernel_thread = proc
            .scan()
            .unwrap()
            .into_iter()
            .find(|seen| seen.stat.is_kernel_thread());
        for pid in [
            Some(Pid::own()),
            Some(Pid::INIT),
            kernel_thread.map(|seen| seen.id.pid),
        ] {
            let Some(pid) = pid else { continue };
            let id = proc.seen(pid).unwrap().unwrap().id;
            assert!(
                matches!(send(id, &cancel, Ok(())), Err(NotSent::Protected)),
                "{id}"
            );
        }
    }
}
