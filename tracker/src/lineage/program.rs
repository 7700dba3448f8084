//! The program that a process runs.

use super::map::Lineage;
use crate::process::ProcessId;

/// What was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program<'a> {
    /// The path that was given to `execve`.
    pub exe: &'a [u8],
    /// The arguments, as far as they are known.
    pub argv: &'a [Vec<u8>],
    /// Whether `exe` or `argv` were cut.
    pub truncated: bool,
}

impl Lineage {
    /// What a process executed last or, as it goes on with its creator's
    /// program until it executes one itself, what its creator ran when it was
    /// created. `None` when that is not known.
    pub fn program(&self, id: ProcessId) -> Option<Program<'_>> {
        let mut node = self.node(id)?;
        loop {
            if let Some(exe) = &node.exe {
                return Some(Program {
                    exe,
                    argv: node.argv.as_deref().unwrap_or_default(),
                    truncated: node.truncated,
                });
            }
            // Whoever is forgotten between the two may have executed something,
            // and a parent that was found later need not be the creator.
            if node.skipped_ancestors > 0 || node.parent_only {
                return None;
            }
            let creator = self.node(node.creator?)?;
            // What it ran before that is not remembered.
            if creator.exec_ns > Some(node.fork_ns) {
                return None;
            }
            node = creator;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Event, Exec, Fork, Limits};
    use super::*;
    use crate::process::{Pid, StartTime};

    fn id(pid: i64) -> ProcessId {
        ProcessId::new(Pid::new(pid).unwrap(), StartTime::from_ticks(0))
    }

    fn fork(creator: i64, child: i64, time_ns: u64) -> Event {
        Event::Fork(Fork {
            child: id(child),
            creator: id(creator),
            tag: None,
            time_ns,
            comm: b"x".to_vec(),
            uid: 0,
            cgroup_id: 1,
        })
    }

    fn exec(pid: i64, exe: &[u8], time_ns: u64) -> Event {
        Event::Exec(Exec {
            id: id(pid),
            tag: None,
            time_ns,
            comm: b"x".to_vec(),
            exe: exe.to_vec(),
            argv: vec![exe.to_vec(), b"-v".to_vec()],
            truncated: false,
            uid: 0,
            cgroup_id: 1,
        })
    }

    fn exe_of(events: impl IntoIterator<Item = Event>, pid: i64) -> Option<Vec<u8>> {
        let mut lineage = Lineage::new(Limits::default());
        for event in events {
            lineage.apply(event);
        }
        let program = lineage.program(id(pid))?;
        assert_eq!(program.argv, [program.exe.to_vec(), b"-v".to_vec()]);
        Some(program.exe.to_vec())
    }

    #[test]
    fn a_child_goes_on_with_its_creator_s_program() {
        let events = [exec(2, b"/bin/sh", 1), fork(2, 3, 2), fork(3, 4, 3)];
        assert_eq!(exe_of(events, 4), Some(b"/bin/sh".to_vec()));
    }

    #[test]
    fn a_child_s_own_program_counts() {
        let events = [
            exec(2, b"/bin/sh", 1),
            fork(2, 3, 2),
            exec(3, b"/bin/true", 3),
        ];
        assert_eq!(exe_of(events, 3), Some(b"/bin/true".to_vec()));
    }

    #[test]
    fn what_the_creator_executed_later_is_not_the_child_s() {
        let events = [
            exec(2, b"/bin/sh", 1),
            fork(2, 3, 2),
            exec(2, b"/bin/true", 3),
        ];
        assert_eq!(exe_of(events, 3), None);
    }

    #[test]
    fn nobody_knows_the_program_of_a_stranger() {
        assert_eq!(exe_of([fork(2, 3, 2)], 3), None);
        assert_eq!(exe_of([], 3), None);
    }
}
