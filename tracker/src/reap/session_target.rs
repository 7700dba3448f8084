//! A session, with the sessions inside it, as a target.

use std::collections::HashSet;
use std::fmt::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::epoll;

use super::describe::Description;
use super::protect::Protected;
use super::report::{Evidence, EvidenceKind, SpareReason, TargetEntry};
use super::target::{Candidate, Spared, Survey, Target, TargetError};
use crate::lineage::{Lineage, SessionId};
use crate::process::{ProcessId, escape};
use crate::session::{SessionError, Subscription, Tracking};
use crate::source::{Member, SourceKind};

/// Snapshots cannot tell when a member forks, so they are repeated.
const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(20);

/// How many steps of a chain a report shows.
const CHAIN_SHOWN: usize = 8;

/// Everybody in a session and in the sessions inside it.
#[derive(Debug)]
pub struct SessionTarget {
    tracking: Arc<Mutex<Tracking>>,
    id: SessionId,
    name: String,
    source: SourceKind,
    protected: Protected,
    /// Whose evidence has been told.
    described: HashSet<ProcessId>,
    /// Members that are protected: they may fork while the session is condemned.
    sheltered: Vec<ProcessId>,
    subscription: Option<Subscription>,
    watch: Option<OwnedFd>,
}

impl SessionTarget {
    /// The session must be open.
    pub fn new(
        tracking: Arc<Mutex<Tracking>>,
        id: SessionId,
        protected: Protected,
    ) -> Result<SessionTarget, SessionError> {
        let mut locked = lock(&tracking);
        let name = locked
            .sessions()
            .get(id)
            .ok_or(SessionError::Unknown(id))?
            .name
            .clone();
        let family = locked.sessions().family(id);
        let source = locked.source_kind();
        let subscription = locked.subscribe(&family)?;
        let watch = match locked.news() {
            Some(news) => Some(watch(&[news, subscription.as_fd()])?),
            None => None,
        };
        drop(locked);
        Ok(SessionTarget {
            tracking,
            id,
            name,
            source,
            protected,
            described: HashSet::new(),
            sheltered: Vec::new(),
            subscription: Some(subscription),
            watch,
        })
    }

    fn family(&self, tracking: &Tracking) -> Vec<SessionId> {
        tracking.sessions().family(self.id)
    }

    /// The chain is put in words at the first look only: later ones are about
    /// who is left, and there can be thousands.
    fn evidence(&mut self, tracking: &Tracking, member: &Member) -> Vec<Evidence> {
        if !self.described.insert(member.id) {
            return Vec::new();
        }
        evidence(tracking, member.id, member.creator)
    }
}

impl Target for SessionTarget {
    fn entry(&self) -> TargetEntry {
        TargetEntry::Session {
            id: self.id,
            name: escape(self.name.as_bytes()),
        }
    }

    fn source(&self) -> SourceKind {
        self.source
    }

    fn survey(&mut self) -> Result<Survey, TargetError> {
        if let Some(subscription) = &self.subscription {
            subscription.acknowledge();
        }
        let tracking = Arc::clone(&self.tracking);
        let mut tracking = lock(&tracking);
        let members = tracking.members(self.id)?;
        let mut survey = Survey {
            gaps: members
                .gaps
                .iter()
                .map(|(_, gap)| gap.to_string())
                .collect(),
            notes: members.notes,
            ..Survey::default()
        };
        for member in &members.found {
            let (id, start_ns) = (member.id, member.start_ns);
            let evidence = self.evidence(&tracking, member);
            let spared = if member.tag.exempt {
                let detail = "a keep rule names it, or a process that it descends from";
                Some((SpareReason::Kept, detail.to_owned()))
            } else {
                self.protected
                    .check(id)
                    .map(|detail| (SpareReason::Protected, detail.to_owned()))
            };
            match spared {
                // The dead need no sparing.
                Some(_) if member.exiting => {}
                Some((reason, detail)) => {
                    if reason == SpareReason::Protected && !self.sheltered.contains(&id) {
                        self.sheltered.push(id);
                    }
                    survey.spared.push(Spared {
                        id,
                        start_ns,
                        evidence,
                        reason,
                        detail,
                    });
                }
                None => survey.candidates.push(Candidate {
                    id,
                    start_ns,
                    creator: member.creator,
                    evidence,
                }),
            }
        }
        Ok(survey)
    }

    fn recheck(&mut self, id: ProcessId) -> Result<(), (SpareReason, String)> {
        if let Some(detail) = self.protected.check(id) {
            return Err((SpareReason::Protected, detail.to_owned()));
        }
        let mut tracking = lock(&self.tracking);
        let tag = match tracking.tag_of(id) {
            Ok(tag) => tag,
            Err(error) => return Err((SpareReason::Inconclusive, error.to_string())),
        };
        match tag {
            Some(tag) if tag.exempt => Err((SpareReason::Kept, "it is kept since then".to_owned())),
            Some(tag) if self.family(&tracking).contains(&tag.session) => Ok(()),
            Some(tag) => Err((
                SpareReason::OtherSession,
                format!("it belongs to session {}", tag.session),
            )),
            None => Err((
                SpareReason::Inconclusive,
                "it is no member any more".to_owned(),
            )),
        }
    }

    fn describe(&mut self, id: ProcessId) -> Option<Description> {
        let tracking = lock(&self.tracking);
        let node = tracking.lineage().node(id)?;
        let program = tracking.lineage().program(id);
        Some(Description {
            comm: node.comm.clone(),
            exe: program.map_or(Vec::new(), |program| program.exe.to_vec()),
            cmdline: program.map_or(Vec::new(), |program| program.argv.to_vec()),
            truncated: program.is_some_and(|program| program.truncated),
            uid: node.uid,
        })
    }

    fn condemn(&mut self, until_ns: u64) -> Result<(), TargetError> {
        let mut tracking = lock(&self.tracking);
        let family = self.family(&tracking);
        tracking.shield(&self.sheltered)?;
        Ok(tracking.condemn(&family, until_ns)?)
    }

    fn absolve(&mut self) -> Result<(), TargetError> {
        let mut tracking = lock(&self.tracking);
        let family = self.family(&tracking);
        Ok(tracking.absolve(&family)?)
    }

    fn news(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(AsFd::as_fd)
    }

    fn look_again(&self) -> Option<Duration> {
        self.watch.is_none().then_some(SNAPSHOT_INTERVAL)
    }
}

impl Drop for SessionTarget {
    fn drop(&mut self) {
        if let Some(subscription) = self.subscription.take() {
            // Wakeups that nobody needs cost time, not correctness.
            let _ = lock(&self.tracking).unsubscribe(subscription);
        }
    }
}

/// A panic of another holder leaves the state as consistent as its last call did.
fn lock(tracking: &Mutex<Tracking>) -> MutexGuard<'_, Tracking> {
    tracking.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One descriptor that is readable when any of `fds` is. The source's own is
/// among them because nobody else may be draining it, the subscription's
/// because somebody else may have drained it first.
fn watch(fds: &[BorrowedFd<'_>]) -> Result<OwnedFd, SessionError> {
    let watch = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(std::io::Error::from)?;
    for fd in fds {
        epoll::add(
            &watch,
            fd,
            epoll::EventData::new_u64(0),
            epoll::EventFlags::IN,
        )
        .map_err(std::io::Error::from)?;
    }
    Ok(watch)
}

/// Why a member belongs to its session. `creator` is who the kernel says
/// created it, for when the records were lost.
pub fn evidence(tracking: &Tracking, id: ProcessId, creator: Option<ProcessId>) -> Vec<Evidence> {
    let mut evidence = Vec::new();
    if tracking.was_adopted(id) {
        evidence.push(Evidence {
            kind: EvidenceKind::Adopted,
            detail: "it was running when the session was opened".to_owned(),
        });
    }
    if let Some(detail) = chain(tracking, id, creator) {
        evidence.push(Evidence {
            kind: EvidenceKind::Lineage,
            detail,
        });
    }
    evidence
}

/// "created by sh 12@3, by make 10@2 (dead), by sh 9@1, a root of the session".
fn chain(tracking: &Tracking, id: ProcessId, creator: Option<ProcessId>) -> Option<String> {
    let lineage = tracking.lineage();
    let is_root = |id| {
        tracking
            .sessions()
            .iter()
            .any(|session| session.roots.contains(&id))
    };
    if is_root(id) {
        return Some("a root of the session".to_owned());
    }
    let steps = lineage.ancestry(id).steps;
    let mut detail = String::from("created");
    for step in steps.iter().skip(1).take(CHAIN_SHOWN) {
        if step.skipped_before > 0 {
            let _ = write!(detail, " by {} that are forgotten,", step.skipped_before);
        }
        detail.push_str(" by ");
        detail.push_str(&name(lineage, step.id));
        if is_root(step.id) {
            detail.push_str(", a root of the session");
            return Some(detail);
        }
        detail.push(',');
    }
    if steps.len() > 1 {
        detail.pop();
        return Some(detail);
    }
    // The records were lost; the kernel's map still says who created it.
    creator.map(|creator| format!("created by {}", name(lineage, creator)))
}

fn name(lineage: &Lineage, id: ProcessId) -> String {
    let Some(node) = lineage.node(id) else {
        return id.to_string();
    };
    let dead = if node.exit.is_some() { " (dead)" } else { "" };
    format!("{} {id}{dead}", escape(&node.comm))
}
