//! Who is kept: whom a keep rule has matched, and who descends from these.

use std::collections::HashSet;

use super::registry::Registry;
use crate::lineage::{Event, Exit, Gone, Tag};
use crate::process::ProcessId;

/// The kept processes that are alive, as far as events tell.
///
/// A rule is matched against the name and the program that a process has when
/// it executes one. The answer is inherited at fork, in the order of events, so
/// that a server that was matched and then double-forked is kept although its
/// rule was evaluated after the fork. Who was kept when its session ended, or
/// was in none, has no tag in the kernel that says so, and stays kept here.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    alive: HashSet<ProcessId>,
}

impl Kept {
    /// Takes note of an event; answers a process that has just become kept
    /// and has no exempt tag in the kernel yet.
    pub fn hear(&mut self, event: &Event, sessions: &Registry) -> Option<(ProcessId, Tag)> {
        let (id, tag, matched) = match event {
            Event::Fork(fork) => {
                let inherited = self.alive.contains(&fork.creator);
                if inherited {
                    self.alive.insert(fork.child);
                }
                (fork.child, fork.tag?, inherited)
            }
            Event::Exec(exec) => {
                let tag = exec.tag?;
                (
                    exec.id,
                    tag,
                    is_matched(sessions, tag, exec.id, &exec.comm, &exec.exe),
                )
            }
            Event::Snapshot(seen) => {
                let by_parent = seen
                    .parent
                    .is_some_and(|parent| self.alive.contains(&parent));
                if by_parent {
                    self.alive.insert(seen.id);
                }
                let tag = seen.tag?;
                let already = self.alive.contains(&seen.id);
                let exe = seen.exe.as_deref().unwrap_or_default();
                (
                    seen.id,
                    tag,
                    already || is_matched(sessions, tag, seen.id, &seen.comm, exe),
                )
            }
            Event::Exit(Exit { id, .. }) | Event::Gone(Gone { id, .. }) => {
                self.alive.remove(id);
                return None;
            }
        };
        if !matched && !tag.exempt {
            return None;
        }
        self.alive.insert(id);
        (!tag.exempt).then_some((
            id,
            Tag {
                exempt: true,
                ..tag
            },
        ))
    }

    /// Adds one by hand.
    pub fn insert(&mut self, id: ProcessId) {
        self.alive.insert(id);
    }

    /// Whether it is kept.
    pub fn contains(&self, id: ProcessId) -> bool {
        self.alive.contains(&id)
    }
}

/// Whether a rule of the owning session, or of one around it, matches.
pub(super) fn is_matched(
    sessions: &Registry,
    tag: Tag,
    id: ProcessId,
    comm: &[u8],
    exe: &[u8],
) -> bool {
    let mut next = Some(tag.session);
    while let Some(session) = next.and_then(|id| sessions.get(id)) {
        if session.keep.iter().any(|rule| rule.matches(id, comm, exe)) {
            return true;
        }
        next = session.parent;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::{Session, SessionState};
    use super::*;
    use crate::lineage::{Exec, Fork, SessionId, WaitStatus};
    use crate::process::{Pid, StartTime};

    fn id(pid: i64) -> ProcessId {
        ProcessId::new(Pid::new(pid).unwrap(), StartTime::from_ticks(1))
    }

    fn tag() -> Tag {
        Tag::member(SessionId::new(5).unwrap())
    }

    fn sessions() -> Registry {
        let mut sessions = Registry::default();
        sessions.insert(Session {
            id: tag().session,
            name: String::new(),
            roots: vec![],
            parent: None,
            owner_uid: 0,
            keep: vec!["redis*".parse().unwrap()],
            workdir: None,
            late: false,
            opened_ns: 0,
            state: SessionState::Open,
        });
        sessions
    }

    fn exec(pid: i64, comm: &[u8]) -> Event {
        Event::Exec(Exec {
            id: id(pid),
            tag: Some(tag()),
            time_ns: 0,
            comm: comm.to_vec(),
            exe: vec![],
            argv: vec![],
            truncated: false,
            uid: 0,
            cgroup_id: 0,
        })
    }

    fn fork(creator: i64, child: i64) -> Event {
        Event::Fork(Fork {
            child: id(child),
            creator: id(creator),
            tag: Some(tag()),
            time_ns: 0,
            comm: vec![],
            uid: 0,
            cgroup_id: 0,
        })
    }

    #[test]
    fn descendants_of_a_matched_process_are_kept_whatever_they_execute() {
        let (sessions, mut kept) = (sessions(), Kept::default());
        assert_eq!(kept.hear(&exec(2, b"sh"), &sessions), None);
        assert_eq!(
            kept.hear(&exec(3, b"redis-server"), &sessions).unwrap().0,
            id(3)
        );
        assert_eq!(kept.hear(&fork(3, 4), &sessions).unwrap().0, id(4));
        assert_eq!(kept.hear(&exec(4, b"sh"), &sessions), None);
        assert_eq!(kept.hear(&fork(2, 5), &sessions), None);
        assert!(kept.contains(id(4)) && !kept.contains(id(5)));
    }

    #[test]
    fn who_has_no_session_is_kept_with_its_descendants() {
        let (sessions, mut kept) = (sessions(), Kept::default());
        kept.insert(id(3));
        let Event::Fork(untagged) = fork(3, 4) else {
            unreachable!()
        };
        let untagged = Fork {
            tag: None,
            ..untagged
        };
        assert_eq!(kept.hear(&Event::Fork(untagged), &sessions), None);
        assert!(kept.contains(id(4)));
    }

    #[test]
    fn the_dead_are_forgotten() {
        let (sessions, mut kept) = (sessions(), Kept::default());
        kept.hear(&exec(3, b"redis-server"), &sessions).unwrap();
        let exit = Exit {
            id: id(3),
            tag: None,
            time_ns: 0,
            status: WaitStatus(0),
        };
        assert_eq!(kept.hear(&Event::Exit(exit), &sessions), None);
        assert!(!kept.contains(id(3)));
    }
}
