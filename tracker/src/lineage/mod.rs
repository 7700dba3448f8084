//! Who created whom: a map of processes keyed by identity, which remembers the
//! dead ancestors of the living. Pure data, no I/O.

mod event;
mod tag;

pub use event::{Event, Exec, Exit, Fork, Snapshot, WaitStatus};
pub use tag::{ParseSessionIdError, SessionId, Tag};
