//! Starting a command so that it cannot tell that tracker is its parent.
//!
//! The command is forked at once but held back at a gate, so that whoever
//! tracks it is ready before its first instruction: [`Launch::fork`], then
//! [`Gated::release`]. Everything that a program hands on by `execve(2)` is
//! handed on as tracker got it: descriptors, signal mask and dispositions,
//! environment, working directory, umask, limits, priorities.

mod child;
mod gate;
mod image;
mod inherited;
mod signals;
#[cfg(test)]
mod tests;
mod wait;

pub use child::{Child, ExecError};
pub use gate::{Gated, LaunchError};
pub use image::Launch;
pub use inherited::Inherited;
pub use signals::{Origin, Received, SignalError, SignalStream, Signals, stop_like};
pub use wait::{Change, Waited, wait_any};
