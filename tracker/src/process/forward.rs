#![expect(
    unsafe_code,
    reason = "a signal that was received can be a real-time one, which has no name"
)]
//! Passing on what tracker was sent. The other way out of this process for a
//! signal, beside [`super::Sender`].

use rustix::io::Errno;
use rustix::process::Signal;

use super::pidfd::PidFd;

/// Sends `signal` to a child of this process.
///
/// There is no start time to be read again: `child` was opened by the parent
/// while nobody could have waited for the child, so it has meant the child
/// from the beginning, and a pidfd never comes to mean another process.
pub(super) fn forward(child: &PidFd, signal: i32) -> Result<(), Errno> {
    if !(1..=64).contains(&signal) {
        return Err(Errno::INVAL);
    }
    // SAFETY: the number is that of a signal, and not 0. What the C library
    // keeps for itself is refused by no kernel, and is another process's matter.
    let signal = unsafe { Signal::from_raw_unchecked(signal) };
    rustix::process::pidfd_send_signal(child, signal)
}
