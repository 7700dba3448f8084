//! One look at everybody.

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;

use super::{Present, ProcfsSource, SourceError};
use crate::lineage::{Event, Gone, Snapshot};
use crate::process::{Pid, ProcError, ProcessId, Seen, StartTime, now_boot_ns};

/// How often a process is looked at again whose parent changes meanwhile.
const TRIES: usize = 3;

/// Whose child a process is.
pub(super) enum Parent {
    /// This one's.
    Known(ProcessId),
    /// This one's, who was not seen before.
    New(Box<Seen>),
    /// Nobody's who can be seen from here.
    Nobody,
    /// Its parent went while we looked, or itself.
    Unsettled,
}

impl ProcfsSource {
    /// Looks at everybody once, and answers whether there was a new member, or
    /// somebody who has to be looked at again.
    pub(super) fn scan(&mut self) -> Result<bool, SourceError> {
        let begun_ns = now_boot_ns();
        // A walk can miss who is there throughout, so it is done twice; and
        // who was there before is asked for directly.
        let mut pids = self.proc.pids()?;
        pids.extend(self.proc.pids()?);
        pids.extend(self.present.keys().map(|id| id.pid));
        pids.sort_unstable();
        pids.dedup();
        self.hidden = 0;
        let mut found = Vec::with_capacity(pids.len());
        for pid in pids {
            found.extend(self.look(pid)?);
        }
        let there: HashSet<ProcessId> = found.iter().map(|seen| seen.id).collect();
        let events = &mut self.events;
        self.present.retain(|id, present| {
            let stays = there.contains(id);
            if !stays && !present.dead {
                events.push(Event::Gone(Gone {
                    id: *id,
                    time_ns: begun_ns,
                }));
            }
            stays
        });
        if let Some(subtree) = &mut self.subtree {
            subtree.forget_doubts(|id| !there.contains(&id));
        }
        let is_new = self.take_in_at(found, begun_ns)?;
        let there: Vec<ProcessId> = self.present.keys().copied().collect();
        self.chains.resync(&there, begun_ns);
        Ok(is_new)
    }

    /// Who has this pid; `None` also when the kernel does not let us look.
    pub(super) fn look(&mut self, pid: Pid) -> Result<Option<Seen>, ProcError> {
        match self.proc.seen(pid) {
            Err(ProcError::Io { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {
                self.hidden += 1;
                Ok(None)
            }
            answer => answer,
        }
    }

    /// Takes in processes that were seen just now.
    pub(super) fn take_in(&mut self, seen: Vec<Seen>) -> Result<bool, SourceError> {
        self.take_in_at(seen, now_boot_ns())
    }

    /// Takes in processes that were seen since `begun_ns`.
    fn take_in_at(&mut self, mut open: Vec<Seen>, begun_ns: u64) -> Result<bool, SourceError> {
        let holders: HashMap<Pid, ProcessId> =
            open.iter().map(|seen| (seen.id.pid, seen.id)).collect();
        let mut unsettled = false;
        let mut new = Vec::new();
        let mut changed = Vec::new();
        let mut taken = HashSet::new();
        while let Some(seen) = open.pop() {
            if !taken.insert(seen.id) {
                continue;
            }
            let known = self.present.get(&seen.id);
            if known.is_some_and(|known| !self.has_changed(&seen, known)) {
                continue;
            }
            let is_new = known.is_none();
            let mut seen = seen;
            let parent = match self.parent_of(&mut seen, &holders, begun_ns)? {
                Parent::Known(parent) => Some(parent),
                Parent::New(parent) => {
                    let id = parent.id;
                    if !self.present.contains_key(&id) {
                        open.push(*parent);
                    }
                    Some(id)
                }
                Parent::Nobody => None,
                Parent::Unsettled => {
                    unsettled = true;
                    continue;
                }
            };
            self.chains
                .apply(Event::Snapshot(bare(&seen, parent, begun_ns)));
            if is_new || self.is_late_orphan(seen.id, parent) {
                new.push(seen.id);
            }
            changed.push((seen, parent));
        }
        let members = self.inherit(&new);
        for (seen, parent) in changed {
            self.tell(seen, parent, begun_ns)?;
        }
        Ok(members || unsettled)
    }

    fn has_changed(&self, seen: &Seen, known: &Present) -> bool {
        let dead = seen.stat.is_dead();
        if (known.parent, known.dead) != (seen.stat.parent, dead) || known.comm != seen.stat.comm {
            return true;
        }
        let tag = self.tag(seen.id);
        let may_exec = tag.is_some() && !dead;
        may_exec && (known.tag != tag || known.exe != self.proc.exe(seen.id.pid))
    }

    /// Whose child `seen` is, which is looked at again if that changes.
    ///
    /// `seen` only has a pid. Who has that pid may have got it later than
    /// `seen` got its parent; but nobody has a parent that is younger than
    /// itself. So the one meant is whoever had the pid when `seen` started and
    /// had it when `seen` was looked at or later.
    pub(super) fn parent_of(
        &mut self,
        seen: &mut Seen,
        holders: &HashMap<Pid, ProcessId>,
        begun_ns: u64,
    ) -> Result<Parent, SourceError> {
        let begun = self.proc.clock().to_initial(StartTime::from_ns(begun_ns));
        for _ in 0..TRIES {
            let Some(pid) = seen.stat.parent else {
                return Ok(Parent::Nobody);
            };
            // This one was seen after `begun`. If `seen` is older than that,
            // everybody who had the pid later is younger than `seen`.
            if let Some(holder) = holders.get(&pid)
                && holder.start_time <= seen.id.start_time
                && seen.id.start_time < begun
            {
                return Ok(Parent::Known(*holder));
            }
            match self.look(pid)? {
                Some(parent) if parent.id.start_time <= seen.id.start_time => {
                    return Ok(Parent::New(Box::new(parent)));
                }
                _ => {}
            }
            // Whose parent goes gets another one. Who still has the same one
            // has one that cannot be seen from here.
            match self.look(seen.id.pid)? {
                Some(again) if again.id != seen.id => return Ok(Parent::Unsettled),
                Some(again) if again.stat.parent == Some(pid) => return Ok(Parent::Nobody),
                Some(again) => *seen = again,
                None => return Ok(Parent::Unsettled),
            }
        }
        Ok(Parent::Unsettled)
    }

    /// Gives new processes the tags that they inherit, creators first, and
    /// answers whether one got a tag.
    fn inherit(&mut self, new: &[ProcessId]) -> bool {
        let mut undecided: HashSet<ProcessId> = new.iter().copied().collect();
        let mut any = false;
        for id in new {
            let mut line = vec![*id];
            while let Some(last) = line.last()
                && let Some(creator) = self.chains.node(*last).and_then(|node| node.creator)
                && undecided.contains(&creator)
            {
                line.push(creator);
            }
            while let Some(id) = line.pop() {
                if undecided.remove(&id) {
                    let tag = self.inherited(id);
                    any |= tag.is_some();
                    self.chains.set_tag(id, tag);
                    if let Some(tag) = tag {
                        self.tag_descendants(id, tag, None);
                    }
                }
            }
        }
        any
    }

    /// Remembers how a process looks now, and reports it.
    fn tell(
        &mut self,
        seen: Seen,
        parent: Option<ProcessId>,
        time_ns: u64,
    ) -> Result<(), SourceError> {
        let dead = seen.stat.is_dead();
        let known = self.present.get(&seen.id);
        let was_dead = known.is_some_and(|known| known.dead);
        let mut snapshot = bare(&seen, parent, time_ns);
        snapshot.tag = self.tag(seen.id);
        if snapshot.tag.is_some() && !dead {
            let pid = seen.id.pid;
            // What may not be read stays unknown.
            let details = (
                self.proc.exe(pid),
                self.proc.cmdline(pid).unwrap_or_default(),
                self.proc.uid(pid).unwrap_or_default(),
            );
            // What was read is its own only if it still has the pid.
            if self.proc.same(seen.id)?.is_some() {
                (snapshot.exe, snapshot.argv, snapshot.uid) = details;
                if let (Some(subtree), Some(uid)) = (&mut self.subtree, snapshot.uid) {
                    subtree.note_user(uid);
                }
            }
        }
        let present = Present {
            parent: seen.stat.parent,
            comm: seen.stat.comm,
            tag: snapshot.tag,
            exe: snapshot.exe.clone(),
            dead,
        };
        let is_new = known.is_none();
        self.present.insert(seen.id, present);
        if !was_dead && (is_new || !dead) {
            self.events.push(Event::Snapshot(snapshot));
        }
        if dead && !was_dead {
            self.events.push(Event::Gone(Gone {
                id: seen.id,
                time_ns,
            }));
        }
        Ok(())
    }
}

/// What `stat` tells of a process.
fn bare(seen: &Seen, parent: Option<ProcessId>, time_ns: u64) -> Snapshot {
    Snapshot {
        id: seen.id,
        parent,
        tag: None,
        time_ns,
        comm: seen.stat.comm.clone(),
        exe: None,
        argv: None,
        uid: None,
    }
}
