//! What being a child subreaper proves.

use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions};

use super::{Present, ProcfsSource};
use crate::lineage::{SessionId, Tag};
use crate::process::{Pid, ProcessId, StartTime};

/// `__WALL` of `wait(2)`: children that do not announce their end by `SIGCHLD` too.
const WALL: WaitIdOptions = WaitIdOptions::from_bits_retain(0x4000_0000);

/// Everything below this process, which is a child subreaper.
#[derive(Debug)]
pub(super) struct Subtree {
    own: ProcessId,
    covered: Option<Covered>,
    /// The session that can be taken over, by its root.
    heritage: Option<Heritage>,
    /// Whose processes could have entered another pid namespace: this user's,
    /// or with `None` anybody's.
    pub(super) user: Option<u32>,
    is_childless: fn() -> bool,
}

/// A session that another tracker has tracked from its root's first instant on.
#[derive(Debug)]
pub(super) struct Heritage {
    pub(super) root: ProcessId,
    /// The children that were there before the root.
    pub(super) outsiders: Vec<ProcessId>,
}

/// The session that owns the subtree.
#[derive(Debug)]
struct Covered {
    session: SessionId,
    root: ProcessId,
    /// Other children that were there when it began. An orphan of unknown
    /// origin may descend from one of them.
    outsiders: Vec<ProcessId>,
    /// Since when an orphan of unknown origin may descend from a kept process.
    exempt_since: Option<StartTime>,
    /// Orphans that were left alone for one of these reasons.
    doubtful: Vec<ProcessId>,
}

impl Subtree {
    pub(super) fn of(own: ProcessId) -> Subtree {
        let user = rustix::process::geteuid();
        Subtree {
            own,
            covered: None,
            heritage: None,
            user: (!user.is_root()).then_some(user.as_raw()),
            is_childless,
        }
    }

    /// One that takes the kernel's answer from `is_childless`.
    #[cfg(test)]
    pub(super) fn fake(own: ProcessId, user: Option<u32>, is_childless: fn() -> bool) -> Subtree {
        Subtree {
            own,
            covered: None,
            heritage: None,
            user,
            is_childless,
        }
    }

    /// One with a session that can be taken over.
    pub(super) fn with_heritage(self, heritage: Heritage) -> Subtree {
        Subtree {
            heritage: Some(heritage),
            ..self
        }
    }

    /// Makes `session` own what was there since `root` began, if it is the one
    /// to take over. Its root may be dead.
    pub(super) fn inherit(&mut self, root: ProcessId, session: SessionId) -> bool {
        let Some(heritage) = self.heritage.take_if(|heritage| heritage.root == root) else {
            return false;
        };
        self.covered = Some(Covered {
            session,
            root,
            outsiders: heritage.outsiders,
            exempt_since: None,
            doubtful: Vec::new(),
        });
        true
    }

    /// Whether a session can be covered whose root has this parent.
    pub(super) fn may_cover(&self, parent: Option<Pid>) -> bool {
        self.covered.is_none() && parent == Some(self.own.pid)
    }

    /// The root of `session`, if it is the one that is covered.
    pub(super) fn covered(&self, session: SessionId) -> Option<ProcessId> {
        let covered = self.covered.as_ref()?;
        (covered.session == session).then_some(covered.root)
    }

    pub(super) fn release(&mut self, session: SessionId) {
        self.covered.take_if(|covered| covered.session == session);
    }

    /// `id` is kept from now on, and so are its descendants.
    pub(super) fn note_exempt(&mut self, id: ProcessId) {
        if let Some(covered) = &mut self.covered {
            let since = covered.exempt_since.get_or_insert(id.start_time);
            *since = id.start_time.min(*since);
        }
    }

    /// Forgets the orphans that are gone.
    pub(super) fn forget_doubts(&mut self, is_gone: impl Fn(ProcessId) -> bool) {
        if let Some(covered) = &mut self.covered {
            covered.doubtful.retain(|id| !is_gone(*id));
        }
    }

    /// A member was seen that runs as `uid`. One that became somebody else may
    /// have become root.
    pub(super) fn note_user(&mut self, uid: u32) {
        if self.covered.is_some() && self.user.is_some_and(|user| user != uid) {
            self.user = None;
        }
    }

    /// Whether this process has no children, dead or alive: the kernel's word.
    pub(super) fn is_childless(&self) -> bool {
        (self.is_childless)()
    }

    /// The tag of a child of this process that was never seen below anybody else.
    fn tag_of_orphan(&mut self, id: ProcessId) -> Option<Tag> {
        let covered = self.covered.as_mut()?;
        if covered.outsiders.contains(&id) {
            return None;
        }
        let is_shared = !covered.outsiders.is_empty();
        let maybe_kept = covered
            .exempt_since
            .is_some_and(|since| since <= id.start_time);
        if (is_shared || maybe_kept) && !covered.doubtful.contains(&id) {
            covered.doubtful.push(id);
        }
        (!is_shared).then_some(Tag {
            session: covered.session,
            exempt: maybe_kept,
        })
    }
}

/// Whether the calling process has no children, dead or alive.
pub(super) fn is_childless() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT | WALL;
    let answer = rustix::io::retry_on_intr(|| rustix::process::waitid(WaitId::All, options));
    matches!(answer, Err(Errno::CHILD))
}

impl ProcfsSource {
    /// Makes `session` own the subtree.
    pub(super) fn cover(&mut self, root: ProcessId, session: SessionId) {
        let Some(subtree) = &mut self.subtree else {
            return;
        };
        let own = Some(subtree.own.pid);
        let is_outsider = |id: &ProcessId, present: &Present| {
            present.parent == own && *id != root && !present.dead
        };
        let present = self.present.iter();
        let outsiders = present.filter(|(id, present)| is_outsider(id, present));
        let outsiders = outsiders.map(|(id, _)| *id).collect();
        subtree.covered = Some(Covered {
            session,
            root,
            outsiders,
            exempt_since: None,
            doubtful: Vec::new(),
        });
    }

    /// Whether a process that is known already came to be a child of this one,
    /// and nobody knows from where.
    pub(super) fn is_late_orphan(&self, id: ProcessId, parent: Option<ProcessId>) -> bool {
        let is_own = |subtree: &Subtree| parent == Some(subtree.own);
        self.subtree.as_ref().is_some_and(is_own)
            && self
                .chains
                .node(id)
                .is_some_and(|node| node.tag.is_none() && node.creator == parent)
    }

    /// The tag that a process inherits from the one that it was first seen below.
    pub(super) fn inherited(&mut self, id: ProcessId) -> Option<Tag> {
        let parent = self.chains.node(id)?.creator?;
        match &mut self.subtree {
            Some(subtree) if subtree.own == parent => subtree.tag_of_orphan(id),
            _ => self.tag(parent),
        }
    }

    /// What is not known, in words.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.hidden > 0 {
            notes.push(format!(
                "{} processes may not be looked at (hidepid)",
                self.hidden
            ));
        }
        if let Some(covered) = self
            .subtree
            .as_ref()
            .and_then(|subtree| subtree.covered.as_ref())
        {
            let alive = covered
                .doubtful
                .iter()
                .filter(|id| self.present.get(id).is_some_and(|present| !present.dead));
            notes.extend(alive.map(|id| {
                format!(
                    "process {id} lost its parent before it was first seen; \
                     it may descend from one that is to be spared, so it is spared"
                )
            }));
        }
        notes
    }
}
