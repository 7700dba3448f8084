//! One source, the map that it feeds, and the sessions that own what is in it.

mod restore;
mod resync;

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::sync::Weak;

use self::resync::Resync;
use super::kept::Kept;
use super::open::{OpenSession, Root, SessionError};
use super::record::{Session, SessionState};
use super::registry::Registry;
use super::subscription::{Listener, Subscription, SubscriptionInner};
use crate::lineage::{Event, Exit, Gone, Limits, Lineage, SessionId, Snapshot, Tag};
use crate::process::{Proc, ProcessId, now_boot_ns};
use crate::source::ebpf::Counters;
use crate::source::{Adoption, Members, Source, SourceError, SourceKind};

/// The state of a tracker. Blocking; share it behind a mutex.
#[derive(Debug)]
pub struct Tracking {
    source: Box<dyn Source>,
    proc: Proc,
    lineage: Lineage,
    sessions: Registry,
    kept: Kept,
    adopted: HashSet<ProcessId>,
    subscriptions: Vec<Weak<SubscriptionInner>>,
    listener: Option<Box<dyn Listener>>,
    resync: Resync,
}

impl Tracking {
    /// Tracking that begins now.
    pub fn new(source: Box<dyn Source>, proc: Proc, limits: Limits) -> Tracking {
        Tracking {
            resync: Resync::new(source.recorded_since()),
            source,
            proc,
            lineage: Lineage::new(limits),
            sessions: Registry::default(),
            kept: Kept::default(),
            adopted: HashSet::new(),
            subscriptions: Vec::new(),
            listener: None,
        }
    }

    /// Lets `listener` hear what happens from now on.
    pub fn listen(&mut self, listener: Box<dyn Listener>) {
        self.listener = Some(listener);
    }

    /// Which source it has.
    pub fn source_kind(&self) -> SourceKind {
        self.source.kind()
    }

    /// What is known of processes, as of the last [`Tracking::pump`].
    pub fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// The live sessions.
    pub fn sessions(&self) -> &Registry {
        &self.sessions
    }

    /// Readable when there is something to pump; `None` for a source that has to be asked.
    pub fn news(&self) -> Option<BorrowedFd<'_>> {
        self.source.news()
    }

    /// Takes in what happened until now.
    pub fn pump(&mut self) -> Result<(), SourceError> {
        let Tracking {
            source,
            lineage,
            sessions,
            kept,
            adopted,
            subscriptions,
            listener,
            ..
        } = self;
        let mut newly_kept = Vec::new();
        let mut touched = HashSet::new();
        source.drain(&mut |event| {
            newly_kept.extend(kept.hear(&event, sessions));
            if let Some(listener) = listener {
                listener.hear(&event);
            }
            match &event {
                Event::Fork(fork) => touched.extend(fork.tag.map(|tag| tag.session)),
                Event::Exit(Exit { id, .. }) | Event::Gone(Gone { id, .. }) => {
                    adopted.remove(id);
                }
                Event::Exec(_) | Event::Snapshot(_) => {}
            }
            lineage.apply(event);
        })?;
        subscriptions.retain(|subscription| match subscription.upgrade() {
            Some(subscription) => {
                subscription.notify(&touched);
                true
            }
            None => false,
        });
        for (id, tag) in newly_kept {
            self.exempt(id, tag)?;
        }
        self.resync_after_a_loss()
    }

    /// Opens a session. It lies inside the one that owns its root, if any.
    pub fn open(&mut self, request: OpenSession) -> Result<SessionId, SessionError> {
        let id = SessionId::random()?;
        let root = request.root.id();
        self.pump()?;
        let around = self.source.tag_of(root)?.map(|tag| tag.session);
        self.sessions.insert(Session {
            id,
            name: request.name,
            roots: vec![root],
            parent: around.filter(|around| self.sessions.get(*around).is_some()),
            owner_uid: request.owner_uid,
            keep: request.keep,
            workdir: request.workdir,
            late: false,
            opened_ns: now_boot_ns(),
            state: SessionState::Open,
        });
        match self.adopt(request.root, id, around) {
            Ok(late) => {
                if !late {
                    self.source.vouch(id);
                }
                if let Some(session) = self.sessions.get_mut(id) {
                    session.late = late;
                }
                Ok(id)
            }
            Err(error) => {
                // Whoever was tagged already goes back to whose it was.
                if let Err(error) = self.close(id) {
                    tracing::error!("cannot undo the opening of session {id}: {error}");
                    self.sessions.remove(id);
                }
                Err(match error {
                    SourceError::Gone(root) => SessionError::Gone(root),
                    error => SessionError::Source(error),
                })
            }
        }
    }

    /// Tags a root and its descendants; answers whether some may be unknown.
    fn adopt(
        &mut self,
        root: Root,
        id: SessionId,
        around: Option<SessionId>,
    ) -> Result<bool, SourceError> {
        let fresh = matches!(root, Root::Fresh(_));
        let adoption = Adoption {
            root: root.id(),
            tag: Tag::member(id),
            fresh,
        };
        let tagged = self.source.adopt(adoption, around)?;
        self.meet(id, tagged, !fresh)?;
        if fresh {
            return Ok(false);
        }
        self.adopt_strays(root.id(), id, around)?;
        // Its record has nanoseconds; ticks are too coarse to tell who was there
        // first of two that started within one.
        let ticks = root.id().start_time.ticks();
        let born_ns = self.lineage.node(root.id()).map_or_else(
            || ticks.saturating_mul(tracker_ebpf::NS_PER_TICK),
            |node| node.fork_ns,
        );
        Ok(self
            .source
            .recorded_since()
            .is_none_or(|since| since >= born_ns))
    }

    /// Descendants that had left the root's tree of parents are known when
    /// they were recorded.
    fn adopt_strays(
        &mut self,
        root: ProcessId,
        id: SessionId,
        around: Option<SessionId>,
    ) -> Result<(), SourceError> {
        loop {
            self.pump()?;
            let mut tagged = Vec::new();
            for stray in self.lineage.descendants(root) {
                let tag = self.source.tag_of(stray)?.map(|tag| tag.session);
                if tag == Some(id) || (tag.is_some() && tag != around) {
                    continue;
                }
                let adoption = Adoption {
                    root: stray,
                    tag: Tag::member(id),
                    fresh: false,
                };
                match self.source.adopt(adoption, around) {
                    Ok(more) => tagged.extend(more),
                    Err(SourceError::Gone(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            if tagged.is_empty() {
                return Ok(());
            }
            self.meet(id, tagged, true)?;
        }
    }

    fn meet(
        &mut self,
        id: SessionId,
        tagged: Vec<ProcessId>,
        adopted: bool,
    ) -> Result<(), SourceError> {
        for process in tagged {
            self.look_at(process, Some(Tag::member(id)))?;
            if adopted {
                self.adopted.insert(process);
            }
        }
        Ok(())
    }

    /// Says where a session is in its life.
    pub fn set_state(&mut self, id: SessionId, state: SessionState) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.state = state;
        }
    }

    /// Forgets a session. Whom its reap spared belongs to the session around
    /// it then, or to nobody.
    pub fn close(&mut self, id: SessionId) -> Result<Session, SessionError> {
        let session = self.sessions.get(id).ok_or(SessionError::Unknown(id))?;
        if let Some(around) = session.parent {
            for member in self.source.members(&[id])?.found {
                let tag = Tag {
                    session: around,
                    ..member.tag
                };
                let adoption = Adoption {
                    root: member.id,
                    tag,
                    fresh: true,
                };
                match self.source.adopt(adoption, Some(id)) {
                    Ok(_) => self.lineage.set_tag(member.id, Some(tag)),
                    Err(SourceError::Gone(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        self.source.release(id)?;
        self.sessions.remove(id).ok_or(SessionError::Unknown(id))
    }

    /// What the kernel probe counted.
    pub fn counters(&self) -> Result<Option<Counters>, SourceError> {
        self.source.counters()
    }

    /// Who belongs to a session, or to one inside it, now. Kept processes have
    /// the exempt tag.
    pub fn members(&mut self, id: SessionId) -> Result<Members, SessionError> {
        if self.sessions.get(id).is_none() {
            return Err(SessionError::Unknown(id));
        }
        self.pump()?;
        let family = self.sessions.family(id);
        let mut members = self.source.members(&family)?;
        for member in &mut members.found {
            let known = self.lineage.node(member.id).is_some();
            if !known && !member.exiting {
                // Its records were lost. What they would have said is asked of /proc.
                self.look_at(member.id, Some(member.tag))?;
            }
            if self.kept.contains(member.id) && !member.tag.exempt {
                self.exempt(
                    member.id,
                    Tag {
                        exempt: true,
                        ..member.tag
                    },
                )?;
                member.tag.exempt = true;
            }
        }
        Ok(members)
    }

    /// Whether `id` belongs to one of `family` at this instant; cheap.
    pub fn tag_of(&mut self, id: ProcessId) -> Result<Option<Tag>, SourceError> {
        self.source.tag_of(id)
    }

    /// Whether a member was running when its session was opened.
    pub fn was_adopted(&self, id: ProcessId) -> bool {
        self.adopted.contains(&id)
    }

    /// Whether a process is spared in every reap, also when no session owns it.
    pub fn is_kept(&self, id: ProcessId) -> bool {
        self.kept.contains(id)
    }

    /// Spares a process and its descendants in every reap. It must be alive.
    pub fn keep(&mut self, id: ProcessId) -> Result<(), SessionError> {
        self.pump()?;
        let Some(tag) = self.source.tag_of(id)? else {
            self.look_at(id, None)?;
            self.kept.insert(id);
            for descendant in self.lineage.descendants(id) {
                self.kept.insert(descendant);
            }
            return Ok(());
        };
        self.exempt(
            id,
            Tag {
                exempt: true,
                ..tag
            },
        )?;
        Ok(())
    }

    /// See [`Source::condemn`].
    pub fn condemn(&mut self, family: &[SessionId], until_ns: u64) -> Result<(), SourceError> {
        self.source.condemn(family, until_ns)
    }

    /// See [`Source::shield`].
    pub fn shield(&mut self, ids: &[ProcessId]) -> Result<(), SourceError> {
        self.source.shield(ids)
    }

    /// See [`Source::absolve`].
    pub fn absolve(&mut self, family: &[SessionId]) -> Result<(), SourceError> {
        self.source.absolve(family)
    }

    /// A descriptor that tells of new members of `family`, until it is dropped.
    /// While there is one, the probe wakes user space at every fork of a member.
    pub fn subscribe(&mut self, family: &[SessionId]) -> Result<Subscription, SessionError> {
        let (subscription, told) = Subscription::new(family)?;
        self.subscriptions.push(told);
        self.source.wake_eagerly(true)?;
        Ok(subscription)
    }

    /// Ends a subscription; the last one ends the eager wakeups.
    pub fn unsubscribe(&mut self, subscription: Subscription) -> Result<(), SourceError> {
        drop(subscription);
        self.subscriptions.retain(|other| other.strong_count() > 0);
        if self.subscriptions.is_empty() {
            self.source.wake_eagerly(false)?;
        }
        Ok(())
    }

    /// Gives `id` and its descendants the exempt tag. Whoever is gone meanwhile needs none.
    fn exempt(&mut self, id: ProcessId, tag: Tag) -> Result<(), SourceError> {
        let mut all = vec![id];
        all.extend(self.lineage.descendants(id));
        for id in all {
            self.kept.insert(id);
            let adoption = Adoption {
                root: id,
                tag,
                fresh: true,
            };
            match self.source.adopt(adoption, Some(tag.session)) {
                Ok(_) | Err(SourceError::Gone(_)) => self.lineage.set_tag(id, Some(tag)),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads of a process from `/proc` what its records would have told.
    fn look_at(&mut self, id: ProcessId, tag: Option<Tag>) -> Result<(), SourceError> {
        let Some(seen) = self.proc.same(id)? else {
            return Ok(());
        };
        let parent = match seen.stat.parent {
            Some(parent) => self.proc.seen(parent)?.map(|parent| parent.id),
            None => None,
        };
        let event = Event::Snapshot(Snapshot {
            id,
            parent,
            tag,
            time_ns: now_boot_ns(),
            comm: seen.stat.comm,
            exe: self.proc.exe(id.pid),
            argv: self.proc.cmdline(id.pid)?,
            uid: self.proc.uid(id.pid)?,
        });
        let kept = self.kept.hear(&event, &self.sessions);
        self.lineage.apply(event);
        match kept {
            Some((id, tag)) => self.exempt(id, tag),
            None => Ok(()),
        }
    }
}
