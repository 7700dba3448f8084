//! The map, and what can be asked of it.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::forest::{Forest, Key};
use super::node::Node;
use super::retain::Limits;
use super::tag::Tag;
use crate::process::{Pid, ProcessId, StartTime};

/// Every process that is known to be alive, with its ancestors, and for some
/// time the dead.
///
/// Events may come more than once, and those of different processes in any
/// order: the map ends up the same. What it cannot know it does not make up:
/// a creator that was only seen as a parent is marked ([`Node::parent_only`]),
/// and so is an end that was not heard of ([`super::ExitSeen::status`]). An event
/// that is repeated after its process was forgotten brings the process back
/// until its exit is repeated as well, or until [`Lineage::resync`].
#[derive(Debug, Default)]
pub struct Lineage {
    pub(super) limits: Limits,
    /// Ordered, so that the holders of one pid are neighbours, oldest first.
    pub(super) ids: BTreeMap<ProcessId, Key>,
    pub(super) forest: Forest,
    /// Who may be forgotten, the next one first.
    pub(super) history: BTreeMap<u64, Key>,
    pub(super) next_place: u64,
    /// Where dead ancestors may have become too many.
    pub(super) untidy: Vec<ProcessId>,
    /// The latest time that any event had.
    pub(super) now_ns: u64,
    pub(super) live: usize,
    pub(super) evicted: u64,
    pub(super) spliced: u64,
    pub(super) unheard_exits: u64,
}

/// Numbers about the map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Processes that are not known to be dead.
    pub live: usize,
    /// Dead ones that are remembered, as ancestors or as history.
    pub dead: usize,
    /// Dead ones that were forgotten, being too many or too old.
    pub evicted: u64,
    /// Dead ancestors that were taken out of a chain that was too long.
    pub spliced: u64,
    /// Deaths that were noticed otherwise than by an exit event.
    pub unheard_exits: u64,
}

impl Lineage {
    /// An empty map.
    pub fn new(limits: Limits) -> Lineage {
        Lineage {
            limits,
            ..Lineage::default()
        }
    }

    /// A process, if it is known.
    pub fn node(&self, id: ProcessId) -> Option<&Node> {
        Some(&self.forest[self.key(id)?].node)
    }

    /// Who has this pid now.
    pub fn holder(&self, pid: Pid) -> Option<ProcessId> {
        let (id, key) = self.of_pid(pid).next_back()?;
        self.forest[key].node.is_alive().then_some(id)
    }

    /// Everybody known who has or had this pid, the oldest first.
    pub fn by_pid(&self, pid: Pid) -> Vec<ProcessId> {
        self.of_pid(pid).map(|(id, _)| id).collect()
    }

    /// Whom a process created, dead ones too, in the order of their start.
    pub fn children(&self, id: ProcessId) -> Vec<ProcessId> {
        let Some(key) = self.key(id) else {
            return Vec::new();
        };
        let children = self.forest.children(key);
        let mut ids: Vec<ProcessId> = children.map(|child| self.forest[child].node.id).collect();
        ids.sort_unstable_by_key(|id| (id.start_time, id.pid));
        ids
    }

    /// The living descendants of a process, also through dead ones. An ancestor
    /// comes before its descendants.
    pub fn descendants(&self, id: ProcessId) -> Vec<ProcessId> {
        let mut found = Vec::new();
        let mut open: Vec<Key> = self.key(id).into_iter().collect();
        while let Some(key) = open.pop() {
            let slot = &self.forest[key];
            if slot.node.is_alive() && slot.node.id != id {
                found.push(slot.node.id);
            }
            // Those that nobody alive descends from are at the end of the list.
            let children = self.forest.children(key);
            open.extend(children.take(slot.pins));
        }
        // Nobody is older than its creator, and `sort` is stable for those that
        // started in the same tick.
        found.sort_by_key(|id| id.start_time);
        found
    }

    /// Everybody who is not known to be dead, by pid.
    pub fn live(&self) -> impl Iterator<Item = &Node> {
        self.all().filter(|node| node.is_alive())
    }

    /// Everybody who is known, by pid and start time.
    pub fn all(&self) -> impl Iterator<Item = &Node> {
        self.ids.values().map(|key| &self.forest[*key].node)
    }

    /// Says which session owns a process from now on, if it is known. Every
    /// event from before must have been applied: one that comes later and has
    /// a tag overrides this.
    pub fn set_tag(&mut self, id: ProcessId, tag: Option<Tag>) {
        if let Some(key) = self.key(id) {
            let slot = &mut self.forest[key];
            slot.node.tag = tag;
            slot.stamps.tag = self.now_ns;
        }
    }

    /// Numbers about the map.
    pub fn stats(&self) -> Stats {
        Stats {
            live: self.live,
            dead: self.forest.len() - self.live,
            evicted: self.evicted,
            spliced: self.spliced,
            unheard_exits: self.unheard_exits,
        }
    }

    pub(super) fn key(&self, id: ProcessId) -> Option<Key> {
        self.ids.get(&id).copied()
    }

    fn of_pid(&self, pid: Pid) -> impl DoubleEndedIterator<Item = (ProcessId, Key)> {
        let all = self.ids.range(oldest(pid)..=newest(pid));
        all.map(|(id, key)| (*id, *key))
    }

    /// The holders of the pid of `id` right before it and right after it.
    pub(super) fn neighbours(&self, id: ProcessId) -> (Option<Key>, Option<Key>) {
        let before = self.ids.range(oldest(id.pid)..id).next_back();
        let after = (Bound::Excluded(id), Bound::Included(newest(id.pid)));
        let after = self.ids.range(after).next();
        (before.map(|(_, key)| *key), after.map(|(_, key)| *key))
    }
}

fn oldest(pid: Pid) -> ProcessId {
    ProcessId::new(pid, StartTime::from_ticks(0))
}

fn newest(pid: Pid) -> ProcessId {
    ProcessId::new(pid, StartTime::from_ticks(u64::MAX))
}
