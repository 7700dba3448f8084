//! Who created whom: a map of processes keyed by identity, which remembers the
//! dead ancestors of the living. Pure data, no I/O, and no clock: time comes
//! with the events.

mod ancestry;
mod apply;
mod event;
mod forest;
mod map;
mod node;
mod program;
mod resync;
mod retain;
mod tag;

#[cfg(test)]
mod invariants;
#[cfg(test)]
mod model;
#[cfg(test)]
mod shapes;

pub use ancestry::{Ancestry, Step};
pub use event::{Event, Exec, Exit, Fork, Gone, Snapshot, WaitStatus};
pub use map::{Lineage, Stats};
pub use node::{ExitSeen, Node};
pub use program::Program;
pub use retain::Limits;
pub use tag::{ParseSessionIdError, SessionId, Tag};
