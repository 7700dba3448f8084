//! Questions about processes.

use std::collections::HashSet;

use super::caller::Caller;
use super::error::ServiceError;
use super::sessions::find;
use super::{Service, view};
use crate::api;
use crate::lineage::{Lineage, Node, SessionId};
use crate::process::{Pid, ProcessId};
use crate::session::Tracking;

impl Service {
    /// Processes with who created them: of a session, below a process, or all.
    pub fn tree(&self, caller: Caller, query: &api::TreeQuery) -> Result<api::Tree, ServiceError> {
        let mut tracking = self.tracking();
        tracking.pump()?;
        let lineage = tracking.lineage();
        let visible = visible_sessions(&tracking, caller);
        let may_see = |node: &Node| may_see(node, caller, &visible);
        let wanted = |node: &Node| (query.all || node.is_alive()) && may_see(node);
        let mut nodes: Vec<&Node> = match (&query.session, &query.pid) {
            (Some(_), Some(_)) => {
                let why = "ask for a session or for a pid, not for both";
                return Err(ServiceError::BadField(why.to_owned()));
            }
            (Some(session), None) => {
                let family = tracking
                    .sessions()
                    .family(find(tracking.sessions(), caller, session)?.id);
                let is_member =
                    |node: &&Node| node.tag.is_some_and(|tag| family.contains(&tag.session));
                lineage
                    .all()
                    .filter(is_member)
                    .filter(|node| wanted(node))
                    .collect()
            }
            (None, Some(pid)) => {
                let root = known(lineage, caller, pid, &visible)?;
                below(lineage, root.id)
                    .into_iter()
                    .filter(|node| wanted(node))
                    .collect()
            }
            (None, None) => lineage.all().filter(|node| wanted(node)).collect(),
        };
        nodes.sort_unstable_by_key(|node| (node.id.start_time, node.id.pid));
        let shown: HashSet<ProcessId> = nodes.iter().map(|node| node.id).collect();
        let mut processes: Vec<api::Process> = nodes
            .into_iter()
            .map(|node| placed(lineage, node, &shown))
            .collect();
        let source = tracking.source_kind();
        drop(tracking);
        processes.shrink_to_fit();
        Ok(api::Tree { source, processes })
    }

    /// The chain of creators of a process, dead ones too.
    pub fn lineage(&self, caller: Caller, process: &str) -> Result<api::Lineage, ServiceError> {
        let mut tracking = self.tracking();
        tracking.pump()?;
        let visible = visible_sessions(&tracking, caller);
        let node = known(tracking.lineage(), caller, process, &visible)?;
        let (chain, reached_root) = chain(tracking.lineage(), node.id, caller, &visible);
        Ok(api::Lineage {
            source: tracking.source_kind(),
            chain,
            reached_root,
        })
    }
}

/// The process that a path or a query names, dead or alive.
pub(super) fn known<'a>(
    lineage: &'a Lineage,
    caller: Caller,
    text: &str,
    visible: &HashSet<SessionId>,
) -> Result<&'a Node, ServiceError> {
    let process: api::ProcessRef = text
        .parse()
        .map_err(|error| ServiceError::BadField(format!("'{text}': {error}")))?;
    let id = match process {
        api::ProcessRef::Exact(id) => id,
        api::ProcessRef::Caller => caller.process.ok_or(ServiceError::NoCaller)?,
        api::ProcessRef::Pid(pid) => holder(lineage, pid).ok_or(ServiceError::NoProcess(pid))?,
    };
    lineage
        .node(id)
        .filter(|node| may_see(node, caller, visible))
        .ok_or(ServiceError::Unknown(id))
}

/// Who has the pid, or else who had it last.
fn holder(lineage: &Lineage, pid: Pid) -> Option<ProcessId> {
    lineage.holder(pid).or_else(|| lineage.by_pid(pid).pop())
}

/// The sessions whose members the caller may see.
pub(super) fn visible_sessions(tracking: &Tracking, caller: Caller) -> HashSet<SessionId> {
    let sessions = tracking.sessions().iter();
    sessions
        .filter(|session| caller.may(session.owner_uid))
        .map(|session| session.id)
        .collect()
}

fn may_see(node: &Node, caller: Caller, visible: &HashSet<SessionId>) -> bool {
    caller.may_all || node.tag.is_some_and(|tag| visible.contains(&tag.session))
}

/// A process and everybody that descends from it, dead ones too.
fn below(lineage: &Lineage, root: ProcessId) -> Vec<&Node> {
    let mut found = Vec::new();
    let mut pending = vec![root];
    while let Some(id) = pending.pop() {
        found.extend(lineage.node(id));
        pending.extend(lineage.children(id));
    }
    found
}

fn placed(lineage: &Lineage, node: &Node, shown: &HashSet<ProcessId>) -> api::Process {
    let mut above = node.creator;
    while let Some(id) = above.filter(|id| !shown.contains(id)) {
        above = lineage.node(id).and_then(|node| node.creator);
    }
    api::Process {
        below: above.map(Into::into),
        ..view::process(node)
    }
}

/// The chain from `id` up, as far as the caller may see.
pub(super) fn chain(
    lineage: &Lineage,
    id: ProcessId,
    caller: Caller,
    visible: &HashSet<SessionId>,
) -> (Vec<api::Ancestor>, bool) {
    let ancestry = lineage.ancestry(id);
    let steps = ancestry.steps.iter().map_while(|step| {
        let node = lineage.node(step.id)?;
        // A user's own processes are no secret to them, whoever's session it is.
        let may = may_see(node, caller, visible) || node.uid == Some(caller.uid);
        may.then(|| api::Ancestor {
            process: view::process(node),
            skipped_before: step.skipped_before,
        })
    });
    let chain: Vec<_> = steps.collect();
    let reached_root = ancestry.reached_root && chain.len() == ancestry.steps.len();
    (chain, reached_root)
}
