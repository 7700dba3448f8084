//! Sessions: who owns a process, and whom a keep rule spares.

mod keep;
mod kept;
mod open;
mod record;
mod registry;
mod subscription;
mod tracking;

pub use keep::{KeepRule, ParseKeepRuleError};
pub use kept::Kept;
pub use open::{OpenSession, Root, SessionError};
pub use record::{Session, SessionState};
pub use registry::Registry;
pub use subscription::{Listener, Subscription};
pub use tracking::Tracking;

pub use crate::lineage::SessionId;
