//! What has to hold between any two events, for the tests.

use std::collections::BTreeMap;

use super::forest::Key;
use super::map::Lineage;
use crate::process::Pid;

impl Lineage {
    #[track_caller]
    pub(super) fn check(&self) {
        assert_eq!(self.ids.len(), self.forest.len());
        assert!(self.untidy.is_empty());
        let mut newest: BTreeMap<Pid, Key> = BTreeMap::new();
        for (id, key) in &self.ids {
            assert_eq!(self.forest[*key].node.id, *id);
            if let Some(older) = newest.insert(id.pid, *key) {
                let older = &self.forest[older].node;
                assert!(!older.is_alive(), "{id} has the pid of {older:?}");
            }
        }
        let nodes = || self.forest.iter().map(|(_, slot)| &slot.node);
        assert_eq!(self.live, nodes().filter(|node| node.is_alive()).count());
        let unheard = nodes().filter(|node| node.exit.is_some_and(|exit| exit.status.is_none()));
        assert!(self.unheard_exits >= unheard.count() as u64);
        for (key, slot) in self.forest.iter() {
            self.check_links(key);
            match slot.place {
                Some(place) => {
                    assert!(!slot.is_pinned(), "{slot:?}");
                    assert_eq!(self.history.get(&place), Some(&key));
                }
                None => assert!(slot.is_pinned(), "{slot:?}"),
            }
        }
        let idle = self
            .forest
            .iter()
            .filter(|(_, slot)| !slot.is_pinned())
            .count();
        assert_eq!(self.history.len(), idle);
        assert!(idle <= self.limits.dead);
    }

    fn check_links(&self, key: Key) {
        let slot = &self.forest[key];
        let parent = slot.parent.map(|parent| &self.forest[parent]);
        assert_eq!(slot.node.creator, parent.map(|parent| parent.node.id));
        assert!(slot.node.creator.is_some() || slot.node.skipped_ancestors == 0);
        let children: Vec<Key> = self.forest.children(key).collect();
        for child in &children {
            assert_eq!(self.forest[*child].parent, Some(key));
        }
        let pinned: Vec<bool> = children
            .iter()
            .map(|child| self.forest[*child].is_pinned())
            .collect();
        assert!(
            pinned.is_sorted_by(|a, b| a >= b),
            "those that stay come first"
        );
        assert_eq!(pinned.iter().filter(|pinned| **pinned).count(), slot.pins);

        let up = || std::iter::successors(Some(key), |key| self.forest[*key].parent);
        assert!(
            up().take(self.forest.len() + 1).count() <= self.forest.len(),
            "a circle"
        );
        let links = up().take_while(|key| self.forest[*key].is_link()).count();
        assert!(links <= self.limits.chain.max(2), "{links} links in a row");
    }
}
