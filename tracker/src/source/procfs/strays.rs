//! The one way out of a subreaper's subtree.
//!
//! A process that enters another pid namespace by `setns(2)` and forks there has
//! grandchildren whose orphans go to that namespace's init, not to the
//! subreaper: `find_new_reaper` of `kernel/exit.c` does not look across
//! namespaces. So whoever came to be a child of such an init while the session
//! ran may be a descendant, if a member may have had what entering takes:
//! `CAP_SYS_ADMIN` in the user namespace that owns the pid namespace.

use super::{Present, ProcfsSource};
use crate::process::{Pid, ProcError, ProcessId};

impl ProcfsSource {
    /// Processes that may descend from the session with this root although
    /// they are not below this process.
    pub(super) fn strays(&self, root: ProcessId) -> Result<Vec<ProcessId>, ProcError> {
        let (own_depth, _) = self.namespace_depth(Pid::own())?;
        let mut strays = Vec::new();
        for (id, present) in &self.present {
            let is_late = id.start_time >= root.start_time && !present.dead;
            let Some(parent) = self.first_parent(*id, present).filter(|_| is_late) else {
                continue;
            };
            let (depth, pid) = self.namespace_depth(parent.pid)?;
            if depth > own_depth && pid == Some(Pid::INIT) && self.may_have_entered(*id)? {
                strays.push(*id);
            }
        }
        strays.sort_unstable();
        Ok(strays)
    }

    /// The parent of an outsider that was never seen below another process,
    /// which would be its creator then.
    fn first_parent(&self, id: ProcessId, present: &Present) -> Option<ProcessId> {
        let node = self.chains.node(id).filter(|node| node.tag.is_none())?;
        node.creator
            .filter(|creator| present.parent == Some(creator.pid))
    }

    /// In how many pid namespaces a process is that are seen from here, and its
    /// pid in the innermost.
    fn namespace_depth(&self, pid: Pid) -> Result<(usize, Option<Pid>), ProcError> {
        let pids = self.proc.namespace_pids(pid)?.unwrap_or_default();
        Ok((pids.len(), pids.last().copied()))
    }

    /// Whether a member may have had the privilege to put `id` where it is.
    /// Root may enter anything; another user what it owns, such as a container
    /// without root, whose processes have its uid. A member that ran a setuid
    /// program counts as root if it was seen as another user.
    fn may_have_entered(&self, id: ProcessId) -> Result<bool, ProcError> {
        let user = self.subtree.as_ref().and_then(|subtree| subtree.user);
        match user {
            Some(user) => Ok(self.proc.uid(id.pid)? == Some(user)),
            None => Ok(true),
        }
    }
}
