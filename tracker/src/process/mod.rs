//! Processes of this host: who they are, what `/proc` says of them, and the
//! only place that signals them.

mod bytes;
mod cancel;
mod credentials;
mod cwd;
mod dir;
mod file_path;
mod forward;
mod held;
mod identity;
pub mod launch;
mod memory;
mod mounts;
mod patient;
mod peer;
mod pidfd;
mod proc;
mod signal;
mod stat;
mod time;
mod workdir;

pub use bytes::{Escaped, escape};
pub use cancel::Cancel;
pub use credentials::Credentials;
pub use cwd::{Cwd, Cwds, LinkedPath};
pub use dir::{Device, Dir, DirId};
pub use file_path::FilePath;
pub use held::{Held, HeldFile, HeldKind};
pub use identity::{ParseProcessIdError, Pid, ProcessId, StartTime};
pub use memory::give_back;
pub use mounts::{Mount, MountTable};
pub use peer::peer_groups;
pub use pidfd::{Opened, PidFd, PidFdError};
pub use proc::{Proc, ProcError, Seen};
pub use signal::{NotSent, SendError, Sender, Signal};
pub use stat::{ParseStatError, Stat, State};
pub use time::{Clock, now_boot_ns};
pub use workdir::{Place, PlaceError, RemovedDir, Workdir};
