//! The links between creators and what they created.

use std::ops::{Index, IndexMut};

use slab::Slab;

use super::node::Node;
use crate::process::ProcessId;

/// Names a slot while it is there.
pub(super) type Key = usize;

/// A node, its links, and what the map needs to know of it to order reports.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) node: Node,
    /// The slot of [`Node::creator`].
    pub(super) parent: Option<Key>,
    /// Its children: those that have to stay first, then those that may go.
    pub(super) first: Option<Key>,
    last: Option<Key>,
    before: Option<Key>,
    after: Option<Key>,
    /// How many children have to stay.
    pub(super) pins: usize,
    /// Its place among those that may go.
    pub(super) place: Option<u64>,
    /// Since when it may go.
    pub(super) idle_since_ns: u64,
    /// Its creation was heard of, so that its creator is certain.
    pub(super) forked: bool,
    /// When it was last known to be alive.
    pub(super) alive_ns: u64,
    pub(super) stamps: Stamps,
}

/// How recent the parts of a node are.
#[derive(Debug)]
pub(super) struct Stamps {
    /// The earliest snapshot that showed a parent.
    pub(super) parent: u64,
    pub(super) tag: u64,
    pub(super) comm: u64,
    pub(super) exe: u64,
    pub(super) argv: u64,
    pub(super) uid: u64,
    pub(super) cgroup: u64,
}

impl Slot {
    pub(super) fn new(id: ProcessId) -> Slot {
        Slot {
            node: Node::new(id),
            parent: None,
            first: None,
            last: None,
            before: None,
            after: None,
            pins: 0,
            place: None,
            idle_since_ns: 0,
            forked: false,
            alive_ns: 0,
            stamps: Stamps::default(),
        }
    }

    /// Whether it has to stay: it lives, or somebody who lives descends from it.
    pub(super) fn is_pinned(&self) -> bool {
        self.node.is_alive() || self.pins > 0
    }

    /// Whether it is dead and only one branch of living ones hangs on it, so
    /// that it is a mere link of a chain.
    pub(super) fn is_link(&self) -> bool {
        !self.node.is_alive() && self.pins == 1
    }
}

impl Default for Stamps {
    fn default() -> Stamps {
        Stamps {
            parent: u64::MAX,
            tag: 0,
            comm: 0,
            exe: 0,
            argv: 0,
            uid: 0,
            cgroup: 0,
        }
    }
}

/// All slots. Its functions keep the lists whole; who has to stay is the
/// caller's business.
#[derive(Debug, Default)]
pub(super) struct Forest(Slab<Slot>);

impl Forest {
    pub(super) fn insert(&mut self, slot: Slot) -> Key {
        self.0.insert(slot)
    }

    /// Takes a slot out that has no links left.
    pub(super) fn remove(&mut self, key: Key) -> Option<Slot> {
        self.0.try_remove(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, &Slot)> {
        self.0.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The children of `key` in the order of its list.
    pub(super) fn children(&self, key: Key) -> impl Iterator<Item = Key> {
        std::iter::successors(self[key].first, |child| self[*child].after)
    }

    /// Makes `child`, which has no parent, a child of `parent`: the first when
    /// it has to stay, else the last.
    pub(super) fn link(&mut self, child: Key, parent: Key) {
        let id = self[parent].node.id;
        let (before, after) = if self[child].is_pinned() {
            (None, self[parent].first)
        } else {
            (self[parent].last, None)
        };
        let slot = &mut self[child];
        slot.node.creator = Some(id);
        (slot.parent, slot.before, slot.after) = (Some(parent), before, after);
        match before {
            Some(before) => self[before].after = Some(child),
            None => self[parent].first = Some(child),
        }
        match after {
            Some(after) => self[after].before = Some(child),
            None => self[parent].last = Some(child),
        }
    }

    /// Takes `child` from its parent, which is answered.
    pub(super) fn unlink(&mut self, child: Key) -> Option<Key> {
        let slot = &mut self[child];
        let parent = slot.parent.take()?;
        slot.node.creator = None;
        let (before, after) = (slot.before.take(), slot.after.take());
        match before {
            Some(before) => self[before].after = after,
            None => self[parent].first = after,
        }
        match after {
            Some(after) => self[after].before = before,
            None => self[parent].last = before,
        }
        Some(parent)
    }

    /// Whether making `parent` the parent of `child` would close a circle.
    ///
    /// Nobody is created by someone younger, and no link goes that way. So only
    /// ancestors that started in the same tick as `child` can be `child`.
    pub(super) fn would_close_a_circle(&self, child: Key, parent: Key) -> bool {
        let started = self[child].node.id.start_time;
        let mut at = Some(parent);
        while let Some(key) = at {
            let slot = &self[key];
            if key == child || slot.node.id.start_time > started {
                return true;
            }
            if slot.node.id.start_time < started {
                return false;
            }
            at = slot.parent;
        }
        false
    }
}

/// A key names a slot for as long as anything holds the key: slots are only
/// removed once nothing links to them, between two events.
impl Index<Key> for Forest {
    type Output = Slot;

    #[expect(
        clippy::indexing_slicing,
        reason = "no input chooses a key, see the implementation's comment"
    )]
    fn index(&self, key: Key) -> &Slot {
        &self.0[key]
    }
}

impl IndexMut<Key> for Forest {
    #[expect(
        clippy::indexing_slicing,
        reason = "no input chooses a key, see `Index`"
    )]
    fn index_mut(&mut self, key: Key) -> &mut Slot {
        &mut self.0[key]
    }
}
