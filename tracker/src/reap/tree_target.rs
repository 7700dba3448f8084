//! A process with its descendants as a target, without a record of the past:
//! what `/proc` shows.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::protect::Protected;
use super::report::{Evidence, EvidenceKind, SpareReason, TargetEntry};
use super::target::{Candidate, Spared, Survey, Target, TargetError};
use super::tree_request::{TreeError, TreeRequest};
use crate::process::{Pid, Proc, ProcError, ProcessId, Seen, StartTime, escape, now_boot_ns};
use crate::source::SourceKind;

/// Looks are at least so far apart.
const INTERVAL: Duration = Duration::from_millis(20);
/// Looks take at most one part in so many of the time.
const SHARE: u32 = 4;
/// What a look at `/proc` cannot prove.
const GAP: &str = "a look at /proc finds only descendants whose parents are alive: \
                   whoever was reparented before is unknown";

/// A process with those of its descendants that can be found by parent links.
///
/// Looks are merged: who was found once stays a member when its parent dies,
/// and so do the children that it has from then on. Who was reparented before
/// the first look, or between a fork and the next look, is never found, so the
/// verdict is never `complete`.
#[derive(Debug)]
pub struct TreeTarget<'a> {
    proc: &'a Proc,
    root: ProcessId,
    exclude_root: bool,
    protected: Protected,
    /// Everybody that was ever found, the root included.
    members: HashMap<ProcessId, Vec<Evidence>>,
    interval: Duration,
}

impl<'a> TreeTarget<'a> {
    /// Fails when the request names nobody that may be ended. Nobody is
    /// looked at otherwise.
    pub fn new(
        proc: &'a Proc,
        request: &TreeRequest,
        protected: Protected,
    ) -> Result<TreeTarget<'a>, TreeError> {
        let root = request.resolve(proc)?;
        let evidence = Evidence {
            kind: EvidenceKind::Parent,
            detail: "the process that was named".to_owned(),
        };
        Ok(TreeTarget {
            proc,
            root,
            exclude_root: request.exclude_root,
            protected,
            members: HashMap::from([(root, vec![evidence])]),
            interval: INTERVAL,
        })
    }

    /// Finds new members. Answers the children of members of whom it cannot
    /// be told whether they are.
    fn find(
        &mut self,
        all: &HashMap<Pid, Seen>,
        begun: StartTime,
    ) -> Result<Vec<Spared>, ProcError> {
        let mut children: HashMap<Pid, Vec<&Seen>> = HashMap::new();
        for seen in all.values() {
            if let Some(parent) = seen.stat.parent {
                children.entry(parent).or_default().push(seen);
            }
        }
        let mut unclear = Vec::new();
        let mut visited = HashSet::new();
        let is_member = |seen: &&Seen| self.members.contains_key(&seen.id);
        let mut pending: Vec<&Seen> = all.values().filter(is_member).collect();
        while let Some(parent) = pending.pop() {
            if !visited.insert(parent.id) {
                continue;
            }
            for child in children.get(&parent.id.pid).into_iter().flatten() {
                if self.members.contains_key(&child.id) {
                    continue;
                }
                let evidence = vec![child_of(parent)];
                if is_settled(parent, child, begun) || self.is_child(parent, child)? {
                    self.members.insert(child.id, evidence);
                    pending.push(child);
                } else {
                    unclear.push(Spared {
                        id: child.id,
                        start_ns: None,
                        evidence,
                        reason: SpareReason::Inconclusive,
                        detail: "its parent ended while it was looked at".to_owned(),
                    });
                }
            }
        }
        Ok(unclear)
    }

    /// Reads both again. `parent` had its pid before the child is read, and if
    /// it has it afterwards, then that is who the child's parent link means.
    fn is_child(&self, parent: &Seen, child: &Seen) -> Result<bool, ProcError> {
        let child = self.proc.same(child.id)?;
        let linked = child.is_some_and(|child| child.stat.parent == Some(parent.id.pid));
        Ok(linked && self.proc.same(parent.id)?.is_some())
    }
}

/// Whether the pid of `parent` cannot have changed hands between the two
/// reads, which came in any order after `begun`. Both are older, so neither
/// did `parent` get the pid from the child's true parent since, nor is the
/// child's true parent a later holder: that one would be younger than `begun`,
/// and so would its child.
fn is_settled(parent: &Seen, child: &Seen, begun: StartTime) -> bool {
    parent.id.start_time < begun && child.id.start_time < begun
}

fn child_of(parent: &Seen) -> Evidence {
    let shown = ProcessId::new(parent.id.pid, parent.stat.start_time);
    let name = escape(&parent.stat.comm);
    Evidence {
        kind: EvidenceKind::Parent,
        detail: format!("child of {shown} ({name})"),
    }
}

impl Target for TreeTarget<'_> {
    fn entry(&self) -> TargetEntry {
        TargetEntry::Process {
            pid: self.root.pid,
            start_ticks: self.proc.clock().to_shown(self.root.start_time).ticks(),
        }
    }

    fn source(&self) -> SourceKind {
        SourceKind::Procfs
    }

    fn survey(&mut self) -> Result<Survey, TargetError> {
        let started = Instant::now();
        let begun = StartTime::from_ns(now_boot_ns());
        let all = self.proc.scan()?.into_iter();
        let all: HashMap<Pid, Seen> = all.map(|seen| (seen.id.pid, seen)).collect();
        let unclear = self.find(&all, begun)?;
        let mut survey = Survey {
            spared: unclear,
            gaps: vec![GAP.to_owned()],
            ..Survey::default()
        };
        for (id, evidence) in &self.members {
            let Some(seen) = all.get(&id.pid).filter(|seen| seen.id == *id) else {
                continue;
            };
            if *id == self.root && self.exclude_root {
                continue;
            }
            let (id, evidence) = (*id, evidence.clone());
            match self.protected.check_seen(seen) {
                Some(detail) => survey.spared.push(Spared {
                    id,
                    start_ns: None,
                    evidence,
                    reason: SpareReason::Protected,
                    detail: detail.to_owned(),
                }),
                None => survey.candidates.push(Candidate {
                    id,
                    start_ns: None,
                    creator: None,
                    evidence,
                }),
            }
        }
        self.interval = INTERVAL.max(started.elapsed() * SHARE);
        Ok(survey)
    }

    fn recheck(&mut self, id: ProcessId) -> Result<(), (SpareReason, String)> {
        if let Some(detail) = self.protected.check(id) {
            return Err((SpareReason::Protected, detail.to_owned()));
        }
        if self.members.contains_key(&id) && !(self.exclude_root && id == self.root) {
            return Ok(());
        }
        Err((
            SpareReason::Inconclusive,
            "it was not found to descend from the target".to_owned(),
        ))
    }

    fn look_again(&self) -> Option<Duration> {
        Some(self.interval)
    }
}

#[cfg(test)]
mod tests;
