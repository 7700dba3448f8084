#![expect(
    unsafe_code,
    reason = "fork, and what the child does before it executes"
)]
//! The fork, and the gate behind which the child waits.

use std::ffi::c_char;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use super::child::Child;
use super::image::{Image, Launch};
use super::inherited::{Inherited, RESTORED, SignalSet, change_mask, dispose, handler};
use crate::process::{Opened, Pid, PidFd, PidFdError, Proc, ProcError, ProcessId};

/// How the child ends when it was not released.
const ABANDONED: i32 = 125;
/// How the child ends when it could not execute. Its parent learns the reason
/// from [`Child::exec_error`].
const NOT_EXECUTED: i32 = 126;

/// A command that has been forked, and does nothing until it is released.
/// Dropping it ends it; the command does not run. So does the end of tracker.
#[derive(Debug)]
pub struct Gated {
    id: ProcessId,
    child: Option<Child>,
    gate: OwnedFd,
    value_len: usize,
}

/// What the child has to know.
struct Orders {
    inherited: Inherited,
    gate_read: RawFd,
    gate_write: RawFd,
    status: RawFd,
}

impl Launch {
    /// Forks. Best done before there are other threads and descriptors: then
    /// the child does not even have copies of them.
    pub fn fork(&self, proc: &Proc) -> Result<Gated, LaunchError> {
        let mut image = Image::new(self)?;
        let (gate_read, gate) = pipe()?;
        let (status, status_write) = pipe()?;
        rustix::io::ioctl_fionbio(&status, true).map_err(|errno| system("ioctl", errno))?;
        let orders = Orders {
            inherited: self.inherited,
            gate_read: gate_read.as_raw_fd(),
            gate_write: gate.as_raw_fd(),
            status: status_write.as_raw_fd(),
        };
        // A handler of this process must not run in the child.
        let mask = change_mask(libc::SIG_SETMASK, SignalSet::MAX);
        // SAFETY: the child calls `run_child`, which does only what is allowed
        // after a fork of a process with threads, and does not return.
        let forked = unsafe { libc::fork() };
        if forked == 0 {
            run_child(&mut image, &orders);
        }
        let error = io::Error::last_os_error();
        change_mask(libc::SIG_SETMASK, mask);
        let pid = Pid::new(i64::from(forked)).ok_or(LaunchError::System {
            call: "fork",
            source: error,
        })?;
        // Nobody has waited for it, so its pid is its own even if it is dead.
        let Opened::Live(pidfd) = PidFd::open(pid)? else {
            return Err(LaunchError::Lost(pid));
        };
        let seen = proc.seen(pid)?.ok_or(LaunchError::Lost(pid))?;
        Ok(Gated {
            id: seen.id,
            child: Some(Child::new(seen.id, pidfd, status, &self.program)),
            gate,
            value_len: self.value_len,
        })
    }
}

impl Gated {
    /// Who it is. It keeps this identity when it executes the command.
    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// Lets it execute the command, with this value of [`Launch::variable`].
    pub fn release(mut self, value: &str) -> Result<Child, LaunchError> {
        if value.len() != self.value_len {
            return Err(LaunchError::Value);
        }
        // A write of this size to an empty pipe is never partial (`pipe(7)`).
        match rustix::io::retry_on_intr(|| rustix::io::write(&self.gate, value.as_bytes())) {
            // EPIPE: it was killed at the gate, as its exit status will tell.
            Ok(_) | Err(Errno::PIPE) => self.child.take().ok_or(LaunchError::Value),
            Err(errno) => Err(system("write", errno)),
        }
    }
}

impl Drop for Gated {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            child.kill_and_wait();
        }
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd), LaunchError> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|errno| system("pipe2", errno))
}

fn system(call: &'static str, errno: Errno) -> LaunchError {
    LaunchError::System {
        call,
        source: errno.into(),
    }
}

/// The child's life before it executes. Allocates nothing, takes no lock:
/// other threads of the parent may have held any of them (`signal-safety(7)`).
fn run_child(image: &mut Image, orders: &Orders) -> ! {
    // SAFETY: the descriptor is the child's own copy, and nothing owns it here.
    // While it is open, the parent's end would not close the pipe.
    unsafe { libc::close(orders.gate_write) };
    if !read_value(orders.gate_read, image.value()) {
        // SAFETY: ends the child without running any code of the parent's.
        unsafe { libc::_exit(ABANDONED) }
    }
    image.set_variable();
    restore(orders.inherited);
    let errno = execute(image).to_ne_bytes();
    // SAFETY: writes from a live array; then as above. When the parent is gone
    // nobody wants the answer, so a failed write is nothing to act on.
    unsafe {
        libc::write(orders.status, errno.as_ptr().cast(), errno.len());
        libc::_exit(NOT_EXECUTED)
    }
}

/// Waits at the gate. False when the other end was closed instead.
fn read_value(gate: RawFd, value: &mut [u8]) -> bool {
    let mut rest = value;
    while !rest.is_empty() {
        // SAFETY: the kernel writes at most `rest.len()` bytes to `rest`.
        let read = unsafe { libc::read(gate, rest.as_mut_ptr().cast(), rest.len()) };
        match usize::try_from(read) {
            Ok(1..) => {
                rest = rest.get_mut(read.unsigned_abs()..).unwrap_or_default();
            }
            Err(_) if last_errno() == libc::EINTR => {}
            _ => return false,
        }
    }
    true
}

/// Gives back what tracker has changed for itself. The mask comes last: from
/// then on, a signal that came meanwhile ends the child as it would have ended
/// the command.
fn restore(inherited: Inherited) {
    for signal in 1..=64 {
        // A handler would be reset by `execve`, but must not run before that.
        if !matches!(handler(signal), libc::SIG_DFL | libc::SIG_IGN) {
            dispose(signal, false);
        }
    }
    for (at, signal) in (0..).zip(RESTORED) {
        dispose(signal, inherited.ignored & (1 << at) != 0);
    }
    for fd in 0..3 {
        if inherited.closed & (1 << fd) != 0 {
            // SAFETY: what is open there was opened by Rust's runtime, and is
            // not used in this process any more.
            unsafe { libc::close(fd) };
        }
    }
    if inherited.death_signal != 0 {
        // SAFETY: this call touches no memory.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, inherited.death_signal) };
    }
    change_mask(libc::SIG_SETMASK, inherited.mask);
}

/// `execvp(3)`, without its allocations. Comes back with an `errno`.
fn execute(image: &mut Image) -> i32 {
    let mut denied = false;
    for at in 0..image.candidates.len() {
        let Some(candidate) = image.candidates.get(at).copied() else {
            break;
        };
        match execute_one(image, candidate) {
            libc::EACCES => denied = true,
            libc::ENOENT
            | libc::ENOTDIR
            | libc::ENAMETOOLONG
            | libc::ESTALE
            | libc::ENODEV
            | libc::ETIMEDOUT
                if image.candidates.len() > 1 => {}
            errno => return errno,
        }
    }
    if denied { libc::EACCES } else { libc::ENOENT }
}

fn execute_one(image: &mut Image, candidate: *const c_char) -> i32 {
    // SAFETY: all pointers are to strings and to arrays that end with null,
    // which `image` keeps alive; `argv` has at least the two that are skipped.
    unsafe {
        libc::execve(candidate, image.argv.as_ptr().add(1), image.envp.as_ptr());
    }
    let errno = last_errno();
    if errno != libc::ENOEXEC {
        return errno;
    }
    // A script without a first line that names an interpreter.
    let Some(([shell, script], _)) = image.argv.split_first_chunk_mut() else {
        return errno;
    };
    *script = candidate;
    let shell = *shell;
    // SAFETY: as above.
    unsafe {
        libc::execve(shell, image.argv.as_ptr(), image.envp.as_ptr());
    }
    errno
}

fn last_errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// A command could not be brought to the point where it would be executed.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A system call failed.
    #[error("cannot start a process: {call}: {source}")]
    System {
        /// Which one.
        call: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The program's name or an argument cannot be passed on.
    #[error("the command has a NUL byte in it")]
    Nul,
    /// The value of the variable is not as long as was said.
    #[error("the value of the variable does not have the length that was reserved")]
    Value,
    /// Somebody else waited for the child.
    #[error("process {0}, which was just started, is gone: something else waits for children")]
    Lost(Pid),
    /// There is no descriptor for it.
    #[error(transparent)]
    PidFd(#[from] PidFdError),
    /// Its start time could not be read.
    #[error(transparent)]
    Proc(#[from] ProcError),
}
