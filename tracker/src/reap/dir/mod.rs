//! A directory as a target: whoever has its working directory there, and is
//! nobody else's.

mod door;
mod holders;
mod locate;
mod owners;
mod probe;
mod request;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub use request::{DirError, DirRequest};

use door::Door;
use holders::Holding;
use locate::{Location, Locator};
use owners::{Asker, Claim, Owners};
use probe::Found;

use super::protect::Protected;
use super::report::{Evidence, EvidenceKind, HolderEntry, SpareReason, TargetEntry};
use super::session_target::evidence;
use super::target::{Candidate, Spared, Survey, Target, TargetError};
use crate::process::{Place, Proc, ProcError, ProcessId, Seen, escape};
use crate::session::Tracking;
use crate::source::SourceKind;

/// Looks are at least so far apart.
const INTERVAL: Duration = Duration::from_millis(20);
/// Looks take at most one part in so many of the time.
const SHARE: u32 = 4;
/// What a look at working directories says nothing of.
const LEFT_NOTE: &str = "whoever left the directory is not covered: \
                         only its session's lineage tells of it";
/// Why the directory may have been another one.
const REMOVED_NOTE: &str = "the directory was removed before anybody took note of it, \
                            so its processes were matched by its path";

/// What puts a process into the directory.
struct Presence {
    found: Found,
    evidence: Evidence,
}

/// Where a process is.
enum Where {
    Elsewhere,
    /// It is on its way out, and has no working directory any more.
    Nowhere,
    Unreadable,
    There(Presence),
}

/// Whoever has its working directory in a directory, or below it.
///
/// Every look goes through all processes, as nothing tells when one enters or
/// leaves. Ownership is decided before anybody may be signalled, and again,
/// with the working directory, right before each signal.
#[derive(Debug)]
pub struct DirTarget<'a> {
    proc: &'a Proc,
    owners: Owners,
    locator: Locator,
    door: Door,
    protected: Protected,
    open_files: bool,
    /// Who had left when it was to be signalled.
    left: HashSet<ProcessId>,
    interval: Duration,
}

impl<'a> DirTarget<'a> {
    /// Fails when the directory is there and need not be, or when there is no
    /// sign that it ever was. Nobody is signalled for either.
    pub fn new(
        proc: &'a Proc,
        tracking: Arc<Mutex<Tracking>>,
        request: &DirRequest,
        protected: Protected,
    ) -> Result<DirTarget<'a>, DirError> {
        let asker = match request.session {
            Some(session) => Asker::Session(session),
            None => Asker::Clients(request.clients.clone()),
        };
        let owners = Owners::new(tracking, asker);
        let aim = owners.recall(&request.place);
        let mut locator = Locator::new(aim);
        let door = request.admit(&mut locator)?;
        let mut target = DirTarget {
            proc,
            owners,
            locator,
            door,
            protected,
            open_files: request.open_files,
            left: HashSet::new(),
            interval: INTERVAL,
        };
        if let Place::Removed(removed) = target.locator.aim().clone()
            && !request.recorded
        {
            let found = target.survey()?;
            // Who may not be looked at is no sign of anything.
            let is_sign = |spared: &Spared| !spared.evidence.is_empty();
            let any = !found.candidates.is_empty() || found.spared.iter().any(is_sign);
            if !any && target.holders().is_empty() {
                return Err(DirError::Missing(removed.path));
            }
        }
        Ok(target)
    }

    /// Which directory it is. One that was removed, and that a session works
    /// in, is that session's.
    pub fn place(&self) -> &Place {
        self.locator.aim()
    }

    /// Whether a process that is there, or perhaps there, may be ended.
    fn judge(&self, seen: &Seen, found: &Found) -> Result<(), (SpareReason, String)> {
        if let Some(detail) = self.protected.check_seen(seen) {
            return Err((SpareReason::Protected, detail.to_owned()));
        }
        match self.owners.claim(self.proc, seen) {
            Ok(Claim::Spare(reason, detail)) => return Err((reason, detail)),
            Ok(Claim::Own | Claim::Nobody) => {}
            Err(error) => return Err((SpareReason::Inconclusive, error.to_string())),
        }
        match found {
            Found::Inside => Ok(()),
            Found::Worktree(session) => Err((
                SpareReason::OtherSession,
                format!("session {session} works in its working directory"),
            )),
            Found::Unclear(detail) => Err((SpareReason::Inconclusive, detail.clone())),
            // Whoever asks has found it somewhere.
            Found::Elsewhere => Err(left()),
        }
    }

    fn take_in(&self, seen: &Seen, presence: &Presence, survey: &mut Survey) {
        let (id, start_ns) = (seen.id, None);
        let mut told = vec![presence.evidence.clone()];
        match self.judge(seen, &presence.found) {
            Ok(()) => {
                if self.left.contains(&id) {
                    survey
                        .gaps
                        .push(format!("process {id} left the directory, and came back"));
                }
                let tracking = self.owners.lock();
                let node = tracking.lineage().node(id);
                if node.is_some_and(|node| node.tag.is_some()) {
                    told.extend(evidence(&tracking, id, None));
                }
                survey.candidates.push(Candidate {
                    id,
                    start_ns,
                    creator: None,
                    evidence: told,
                });
            }
            Err((reason, detail)) => {
                survey.spared.push(Spared {
                    id,
                    start_ns,
                    evidence: told,
                    reason,
                    detail,
                });
            }
        }
    }

    /// How a process is in the directory, if it is.
    fn find(&mut self, seen: &Seen) -> Result<Where, ProcError> {
        match self.locator.locate(self.proc, seen)? {
            Location::At(cwd, found) => {
                let path = escape(cwd.path.text().as_encoded_bytes());
                let evidence = Evidence {
                    kind: EvidenceKind::Cwd,
                    detail: format!("its working directory is {path}"),
                };
                return Ok(Where::There(Presence { found, evidence }));
            }
            Location::Unreadable => return Ok(Where::Unreadable),
            Location::Nowhere => return Ok(Where::Nowhere),
            Location::Elsewhere if !self.open_files => return Ok(Where::Elsewhere),
            Location::Elsewhere => {}
        }
        let Some(holdings) = self.locator.held_by(self.proc, seen)? else {
            return Ok(Where::Unreadable);
        };
        // What speaks against ending it counts more.
        let against = |holding: &&Holding| holding.found != Found::Inside;
        let holding = holdings.iter().find(against).or(holdings.first());
        Ok(holding.map_or(Where::Elsewhere, |holding| {
            Where::There(Presence {
                found: holding.found.clone(),
                evidence: Evidence {
                    kind: EvidenceKind::OpenFile,
                    detail: holding.detail(),
                },
            })
        }))
    }

    /// A process of which it may not be read where it is: listed, if it can be
    /// there and could be ended.
    fn take_in_unreadable(&self, seen: &Seen, look: &mut Look) -> Result<(), ProcError> {
        if self.protected.check_seen(seen).is_some() {
            return Ok(());
        }
        let Some(credentials) = self.proc.credentials(seen.id.pid)? else {
            return Ok(());
        };
        if !self.door.lets_in(&credentials) {
            return Ok(());
        }
        if !credentials.may_be_signalled() {
            look.foreign += 1;
            return Ok(());
        }
        look.unreadable += 1;
        look.survey.spared.push(Spared {
            id: seen.id,
            start_ns: None,
            evidence: Vec::new(),
            reason: SpareReason::Inconclusive,
            detail: "where it is may not be read".to_owned(),
        });
        Ok(())
    }
}

/// What one look has found so far.
#[derive(Default)]
struct Look {
    survey: Survey,
    /// Who may not be looked at, and could be ended.
    unreadable: usize,
    /// Who may not be looked at, nor ended.
    foreign: usize,
}

impl Look {
    fn conclude(self) -> Survey {
        let mut survey = self.survey;
        if self.unreadable > 0 {
            let gap = format!("where {} processes are may not be read", self.unreadable);
            survey.gaps.push(gap);
        }
        if self.foreign > 0 {
            let note = format!(
                "where {} processes of other users are may not be read, nor may they be ended",
                self.foreign
            );
            survey.notes.push(note);
        }
        survey
    }
}

impl Target for DirTarget<'_> {
    fn entry(&self) -> TargetEntry {
        TargetEntry::Directory {
            path: escape(self.locator.aim().path().as_os_str().as_encoded_bytes()),
        }
    }

    fn source(&self) -> SourceKind {
        self.owners.source()
    }

    fn survey(&mut self) -> Result<Survey, TargetError> {
        let started = Instant::now();
        self.protected.refresh(self.proc)?;
        let others = self.owners.refresh(self.locator.aim())?;
        self.locator.refresh(self.proc, others)?;
        let mut look = Look::default();
        for seen in self.proc.scan()? {
            if seen.stat.is_kernel_thread() || seen.stat.is_dead() {
                continue;
            }
            match self.find(&seen)? {
                Where::Elsewhere | Where::Nowhere => {}
                Where::Unreadable => self.take_in_unreadable(&seen, &mut look)?,
                Where::There(presence) => self.take_in(&seen, &presence, &mut look.survey),
            }
        }
        let mut survey = look.conclude();
        if matches!(self.locator.aim(), Place::Removed(_)) {
            survey.notes.push(REMOVED_NOTE.to_owned());
        }
        if matches!(self.owners.asker(), Asker::Clients(_)) {
            survey.notes.push(LEFT_NOTE.to_owned());
        }
        self.interval = INTERVAL.max(started.elapsed() * SHARE);
        Ok(survey)
    }

    fn recheck(&mut self, id: ProcessId) -> Result<(), (SpareReason, String)> {
        let inconclusive = |error: ProcError| (SpareReason::Inconclusive, error.to_string());
        let Some(seen) = self.proc.same(id).map_err(inconclusive)? else {
            // It is gone, and the engine will find that out.
            return Ok(());
        };
        match self.find(&seen).map_err(inconclusive)? {
            Where::There(presence) => self.judge(&seen, &presence.found),
            // It has not left; the engine will find out that it is gone.
            Where::Nowhere => Ok(()),
            Where::Elsewhere => {
                self.left.insert(id);
                Err(left())
            }
            Where::Unreadable => {
                let detail = "where it is may not be read any more";
                Err((SpareReason::Inconclusive, detail.to_owned()))
            }
        }
    }

    fn holders(&mut self) -> Vec<HolderEntry> {
        let mut entries = self.locator.mounts();
        for seen in self.proc.scan().unwrap_or_default() {
            if seen.stat.is_kernel_thread() || seen.stat.is_dead() {
                continue;
            }
            // A report is made of what can be read.
            let held = self.locator.held_by(self.proc, &seen).ok().flatten();
            entries.extend(holders::entry(self.proc, &seen, &held.unwrap_or_default()));
        }
        entries.sort_by_key(|entry| entry.pid);
        entries
    }

    fn look_again(&self) -> Option<Duration> {
        Some(self.interval)
    }
}

fn left() -> (SpareReason, String) {
    (
        SpareReason::Left,
        "its working directory is elsewhere now".to_owned(),
    )
}

#[cfg(test)]
mod tests;
