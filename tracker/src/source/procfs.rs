//! The source that needs no privileges: snapshots of `/proc`, merged over time.
//!
//! A process inherits the tag of the parent that it had when it was first
//! seen, and keeps it whoever becomes its parent later. Whoever was reparented
//! before it was first seen is missed, and [`Gap::Snapshots`] says so, but for
//! the session that a [subreaper](ProcfsSource::subreaper) runs.

mod scan;
mod standby;
mod strays;
mod subtree;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod fake_tests;
#[cfg(test)]
mod kernel_tests;
#[cfg(test)]
mod subreaper_tests;

use std::collections::HashMap;
use std::os::fd::BorrowedFd;

use crate::lineage::{Event, Limits, Lineage, SessionId, Tag};
use crate::process::{Pid, Proc, ProcessId};

pub use standby::Standby;

use super::{Adoption, Gap, Member, Members, Source, SourceError, SourceKind};
use subtree::Subtree;

/// How often [`Source::members`] and [`Source::adopt`] look again while every
/// look finds a new member. Who forks on is found by the caller's next question.
const LOOKS: usize = 10;

/// The dead only matter as ancestors here.
const LIMITS: Limits = Limits {
    dead: 0,
    dead_age_ns: 0,
    chain: 2,
};

/// Snapshots of `/proc`.
#[derive(Debug)]
pub struct ProcfsSource {
    proc: Proc,
    /// Everybody who was seen, with tags.
    chains: Lineage,
    /// What the last look at each process showed.
    present: HashMap<ProcessId, Present>,
    /// What [`Source::drain`] has to hand over.
    events: Vec<Event>,
    /// What is known to be unknown of sessions, besides what snapshots miss.
    noted: HashMap<SessionId, Vec<Gap>>,
    subtree: Option<Subtree>,
    /// How many processes the kernel did not let us look at, last time.
    hidden: usize,
}

/// A process as the last look at it showed it.
#[derive(Debug)]
struct Present {
    parent: Option<Pid>,
    comm: Vec<u8>,
    tag: Option<Tag>,
    /// Only read of members.
    exe: Option<Vec<u8>>,
    /// A zombie.
    dead: bool,
}

impl ProcfsSource {
    /// Starts from who is there now.
    pub fn new() -> Result<ProcfsSource, SourceError> {
        let mut source = ProcfsSource::reading(Proc::open()?);
        source.scan()?;
        Ok(source)
    }

    /// As [`ProcfsSource::new`], and makes the calling process a child
    /// subreaper (`PR_SET_CHILD_SUBREAPER`), so that orphans below it become
    /// its children instead of init's.
    ///
    /// The first session whose root is adopted fresh and is a child of the
    /// caller is *covered*: every later child of the caller belongs to it, so
    /// the caller must not create others. Nothing leaves a subreaper's subtree
    /// (but for what [`Gap::OtherNamespace`] tells), so once the caller has no
    /// children left, nothing of the session is left.
    /// A zombie is a child too: **after the last member died, wait for all
    /// children, then ask [`Source::members`] once more**. It asks the kernel
    /// for the `ECHILD` of `wait(2)`, and has no gap for the session then.
    ///
    /// Children that were there before the session began, say of a shell that
    /// executed this program, are no members. Orphans of unknown origin may be
    /// theirs then, so these are left alone, and the gap stays.
    pub fn subreaper() -> Result<ProcfsSource, SourceError> {
        let mut source = ProcfsSource::reading(Proc::open()?);
        ProcfsSource::become_subreaper()?;
        source.subtree = source
            .proc
            .seen(Pid::own())?
            .map(|seen| Subtree::of(seen.id));
        source.scan()?;
        Ok(source)
    }

    fn become_subreaper() -> Result<(), SourceError> {
        let own = rustix::process::getpid();
        // The argument is a mere flag.
        rustix::process::set_child_subreaper(Some(own))
            .map_err(|errno| SourceError::Subreaper(errno.into()))
    }

    fn reading(proc: Proc) -> ProcfsSource {
        ProcfsSource {
            proc,
            chains: Lineage::new(LIMITS),
            present: HashMap::new(),
            events: Vec::new(),
            noted: HashMap::new(),
            subtree: None,
            hidden: 0,
        }
    }

    fn tag(&self, id: ProcessId) -> Option<Tag> {
        self.chains.node(id)?.tag
    }

    /// Looks until two looks in a row found no new member.
    fn look_until_stable(&mut self) -> Result<(), SourceError> {
        let mut stable = 0;
        for _ in 0..LOOKS {
            stable = if self.scan()? { 0 } else { stable + 1 };
            if stable == 2 {
                break;
            }
        }
        Ok(())
    }

    /// Whether `id` is to get the tag that an ancestor of it got.
    fn yields(&self, id: ProcessId, to: Tag, instead_of: Option<SessionId>) -> bool {
        match self.tag(id) {
            None => true,
            Some(old) if old.session == to.session => to.exempt && !old.exempt,
            Some(old) => Some(old.session) == instead_of,
        }
    }

    fn tag_descendants(
        &mut self,
        root: ProcessId,
        tag: Tag,
        instead_of: Option<SessionId>,
    ) -> bool {
        let mut found = false;
        for id in self.chains.descendants(root) {
            if self.yields(id, tag, instead_of) {
                self.chains.set_tag(id, Some(tag));
                found = true;
            }
        }
        found
    }

    fn gaps(&self, session: SessionId, proven: bool) -> Vec<Gap> {
        let mut gaps = self.noted.get(&session).cloned().unwrap_or_default();
        if !proven {
            gaps.push(Gap::Snapshots);
        }
        gaps
    }
}

impl Source for ProcfsSource {
    fn kind(&self) -> SourceKind {
        SourceKind::Procfs
    }

    fn drain(&mut self, sink: &mut dyn FnMut(Event)) -> Result<(), SourceError> {
        self.scan()?;
        self.events.drain(..).for_each(sink);
        Ok(())
    }

    fn adopt(
        &mut self,
        adoption: Adoption,
        instead_of: Option<SessionId>,
    ) -> Result<Vec<ProcessId>, SourceError> {
        let Adoption { root, tag, fresh } = adoption;
        if let Some(subtree) = &mut self.subtree
            && subtree.inherit(root, tag.session)
        {
            // Whoever was seen before the session began was taken for nobody's.
            self.present.clear();
            self.chains = Lineage::new(LIMITS);
            self.look_until_stable()?;
            return Ok(Vec::new());
        }
        let seen = self
            .look(root.pid)?
            .filter(|seen| seen.id == root && !seen.stat.is_dead());
        let Some(seen) = seen else {
            return Err(SourceError::Gone(root));
        };
        let parent = seen.stat.parent;
        if fresh
            && !tag.exempt
            && self
                .subtree
                .as_ref()
                .is_some_and(|subtree| subtree.may_cover(parent))
        {
            // Whoever is a child now is none of the session's.
            self.look_until_stable()?;
            self.cover(root, tag.session);
        }
        self.take_in(vec![seen])?;
        self.chains.set_tag(root, Some(tag));
        if tag.exempt
            && let Some(subtree) = &mut self.subtree
        {
            subtree.note_exempt(root);
        }
        if fresh {
            return Ok(vec![root]);
        }
        if !tag.exempt {
            self.note(tag.session, Gap::AdoptedLate);
        }
        for _ in 0..LOOKS {
            let is_new = self.scan()?;
            if !self.tag_descendants(root, tag, instead_of) && !is_new {
                break;
            }
        }
        let descendants = self.chains.descendants(root).into_iter();
        let tagged = descendants.filter(|id| self.tag(*id) == Some(tag));
        Ok(std::iter::once(root).chain(tagged).collect())
    }

    fn release(&mut self, session: SessionId) -> Result<(), SourceError> {
        let tagged: Vec<ProcessId> = self
            .chains
            .all()
            .filter(|node| node.tag.is_some_and(|tag| tag.session == session))
            .map(|node| node.id)
            .collect();
        for id in tagged {
            self.chains.set_tag(id, None);
        }
        self.noted.remove(&session);
        if let Some(subtree) = &mut self.subtree {
            subtree.release(session);
        }
        Ok(())
    }

    fn note(&mut self, session: SessionId, gap: Gap) {
        let noted = self.noted.entry(session).or_default();
        if !noted.contains(&gap) {
            noted.push(gap);
        }
    }

    fn members(&mut self, sessions: &[SessionId]) -> Result<Members, SourceError> {
        // Asked first: no children now means none later, and then what the
        // looks do not find is not below this process.
        let childless = self.subtree.as_ref().is_some_and(Subtree::is_childless);
        self.look_until_stable()?;
        let mut members = Members::default();
        for (id, present) in &self.present {
            let Some(node) = self.chains.node(*id) else {
                continue;
            };
            if let Some(tag) = node.tag.filter(|tag| sessions.contains(&tag.session)) {
                members.found.push(Member {
                    id: *id,
                    start_ns: None,
                    tag,
                    creator: node.creator.filter(|_| node.skipped_ancestors == 0),
                    exiting: present.dead,
                });
            }
        }
        members.found.sort_unstable_by_key(|member| member.id);
        for session in sessions {
            let covered = self
                .subtree
                .as_ref()
                .and_then(|subtree| subtree.covered(*session));
            let mut living = members.found.iter().filter(|member| !member.exiting);
            let proven = childless
                && covered.is_some()
                && !living.any(|member| member.tag.session == *session);
            let mut gaps = self.gaps(*session, proven);
            if let Some(root) = covered.filter(|_| proven) {
                gaps.extend(self.strays(root)?.into_iter().map(Gap::OtherNamespace));
            }
            members
                .gaps
                .extend(gaps.into_iter().map(|gap| (*session, gap)));
        }
        members.notes = self.notes();
        Ok(members)
    }

    fn tag_of(&mut self, id: ProcessId) -> Result<Option<Tag>, SourceError> {
        let Some(seen) = self.look(id.pid)?.filter(|seen| seen.id == id) else {
            return Ok(None);
        };
        if !self.present.contains_key(&id) {
            self.take_in(vec![seen])?;
        }
        Ok(self.tag(id))
    }

    fn condemn(&mut self, _: &[SessionId], _: u64) -> Result<(), SourceError> {
        Ok(())
    }

    fn absolve(&mut self, _: &[SessionId]) -> Result<(), SourceError> {
        Ok(())
    }

    fn wake_eagerly(&mut self, _: bool) -> Result<(), SourceError> {
        Ok(())
    }

    fn news(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
