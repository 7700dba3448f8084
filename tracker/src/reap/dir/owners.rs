//! Whose a process in a directory is.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::lineage::{Lineage, SessionId};
use crate::process::{Place, Proc, ProcessId, Seen, StartTime, Workdir};
use crate::reap::report::SpareReason;
use crate::session::{Session, SessionError, Tracking};
use crate::source::{SourceError, SourceKind};

/// For whom a directory is reaped, and who else works on this host.
#[derive(Debug)]
pub(super) struct Owners {
    tracking: Arc<Mutex<Tracking>>,
    asker: Asker,
    /// The sessions whose members may be ended.
    own: HashSet<SessionId>,
    /// Other sessions that may have members nobody knows of, with the start of
    /// their oldest root.
    doubtful: Vec<(SessionId, StartTime)>,
}

/// For whom a directory is reaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// A session that ends, with those inside it.
    Session(SessionId),
    /// The sessions of these processes, and those that work in the directory.
    /// A session inside them that has a directory of its own is not theirs here.
    Clients(Vec<ProcessId>),
}

/// What is known of the owner of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// It is a member of one of the sessions that the directory is reaped for.
    Own,
    /// No session owns it.
    Nobody,
    /// It is to be left alone.
    Spare(SpareReason, String),
}

impl Owners {
    pub(super) fn new(tracking: Arc<Mutex<Tracking>>, asker: Asker) -> Owners {
        Owners {
            tracking,
            asker,
            own: HashSet::new(),
            doubtful: Vec::new(),
        }
    }

    /// The directory that a session works in is known although it is removed.
    pub(super) fn recall(&self, place: &Place) -> Place {
        let Place::Removed(removed) = place else {
            return place.clone();
        };
        let tracking = self.lock();
        let sessions = tracking.sessions().iter();
        let there = sessions.filter(|session| {
            session
                .workdir
                .as_ref()
                .is_some_and(|workdir| workdir.path == removed.path)
        });
        let latest = there.max_by_key(|session| session.opened_ns);
        latest
            .and_then(|session| session.workdir.clone())
            .map_or_else(|| place.clone(), Place::Known)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Tracking> {
        self.tracking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn asker(&self) -> &Asker {
        &self.asker
    }

    pub(super) fn source(&self) -> SourceKind {
        self.lock().source_kind()
    }

    /// Learns which sessions there are; answers where the others work.
    pub(super) fn refresh(
        &mut self,
        aim: &Place,
    ) -> Result<Vec<(SessionId, Workdir)>, SessionError> {
        let mut tracking = self.tracking.lock().unwrap_or_else(PoisonError::into_inner);
        tracking.pump()?;
        self.own = own(&mut tracking, &self.asker, aim)?;
        let others: Vec<Session> = tracking
            .sessions()
            .iter()
            .filter(|session| !self.own.contains(&session.id))
            .cloned()
            .collect();
        self.doubtful.clear();
        for session in &others {
            let oldest = session.roots.iter().map(|root| root.start_time).min();
            if let Some(oldest) = oldest
                && !tracking.members(session.id)?.gaps.is_empty()
            {
                self.doubtful.push((session.id, oldest));
            }
        }
        Ok(others
            .iter()
            .filter_map(|session| Some((session.id, session.workdir.clone()?)))
            .collect())
    }

    /// Whose a process is, now.
    pub(super) fn claim(&self, proc: &Proc, seen: &Seen) -> Result<Claim, SourceError> {
        let mut tracking = self.lock();
        let Some(tag) = tracking.tag_of(seen.id)? else {
            return Ok(self.claim_untagged(&tracking, proc, seen));
        };
        let spare = |reason, detail| Ok(Claim::Spare(reason, detail));
        if tag.exempt {
            let detail = "a keep rule names it, or a process that it descends from";
            return spare(SpareReason::Kept, detail.to_owned());
        }
        if self.own.contains(&tag.session) {
            return Ok(Claim::Own);
        }
        if tracking.sessions().get(tag.session).is_some() {
            return spare(
                SpareReason::OtherSession,
                format!("it belongs to session {}", tag.session),
            );
        }
        spare(
            SpareReason::Inconclusive,
            format!("it belongs to session {}, which is not known", tag.session),
        )
    }

    fn claim_untagged(&self, tracking: &Tracking, proc: &Proc, seen: &Seen) -> Claim {
        let id = seen.id;
        if tracking.is_kept(id) {
            let detail = "it is kept, or a process that it descends from";
            return Claim::Spare(SpareReason::Kept, detail.to_owned());
        }
        let own = tracking
            .sessions()
            .iter()
            .filter(|session| self.own.contains(&session.id));
        let rules: Vec<_> = own.flat_map(|session| &session.keep).collect();
        if !rules.is_empty() {
            let exe = proc.exe(id.pid).unwrap_or_default();
            if let Some(rule) = rules
                .iter()
                .find(|rule| rule.matches(id, &seen.stat.comm, &exe))
            {
                return Claim::Spare(SpareReason::Kept, format!("the keep rule {rule} names it"));
            }
        }
        for (session, oldest_root) in &self.doubtful {
            match descent(tracking.lineage(), id, *session, *oldest_root) {
                Descent::Apart => {}
                Descent::Member => {
                    let detail = format!("it descends from session {session}");
                    return Claim::Spare(SpareReason::OtherSession, detail);
                }
                Descent::Unknown => {
                    let detail = format!(
                        "who created it is not known, and session {session} may have members that are not known"
                    );
                    return Claim::Spare(SpareReason::Inconclusive, detail);
                }
            }
        }
        Claim::Nobody
    }
}

fn own(
    tracking: &mut Tracking,
    asker: &Asker,
    aim: &Place,
) -> Result<HashSet<SessionId>, SourceError> {
    let clients = match asker {
        Asker::Session(id) => return Ok(tracking.sessions().family(*id).into_iter().collect()),
        Asker::Clients(clients) => clients,
    };
    let mut outer = HashSet::new();
    for client in clients {
        outer.extend(tracking.tag_of(*client)?.map(|tag| tag.session));
    }
    let works_there = |session: &&Session| {
        session.workdir.as_ref().is_some_and(|workdir| match aim {
            Place::Known(aim) => workdir.id.is(aim.id),
            Place::Removed(_) => false,
        })
    };
    outer.extend(
        tracking
            .sessions()
            .iter()
            .filter(works_there)
            .map(|session| session.id),
    );
    Ok(inner(tracking, &outer))
}

/// These sessions with those inside them, but for those that work in a
/// directory of their own.
fn inner(tracking: &Tracking, outer: &HashSet<SessionId>) -> HashSet<SessionId> {
    let mut found = outer.clone();
    loop {
        let more: Vec<_> = tracking
            .sessions()
            .iter()
            .filter(|session| session.workdir.is_none() && !found.contains(&session.id))
            .filter(|session| session.parent.is_some_and(|parent| found.contains(&parent)))
            .map(|session| session.id)
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// Whether a process descends from a session's roots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Descent {
    Apart,
    Member,
    Unknown,
}

/// Goes up the chain of creators to somebody who is older than the session's
/// oldest root, and so does not descend from it.
fn descent(
    lineage: &Lineage,
    id: ProcessId,
    session: SessionId,
    oldest_root: StartTime,
) -> Descent {
    if id.start_time < oldest_root {
        return Descent::Apart;
    }
    let ancestry = lineage.ancestry(id);
    for step in &ancestry.steps {
        let Some(node) = lineage.node(step.id).filter(|_| step.skipped_before == 0) else {
            return Descent::Unknown;
        };
        if step.id.start_time < oldest_root {
            return Descent::Apart;
        }
        if node.tag.is_some_and(|tag| tag.session == session) {
            return Descent::Member;
        }
        // A parent that was only seen may be whoever took an orphan in.
        if node.parent_only {
            return Descent::Unknown;
        }
    }
    if ancestry.reached_root {
        Descent::Apart
    } else {
        Descent::Unknown
    }
}
