//! [`Source`], answered by the probe.

#[cfg(test)]
mod kernel_tests;
mod open;
mod tagging;
#[cfg(test)]
mod verifier_tests;

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd};

use aya::Ebpf;
use aya::programs::links::FdLink;
use aya::programs::{Iter, ProgramFd};
use tracker_ebpf::{PROCESS_EXITING, Process, TAG_NONE, counter};

use super::census::{self, Rows};
use super::counters::{self, Counters};
use super::known::{Known, Recorded};
use super::load::{CENSUS, LoadOptions};
use super::log::Log;
use super::maps::Maps;
use super::pins::Pins;
use super::{adopt, load, ring};
use crate::lineage::{Event, SessionId, Snapshot, Tag};
use crate::process::{Proc, ProcessId, StartTime, now_boot_ns};
use crate::source::{Adoption, Gap, Member, Members, Source, SourceError, SourceKind};

/// Goes on this often when the kernel changes what is being changed here.
const ATTEMPTS: u32 = 100;

/// The kernel probe, running.
#[derive(Debug)]
pub struct EbpfSource {
    maps: Maps,
    ebpf: Ebpf,
    /// What keeps the programs attached, unless they are pinned.
    _links: Vec<(&'static str, FdLink)>,
    /// Set when the probe goes on without this process.
    pins: Option<Pins>,
    took_over: bool,
    log: Log,
    fork: ProgramFd,
    proc: Proc,
    options: LoadOptions,
    sessions: HashMap<SessionId, Known>,
    /// Who is shielded, to be undone.
    shielded: Vec<u32>,
    /// Whose members are killed when they fork.
    condemned: HashSet<SessionId>,
    /// What kills the children of those before they run, while it is needed.
    newborn: Option<FdLink>,
    /// Events that did not come through the ring buffer.
    pending: Vec<Event>,
    undecodable: u64,
    recorded: Recorded,
}

impl EbpfSource {
    /// What the probe counted.
    pub fn counters(&self) -> Result<Counters, SourceError> {
        Counters::read(&self.maps, &self.fork, self.undecodable)
    }

    /// How many processes are in the kernel's map, and how many fit.
    pub fn fill(&self) -> Result<(usize, u32), SourceError> {
        Ok((self.maps.processes()?.len(), self.options.capacity))
    }

    fn census(&mut self) -> Result<Rows, SourceError> {
        let program: Option<&mut Iter> = self
            .ebpf
            .program_mut(CENSUS)
            .and_then(|program| program.try_into().ok());
        let walk = program
            .ok_or_else(|| std::io::ErrorKind::NotFound.into())
            .and_then(census::start);
        census::read(walk.map_err(SourceError::Census)?)
    }

    /// What `/proc` says of a process; `None` when it is gone. `whole` reads
    /// more than its name.
    fn snapshot(
        &self,
        id: ProcessId,
        parent: Option<ProcessId>,
        tag: Option<Tag>,
        whole: bool,
    ) -> Result<Option<Event>, SourceError> {
        let (mut exe, mut argv, mut uid) = (None, None, None);
        if whole {
            exe = self.proc.exe(id.pid);
            argv = self.proc.cmdline(id.pid)?;
            uid = self.proc.uid(id.pid)?;
        }
        // Last, so that what was read before is known to be of this process.
        let Some(seen) = self.proc.same(id)? else {
            return Ok(None);
        };
        Ok(Some(Event::Snapshot(Snapshot {
            id,
            parent,
            tag,
            time_ns: now_boot_ns(),
            comm: seen.stat.comm,
            exe,
            argv,
            uid,
        })))
    }

    /// What is remembered of a session; begins now if it is new.
    fn known(&mut self, session: SessionId) -> Result<&mut Known, SourceError> {
        let skipped = self.skipped()?;
        let known = self.sessions.entry(session);
        Ok(known.or_insert_with(|| Known::new(skipped)))
    }

    /// How often the kernel skipped the probe at a fork.
    fn skipped(&self) -> Result<u64, SourceError> {
        counters::skipped(&self.maps, &self.fork)
    }

    /// How many records never came through the ring buffer.
    fn lost(&self) -> Result<u64, SourceError> {
        let full = self.maps.counter(counter::RING_FULL)?;
        Ok(full + self.undecodable + self.skipped()?)
    }

    fn gaps(&self, session: SessionId) -> Result<(Vec<Gap>, u64), SourceError> {
        let losses = self.maps.losses(session.raw())?;
        // A loss that nobody was charged with may be anybody's.
        let members = losses.members + self.maps.counter(counter::LOSS_UNATTRIBUTED)?;
        // Of a session that is not known here everything counts.
        let known = self.sessions.get(&session).cloned().unwrap_or_default();
        Ok((known.gaps(members, self.skipped()?), losses.records))
    }
}

impl Source for EbpfSource {
    fn kind(&self) -> SourceKind {
        SourceKind::Ebpf
    }

    fn drain(&mut self, sink: &mut dyn FnMut(Event)) -> Result<(), SourceError> {
        for event in self.pending.drain(..) {
            sink(event);
        }
        self.log.forward();
        let room = u64::from(self.options.ring_bytes());
        self.undecodable += ring::drain(&mut self.maps.ring, room, sink);
        let lost = self.lost()?;
        self.recorded.update(lost);
        Ok(())
    }

    fn adopt(
        &mut self,
        adoption: Adoption,
        instead_of: Option<SessionId>,
    ) -> Result<Vec<ProcessId>, SourceError> {
        let Adoption { root, tag, fresh } = adoption;
        let known = self.known(tag.session)?;
        if !fresh {
            known.note(Gap::AdoptedLate);
        }
        let root_row = self
            .census()?
            .get(&root.pid.as_u32())
            .filter(|row| StartTime::from_ns(row.start_ns) == root.start_time)
            .copied()
            .ok_or(SourceError::Gone(root))?;
        let mut tagged = Vec::new();
        // The root first: whoever it creates from now on is a member by itself.
        let of_root = |old: Option<Tag>| {
            let exempt = tag.exempt || old.is_some_and(|old| old.exempt);
            Some(Tag { exempt, ..tag })
        };
        if self.tag(&root_row, of_root)? {
            tagged.push(root_row);
        }
        if !fresh {
            let choose = |old| adopt::inherit(old, tag, instead_of);
            self.tag_descendants(&root_row, choose, &mut tagged)?;
        }
        let mut answer = Vec::with_capacity(tagged.len());
        for row in &tagged {
            let Some(id) = ProcessId::from_kernel(row.pid, row.start_ns) else {
                continue;
            };
            let parent = ProcessId::from_kernel(row.parent_pid, row.parent_start_ns);
            let snapshot = self.snapshot(id, parent, Some(tag), !self.options.track_all)?;
            self.pending.extend(snapshot);
            answer.push(id);
        }
        Ok(answer)
    }

    fn release(&mut self, session: SessionId) -> Result<(), SourceError> {
        for _ in 0..ATTEMPTS {
            let mut left = 0;
            for (pid, entry) in self.maps.processes()? {
                if Tag::from_kernel(entry.tag).is_none_or(|tag| tag.session != session) {
                    continue;
                }
                left += 1;
                if self.options.track_all {
                    let tag = TAG_NONE;
                    self.maps.set_process(pid, &Process { tag, ..entry })?;
                } else {
                    self.maps.remove_process(pid)?;
                }
            }
            // Whoever was created meanwhile by one that still had the tag.
            if left == 0 {
                break;
            }
        }
        self.maps.absolve(session.raw())?;
        self.maps.forget_losses(session.raw())?;
        self.sessions.remove(&session);
        Ok(())
    }

    fn members(&mut self, sessions: &[SessionId]) -> Result<Members, SourceError> {
        let wanted: HashSet<SessionId> = sessions.iter().copied().collect();
        let mut members = Members::default();
        for (pid, entry) in self.maps.processes()? {
            let Some(tag) = Tag::from_kernel(entry.tag).filter(|tag| wanted.contains(&tag.session))
            else {
                continue;
            };
            let Some(id) = ProcessId::from_kernel(pid, entry.start_ns) else {
                continue;
            };
            members.found.push(Member {
                id,
                start_ns: Some(entry.start_ns),
                tag,
                creator: ProcessId::from_kernel(entry.creator_pid, entry.creator_start_ns),
                exiting: entry.flags & PROCESS_EXITING != 0,
            });
        }
        for session in wanted {
            let (gaps, records) = self.gaps(session)?;
            let gaps = gaps.into_iter().map(|gap| (session, gap));
            members.gaps.extend(gaps);
            if records > 0 {
                members.notes.push(format!(
                    "{records} records of history did not fit in the ring buffer; \
                     membership comes from the kernel's map and is not affected"
                ));
            }
        }
        Ok(members)
    }

    fn tag_of(&mut self, id: ProcessId) -> Result<Option<Tag>, SourceError> {
        let entry = self
            .maps
            .process(id.pid.as_u32())?
            .filter(|entry| StartTime::from_ns(entry.start_ns) == id.start_time);
        Ok(entry.and_then(|entry| Tag::from_kernel(entry.tag)))
    }

    fn condemn(&mut self, sessions: &[SessionId], until_ns: u64) -> Result<(), SourceError> {
        let mut again = false;
        for session in sessions {
            self.maps.condemn(session.raw(), until_ns)?;
            again |= !self.condemned.insert(*session);
        }
        if again && self.newborn.is_none() {
            self.newborn = load::attach_newborn(&mut self.ebpf).map_err(SourceError::Attach)?;
        }
        Ok(())
    }

    fn absolve(&mut self, sessions: &[SessionId]) -> Result<(), SourceError> {
        for session in sessions {
            self.maps.absolve(session.raw())?;
            self.condemned.remove(session);
        }
        if self.condemned.is_empty() {
            self.newborn = None;
        }
        for pid in std::mem::take(&mut self.shielded) {
            self.maps.unshield(pid)?;
        }
        Ok(())
    }

    fn shield(&mut self, ids: &[ProcessId]) -> Result<(), SourceError> {
        for id in ids {
            let entry = self.maps.process(id.pid.as_u32())?;
            if let Some(entry) =
                entry.filter(|entry| StartTime::from_ns(entry.start_ns) == id.start_time)
            {
                self.maps.shield(id.pid.as_u32(), entry.start_ns)?;
                self.shielded.push(id.pid.as_u32());
            }
        }
        Ok(())
    }

    fn wake_eagerly(&mut self, eagerly: bool) -> Result<(), SourceError> {
        self.maps.set_eager(eagerly)
    }

    fn news(&self) -> Option<BorrowedFd<'_>> {
        Some(self.maps.ring.as_fd())
    }

    fn counters(&self) -> Result<Option<Counters>, SourceError> {
        EbpfSource::counters(self).map(Some)
    }

    fn recorded_since(&self) -> Option<u64> {
        self.options.track_all.then_some(self.recorded.since_ns)
    }

    fn took_over(&self) -> bool {
        self.took_over
    }

    fn tagged(&mut self) -> Result<Vec<SessionId>, SourceError> {
        let tags = self.maps.processes()?.into_iter();
        let sessions = tags.filter_map(|(_, entry)| Tag::from_kernel(entry.tag));
        let sessions: HashSet<SessionId> = sessions.map(|tag| tag.session).collect();
        Ok(sessions.into_iter().collect())
    }

    fn vouch(&mut self, session: SessionId) {
        self.sessions.entry(session).or_default().vouch();
    }

    fn note(&mut self, session: SessionId, gap: Gap) {
        self.sessions.entry(session).or_default().note(gap);
    }
}
