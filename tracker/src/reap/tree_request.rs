//! Which process is to be reaped, and whether that can be done.

use crate::process::{Opened, Pid, PidFd, Proc, ProcError, ProcessId, StartTime, escape};

/// A process to reap, with its descendants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeRequest {
    /// Its pid.
    pub pid: Pid,
    /// Its start time as `/proc` shows it here (field 22 of `stat`); whoever
    /// has the pid now when it is left out.
    pub start_time: Option<StartTime>,
    /// End its descendants only.
    pub exclude_root: bool,
}

impl TreeRequest {
    /// Who that is, if it may be ended. An ancestor of tracker may be named:
    /// it is spared, and its other descendants are ended.
    pub fn resolve(&self, proc: &Proc) -> Result<ProcessId, TreeError> {
        let pid = self.pid;
        if pid == Pid::INIT {
            return Err(TreeError::Init);
        }
        if pid == Pid::own() {
            return Err(TreeError::Own(pid));
        }
        let seen = proc.seen(pid)?.ok_or(TreeError::Nobody(pid))?;
        let name = || escape(&seen.stat.comm);
        if let Some(start_time) = self
            .start_time
            .filter(|start| *start != seen.stat.start_time)
        {
            return Err(TreeError::Another {
                given: ProcessId::new(pid, start_time),
                now: ProcessId::new(pid, seen.stat.start_time),
                name: name(),
            });
        }
        if seen.stat.is_kernel_thread() {
            return Err(TreeError::KernelThread { pid, name: name() });
        }
        // `/proc` answers for the id of any thread, and for the process as well
        // after its death. A pidfd is of a process only.
        if matches!(PidFd::open(pid), Ok(Opened::Gone)) {
            return Err(match proc.same(seen.id)? {
                Some(_) => TreeError::Thread(pid),
                None => TreeError::Nobody(pid),
            });
        }
        Ok(seen.id)
    }
}

/// A process cannot be reaped.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// Nobody has the pid.
    #[error("there is no process {0}")]
    Nobody(Pid),
    /// Another process than was meant has the pid.
    #[error("process {given} is gone: its pid belongs to {now} ({name}) now")]
    Another {
        /// Who was meant.
        given: ProcessId,
        /// Who has the pid; like `given` as `/proc` shows it.
        now: ProcessId,
        /// Its name, escaped.
        name: String,
    },
    /// It is no process.
    #[error("{0} is the id of a thread, not of a process")]
    Thread(Pid),
    /// It is pid 1.
    #[error("pid 1 is the init process, which is never ended")]
    Init,
    /// It is tracker.
    #[error("pid {0} is tracker itself")]
    Own(Pid),
    /// It is a kernel thread.
    #[error("pid {pid} is the kernel thread {name}, which cannot be ended")]
    KernelThread {
        /// Its pid.
        pid: Pid,
        /// Its name, escaped.
        name: String,
    },
    /// `/proc` could not be read.
    #[error(transparent)]
    Proc(#[from] ProcError),
}

impl TreeError {
    /// Whether it exists, and is never ended.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            TreeError::Init | TreeError::Own(_) | TreeError::KernelThread { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Family;
    use super::*;

    fn resolve(pid: Pid, start_time: Option<u64>) -> Result<ProcessId, TreeError> {
        let start_time = start_time.map(StartTime::from_ticks);
        let request = TreeRequest {
            pid,
            start_time,
            exclude_root: false,
        };
        request.resolve(&Proc::open().unwrap())
    }

    #[test]
    fn a_process_is_found_with_and_without_its_start_time() {
        let family = Family::start("echo; exec sleep 600");
        let root = family.root;
        assert_eq!(resolve(root.pid, None).unwrap(), root);
        assert_eq!(
            resolve(root.pid, Some(root.start_time.ticks())).unwrap(),
            root
        );
    }

    #[test]
    fn another_start_time_says_who_has_the_pid_now() {
        let family = Family::start("echo; while :; do sleep 600; done");
        let error = resolve(family.root.pid, Some(1)).unwrap_err();
        let (pid, now) = (family.root.pid, family.root);
        assert_eq!(
            error.to_string(),
            format!("process {pid}@1 is gone: its pid belongs to {now} (sh) now")
        );
        assert!(!error.is_refusal());
    }

    #[test]
    fn who_is_never_ended_is_refused() {
        let proc = Proc::open().unwrap();
        assert!(matches!(resolve(Pid::INIT, None), Err(TreeError::Init)));
        let own = resolve(Pid::own(), None).unwrap_err();
        assert!(matches!(own, TreeError::Own(_)) && own.is_refusal());
        let all = proc.scan().unwrap();
        // A container shows none.
        if let Some(thread) = all.iter().find(|seen| seen.stat.is_kernel_thread()) {
            let error = resolve(thread.id.pid, None).unwrap_err();
            assert!(matches!(error, TreeError::KernelThread { .. }), "{error}");
        }
    }

    #[test]
    fn a_pid_that_nobody_has_and_a_thread_are_no_processes() {
        let nobody = Pid::new(i64::from(i32::MAX)).unwrap();
        assert!(matches!(resolve(nobody, None), Err(TreeError::Nobody(_))));
        // A test runs on a thread of its own, with the id that `gettid` answers.
        let thread = rustix::thread::gettid().as_raw_pid();
        let thread = Pid::new(i64::from(thread)).unwrap();
        assert!(matches!(resolve(thread, None), Err(TreeError::Thread(_))));
    }
}
