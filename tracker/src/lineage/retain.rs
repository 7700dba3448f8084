//! Who is remembered, and for how long.
//!
//! The living and their ancestors stay (they are *pinned*). Of a chain of dead
//! ancestors only the two ends stay when it grows too long. All other dead are
//! history, and the longest idle goes first.

use super::forest::Key;
use super::map::Lineage;
use super::node::ExitSeen;

/// How much the map remembers of the dead. The living are bounded by the
/// number of pids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many dead processes without a living descendant are remembered.
    pub dead: usize,
    /// For how long they are, since they or their last living descendant died.
    /// Nanoseconds.
    pub dead_age_ns: u64,
    /// How many dead ancestors in a row are remembered, where no other living
    /// branch hangs on them. At least 2.
    pub chain: usize,
}

/// A few megabytes for a build host that is never idle.
impl Default for Limits {
    fn default() -> Limits {
        Limits {
            dead: 8192,
            dead_age_ns: 3600 * 1_000_000_000,
            chain: 64,
        }
    }
}

impl Lineage {
    /// Links `child`, which has no creator yet, to its creator.
    pub(super) fn attach(&mut self, child: Key, creator: Key) {
        self.forest.link(child, creator);
        if self.forest[child].is_pinned() {
            self.add_pin(creator);
            self.look_for_long_chains(creator);
        }
    }

    /// Takes `child` from its creator, if it has one.
    pub(super) fn detach(&mut self, child: Key) {
        let pinned = self.forest[child].is_pinned();
        if let Some(creator) = self.forest.unlink(child)
            && pinned
        {
            self.forest[creator].pins -= 1;
            self.settle(creator);
        }
    }

    /// Marks a living process as dead, which nobody heard of.
    pub(super) fn bury_unheard(&mut self, key: Key, time_ns: u64) {
        self.unheard_exits += 1;
        let exit = ExitSeen {
            time_ns,
            status: None,
        };
        self.bury(key, exit);
    }

    /// Marks a living process as dead.
    pub(super) fn bury(&mut self, key: Key, exit: ExitSeen) {
        self.forest[key].node.exit = Some(exit);
        self.live -= 1;
        self.settle(key);
    }

    /// Marks a dead process as living.
    pub(super) fn revive(&mut self, key: Key) {
        let was_pinned = self.forest[key].is_pinned();
        self.forest[key].node.exit = None;
        self.live += 1;
        if !was_pinned {
            self.pin(key);
        }
    }

    /// `key`, and maybe its ancestors, lost what pinned it.
    fn settle(&mut self, key: Key) {
        let mut at = key;
        while !self.forest[at].is_pinned() {
            self.forest[at].place = Some(self.next_place);
            self.forest[at].idle_since_ns = self.now_ns;
            self.history.insert(self.next_place, at);
            self.next_place += 1;
            let Some(parent) = self.move_in_list(at) else {
                return;
            };
            self.forest[parent].pins -= 1;
            at = parent;
        }
        self.look_for_long_chains(at);
    }

    /// `key` has just become pinned, and with it its ancestors.
    fn pin(&mut self, key: Key) {
        if let Some(place) = self.forest[key].place.take() {
            self.history.remove(&place);
        }
        if let Some(parent) = self.move_in_list(key) {
            self.add_pin(parent);
            self.look_for_long_chains(parent);
        }
    }

    /// `key` has one more child that is pinned.
    fn add_pin(&mut self, key: Key) {
        let mut at = key;
        loop {
            let was_pinned = self.forest[at].is_pinned();
            self.forest[at].pins += 1;
            if was_pinned {
                return;
            }
            if let Some(place) = self.forest[at].place.take() {
                self.history.remove(&place);
            }
            let Some(parent) = self.move_in_list(at) else {
                return;
            };
            at = parent;
        }
    }

    /// Puts `key` where it belongs among its siblings, and answers their parent.
    fn move_in_list(&mut self, key: Key) -> Option<Key> {
        let parent = self.forest.unlink(key)?;
        self.forest.link(key, parent);
        Some(parent)
    }

    /// Chains are only shortened between two events, so that no key goes
    /// stale while one is taken in.
    fn look_for_long_chains(&mut self, key: Key) {
        if self.forest[key].is_link() {
            self.untidy.push(self.forest[key].node.id);
        }
    }

    /// Forgets what is too much.
    pub(super) fn tidy(&mut self) {
        while let Some(id) = self.untidy.pop() {
            if let Some(key) = self.key(id) {
                self.shorten_chain(key);
            }
        }
        let oldest_ns = self.now_ns.saturating_sub(self.limits.dead_age_ns);
        while let Some((_, front)) = self.history.first_key_value() {
            let is_old = self.forest[*front].idle_since_ns < oldest_ns;
            if self.history.len() <= self.limits.dead && !is_old {
                return;
            }
            self.evict(*front);
        }
    }

    /// Takes the middle out of the chain of links around `key` when it is too
    /// long: its ends tell who began it and who of it is left.
    fn shorten_chain(&mut self, key: Key) {
        if !self.forest[key].is_link() {
            return;
        }
        let mut bottom = key;
        while let Some(child) = self.forest[bottom].first
            && self.forest[child].is_link()
        {
            bottom = child;
        }
        let is_link = |key: &Key| self.forest[*key].is_link();
        let upwards =
            || std::iter::successors(Some(bottom), |key| self.forest[*key].parent.filter(is_link));
        let limit = self.limits.chain.max(2);
        // The two ends are known to be there, so a link that goes has a parent.
        let excess = upwards().count().saturating_sub(limit);
        let Some(first) = upwards().nth(limit.div_ceil(2)) else {
            return;
        };
        let mut at = first;
        for _ in 0..excess {
            match self.splice(at) {
                Some(parent) => at = parent,
                None => return,
            }
        }
    }

    /// Takes a link out of its chain, and answers its parent, which gets its children.
    fn splice(&mut self, key: Key) -> Option<Key> {
        let children: Vec<Key> = self.forest.children(key).collect();
        let parent = self.forest.unlink(key)?;
        let (skipped, parent_only) = {
            let node = &self.forest[key].node;
            (node.skipped_ancestors + 1, node.parent_only)
        };
        for child in children {
            self.forest.unlink(child);
            let node = &mut self.forest[child].node;
            node.skipped_ancestors += skipped;
            node.parent_only |= parent_only;
            // Its one pinned child takes its place, so the parent's count stays.
            self.forest.link(child, parent);
        }
        self.ids.remove(&self.forest[key].node.id);
        self.forest.remove(key);
        self.spliced += 1;
        Some(parent)
    }

    /// Forgets a process of the history, or first one that it created.
    ///
    /// A creator becomes idle after all its descendants, so it comes after them
    /// in the history, unless its exit was heard of before they were.
    fn evict(&mut self, key: Key) {
        let mut leaf = key;
        while let Some(child) = self.forest[leaf].first {
            leaf = child;
        }
        self.forest.unlink(leaf);
        let slot = &self.forest[leaf];
        if let Some(place) = slot.place {
            self.history.remove(&place);
        }
        self.ids.remove(&slot.node.id);
        self.forest.remove(leaf);
        self.evicted += 1;
    }
}
