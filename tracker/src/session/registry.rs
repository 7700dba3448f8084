//! All sessions, and how they nest.

use std::collections::BTreeMap;

use super::record::Session;
use crate::lineage::SessionId;

/// All live sessions.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    sessions: BTreeMap<SessionId, Session>,
}

impl Registry {
    /// Adds a session.
    pub fn insert(&mut self, session: Session) {
        self.sessions.insert(session.id, session);
    }

    /// Removes a session; the ones inside it move up to the one around it.
    pub fn remove(&mut self, id: SessionId) -> Option<Session> {
        let removed = self.sessions.remove(&id)?;
        for session in self.sessions.values_mut() {
            if session.parent == Some(id) {
                session.parent = removed.parent;
            }
        }
        Some(removed)
    }

    /// One session.
    pub fn get(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(&id)
    }

    /// One session, to change it.
    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.sessions.get_mut(&id)
    }

    /// All, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Session> {
        self.sessions.values()
    }

    /// Those with this name.
    pub fn named(&self, name: &str) -> Vec<SessionId> {
        self.iter()
            .filter(|session| session.name == name)
            .map(|session| session.id)
            .collect()
    }

    /// The session and all that lie inside it, however deep: what a reap of it ends.
    pub fn family(&self, id: SessionId) -> Vec<SessionId> {
        let mut family = vec![id];
        let mut next = 0;
        while let Some(parent) = family.get(next).copied() {
            next += 1;
            for session in self.iter() {
                if session.parent == Some(parent) && !family.contains(&session.id) {
                    family.push(session.id);
                }
            }
        }
        family
    }
}

#[cfg(test)]
mod tests {
    use super::super::SessionState;
    use super::*;

    fn session(id: u64, parent: Option<u64>) -> Session {
        Session {
            id: SessionId::new(id).unwrap(),
            name: format!("s{id}"),
            roots: vec![],
            parent: parent.and_then(SessionId::new),
            owner_uid: 0,
            keep: vec![],
            workdir: None,
            late: false,
            opened_ns: 0,
            state: SessionState::Open,
        }
    }

    fn ids(raw: &[u64]) -> Vec<SessionId> {
        raw.iter().copied().filter_map(SessionId::new).collect()
    }

    fn registry() -> Registry {
        let mut registry = Registry::default();
        for (id, parent) in [(1, None), (2, Some(1)), (3, Some(2)), (4, None)] {
            registry.insert(session(id, parent));
        }
        registry
    }

    #[test]
    fn a_family_is_the_session_and_all_inside_it() {
        assert_eq!(
            registry().family(SessionId::new(1).unwrap()),
            ids(&[1, 2, 3])
        );
        assert_eq!(registry().family(SessionId::new(4).unwrap()), ids(&[4]));
    }

    #[test]
    fn what_was_inside_a_closed_session_moves_up() {
        let mut registry = registry();
        registry.remove(SessionId::new(2).unwrap()).unwrap();
        assert_eq!(registry.family(SessionId::new(1).unwrap()), ids(&[1, 3]));
    }

    #[test]
    fn names_find_their_sessions() {
        assert_eq!(registry().named("s4"), ids(&[4]));
        assert_eq!(registry().named("s"), ids(&[]));
    }
}
