//! Who tracks the command: this process, or the daemon of the host.

use anyhow::Result;

use super::daemon::DaemonSession;
use crate::process::{Cancel, ProcessId};
use crate::reap::{Options, Report};
use crate::standalone::{ReapTarget, Standalone};

/// Who tracks the command.
#[derive(Clone, Debug)]
pub(super) enum Backend {
    /// This process.
    Own(Standalone),
    /// The daemon, in this session of its.
    Daemon(DaemonSession),
}

impl Backend {
    /// Takes in what happened. The daemon does so by itself.
    pub(super) fn pump(&self) -> Result<()> {
        match self {
            Backend::Own(tracker) => Ok(tracker.pump()?),
            Backend::Daemon(_) => Ok(()),
        }
    }

    /// Whether a process belongs to the session, or to one inside it.
    pub(super) fn is_member(&self, id: ProcessId) -> Result<bool> {
        match self {
            Backend::Own(tracker) => Ok(tracker.is_member(id)?),
            Backend::Daemon(session) => session.is_member(id),
        }
    }

    /// Ends what the target owns. Blocks until the verdict, or until `cancel`.
    pub(super) fn reap(
        &self,
        target: &ReapTarget,
        options: &Options,
        cancel: &Cancel,
    ) -> Result<Report> {
        match (self, target) {
            (Backend::Own(tracker), _) => Ok(tracker.reap(target, options, cancel)?),
            (Backend::Daemon(session), ReapTarget::Session(_)) => session.reap(options, cancel),
            (Backend::Daemon(_), _) => anyhow::bail!("the daemon was not asked to watch that"),
        }
    }
}
