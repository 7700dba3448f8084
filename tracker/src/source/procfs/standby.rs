//! Taking over from a tracker that is gone.

use super::subtree::{Heritage, Subtree, is_childless};
use super::{ProcfsSource, SourceError};
use crate::process::{Pid, Proc, ProcError, ProcessId};

/// More ancestors nobody has who was not made for a test.
const MAX_DEPTH: usize = 100_000;

/// What a process has to see to while another one tracks its child, so that it
/// can take over: that orphans come to it, and who of its children was there
/// before.
#[derive(Clone, Debug)]
pub struct Standby {
    outsiders: Vec<ProcessId>,
}

impl Standby {
    /// To be called before the child is created.
    pub fn new(proc: &Proc) -> Result<Standby, SourceError> {
        // Only a program that executed this one can have left children, so
        // hardly ever has anybody to be looked for.
        let outsiders = if is_childless() {
            Vec::new()
        } else {
            let own = Some(Pid::own());
            let all = proc.scan()?.into_iter();
            let children = all.filter(|seen| seen.stat.parent == own && !seen.stat.is_dead());
            children.map(|seen| seen.id).collect()
        };
        Ok(Standby { outsiders })
    }

    /// Makes the calling process a child subreaper. To be called before the
    /// child creates anybody.
    pub fn begin(&self) -> Result<(), SourceError> {
        ProcfsSource::become_subreaper()
    }

    /// Undoes [`Standby::begin`].
    pub fn end(&self) {
        // The kernel has no reason to refuse that.
        let _ = rustix::process::set_child_subreaper(None);
    }

    /// Whether a process is below the calling one, where all descendants of the
    /// child stay.
    pub fn is_below(&self, proc: &Proc, id: ProcessId) -> Result<bool, ProcError> {
        let mut at = proc.same(id)?;
        // Nobody's ancestors are in a circle, but they may change meanwhile.
        for _ in 0..MAX_DEPTH {
            let Some(seen) = at else { break };
            let Some(parent) = seen.stat.parent else {
                break;
            };
            if parent == Pid::own() {
                return Ok(!self.outsiders.contains(&seen.id));
            }
            at = proc.seen(parent)?;
        }
        Ok(false)
    }

    /// A source with one session to take over: the one with this root, which
    /// may be dead. It is covered, as [`ProcfsSource::subreaper`] has it.
    pub fn take_over(self, root: ProcessId) -> Result<ProcfsSource, SourceError> {
        let mut source = ProcfsSource::reading(Proc::open()?);
        let heritage = Heritage {
            root,
            outsiders: self.outsiders,
        };
        source.subtree = source
            .proc
            .seen(Pid::own())?
            .map(|seen| Subtree::of(seen.id).with_heritage(heritage));
        Ok(source)
    }
}
