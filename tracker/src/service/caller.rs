//! Who asks, and what they may do.

use crate::process::ProcessId;

/// A client of the daemon, as the kernel knew it when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its effective uid.
    pub uid: u32,
    /// The process that connected; `None` when it is in a pid namespace that
    /// the daemon does not see, or gone.
    pub process: Option<ProcessId>,
    /// Root, or in the group that may do all. Others use their own sessions only.
    pub may_all: bool,
}

impl Caller {
    /// Whether something of `owner_uid`'s may be seen and ended.
    pub fn may(self, owner_uid: u32) -> bool {
        self.may_all || self.uid == owner_uid
    }
}
