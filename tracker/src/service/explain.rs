//! Why a process belongs to a session, and what a reap would do with it.

use super::caller::Caller;
use super::error::ServiceError;
use super::queries::{chain, known, visible_sessions};
use super::sessions::alive_by_session;
use super::{Service, view};
use crate::api;
use crate::lineage::Tag;
use crate::process::ProcessId;
use crate::reap::{Protected, SpareReason, evidence};

impl Service {
    /// Who owns a process, by which chain of evidence, and what a reap of its
    /// session by this caller would do with it.
    pub fn why(&self, caller: Caller, process: &str) -> Result<api::Why, ServiceError> {
        let mut tracking = self.tracking();
        tracking.pump()?;
        let visible = visible_sessions(&tracking, caller);
        let node = known(tracking.lineage(), caller, process, &visible)?;
        let (id, alive) = (node.id, node.is_alive() && !self.proc.is_dead(node.id)?);
        let mut shown = view::process(node);
        let mut tag = node.tag;
        if alive {
            // What the kernel says now is what a reap would go by.
            tag = tracking.tag_of(id)?;
            shown.session = tag.map(|tag| tag.session);
            shown.kept = tag.is_some_and(|tag| tag.exempt) || tracking.is_kept(id);
        }
        let (mut chain, _) = chain(tracking.lineage(), id, caller, &visible);
        let counts = alive_by_session(&tracking);
        let mut sessions = Vec::new();
        let mut next = tag.map(|tag| tag.session);
        while let Some(session) = next.and_then(|id| tracking.sessions().get(id)) {
            sessions.push(view::session(session, &counts));
            next = session.parent;
        }
        if let Some(session) = sessions.first() {
            let is_root = |step: &api::Ancestor| session.roots.contains(&step.process.id);
            let end = chain
                .iter()
                .position(is_root)
                .map_or(chain.len(), |at| at + 1);
            chain.truncate(end);
        }
        let evidence = if tag.is_some() {
            evidence(&tracking, id, None)
        } else {
            Vec::new()
        };
        drop(tracking);
        let (verdict, detail) = if alive {
            self.judge(caller, id, tag)?
        } else {
            (api::Verdict::Nothing, "it is dead".to_owned())
        };
        Ok(api::Why {
            process: shown,
            sessions,
            chain,
            evidence,
            verdict,
            detail,
        })
    }

    fn judge(
        &self,
        caller: Caller,
        id: ProcessId,
        tag: Option<Tag>,
    ) -> Result<(api::Verdict, String), ServiceError> {
        let client: Vec<_> = caller.process.into_iter().collect();
        let protected = Protected::new(&self.proc, &client)?;
        let spare = |reason, detail: &str| (api::Verdict::Spare { reason }, detail.to_owned());
        let Some(tag) = tag else {
            return Ok((api::Verdict::NotOwned, "no session owns it".to_owned()));
        };
        if tag.exempt {
            let detail = "a keep rule names it, or a process that it descends from";
            return Ok(spare(SpareReason::Kept, detail));
        }
        if let Some(detail) = protected.check(id) {
            return Ok(spare(SpareReason::Protected, detail));
        }
        if !caller.may_all && self.uid_of(id)? != Some(caller.uid) {
            let detail = format!("it does not run as uid {}", caller.uid);
            return Ok(spare(SpareReason::PermissionDenied, &detail));
        }
        Ok((
            api::Verdict::End,
            "a reap of its session would end it".to_owned(),
        ))
    }
}
