//! Who is never signalled, whoever owns it.

use std::collections::HashMap;

use crate::process::{Pid, Proc, ProcError, ProcessId, Seen};

/// Tracker itself, those who asked, the ancestors of all these, and pid 1.
///
/// Kernel threads are told by their `stat`: see [`Protected::check_seen`].
#[derive(Clone, Debug, Default)]
pub struct Protected {
    extra: Vec<ProcessId>,
    found: HashMap<ProcessId, String>,
}

/// Longer chains of parents than this are a loop of reused pids.
const DEPTH: usize = 4096;

impl Protected {
    /// Protects tracker, `extra`, and the ancestors that `/proc` shows of them.
    pub fn new(proc: &Proc, extra: &[ProcessId]) -> Result<Protected, ProcError> {
        let mut protected = Protected {
            extra: extra.to_vec(),
            found: HashMap::new(),
        };
        protected.refresh(proc)?;
        Ok(protected)
    }

    /// Reads the ancestors again: who loses its parent gets another one.
    /// Whoever was protected stays so.
    pub fn refresh(&mut self, proc: &Proc) -> Result<(), ProcError> {
        if let Some(own) = proc.seen(Pid::own())? {
            self.protect(proc, own, "tracker")?;
        }
        for id in self.extra.clone() {
            if let Some(seen) = proc.same(id)? {
                self.protect(proc, seen, "the client")?;
            }
        }
        Ok(())
    }

    fn protect(&mut self, proc: &Proc, whom: Seen, name: &str) -> Result<(), ProcError> {
        let whom_id = whom.id;
        self.found
            .entry(whom_id)
            .or_insert_with(|| format!("it is {name}"));
        let mut child = whom;
        for _ in 0..DEPTH {
            let Some(parent) = child.stat.parent else {
                break;
            };
            let Some(parent) = proc.seen(parent)? else {
                break;
            };
            let detail = || format!("it is an ancestor of {name} ({})", whom_id.pid);
            self.found.entry(parent.id).or_insert_with(detail);
            child = parent;
        }
        Ok(())
    }

    /// Why `id` is protected; `None` when it is not.
    pub fn check(&self, id: ProcessId) -> Option<&str> {
        if id.pid == Pid::INIT {
            return Some("it is the init process");
        }
        self.found.get(&id).map(String::as_str)
    }

    /// The same of a process whose `stat` was read, which also tells kernel threads.
    pub fn check_seen(&self, seen: &Seen) -> Option<&str> {
        if seen.stat.is_kernel_thread() {
            return Some("it is a kernel thread");
        }
        self.check(seen.id)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Family;
    use super::*;

    #[test]
    fn tracker_and_its_ancestors_are_protected() {
        let proc = Proc::open().unwrap();
        let protected = Protected::new(&proc, &[]).unwrap();
        let own = proc.seen(Pid::own()).unwrap().unwrap();
        let parent = proc.seen(own.stat.parent.unwrap()).unwrap().unwrap();
        assert_eq!(protected.check(own.id), Some("it is tracker"));
        let detail = protected.check(parent.id).unwrap();
        assert!(
            detail.starts_with("it is an ancestor of tracker"),
            "{detail}"
        );
        let init = proc.seen(Pid::INIT).unwrap().unwrap();
        assert!(protected.check(init.id).is_some());
    }

    #[test]
    fn a_client_and_its_ancestors_are_protected_and_a_stranger_is_not() {
        let proc = Proc::open().unwrap();
        let family = Family::start("sleep 600 & echo; wait");
        let alive = family.alive();
        let [shell, client] = alive.as_slice() else {
            panic!("{alive:?}")
        };
        let stranger = Family::start("echo; exec sleep 600");
        let protected = Protected::new(&proc, &[*client]).unwrap();
        assert_eq!(protected.check(*client), Some("it is the client"));
        assert!(protected.check(*shell).is_some());
        assert_eq!(protected.check(stranger.root), None);
    }
}
