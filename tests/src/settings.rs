//! Settings of the whole machine.

use std::fs::{self, File};

use rustix::fs::FlockOperation;

const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";

/// Held by one test at a time on this machine: who holds it may change what
/// is everybody's.
#[derive(Debug)]
pub struct GlobalLock {
    _file: File,
}

impl GlobalLock {
    /// Waits for it.
    pub fn take() -> GlobalLock {
        let path = std::env::temp_dir().join("tracker-tests.lock");
        let file = File::create(&path).expect("the lock's file");
        rustix::fs::flock(&file, FlockOperation::LockExclusive).expect("flock");
        GlobalLock { _file: file }
    }
}

/// Chooses the pids of new processes. Puts the counter back at the end, so
/// that pids are reused no sooner than they would have been.
#[derive(Debug)]
pub struct LastPid {
    before: String,
    _lock: GlobalLock,
}

impl LastPid {
    /// Takes the lock.
    pub fn take() -> LastPid {
        let lock = GlobalLock::take();
        let before = fs::read_to_string(LAST_PID).expect("ns_last_pid");
        LastPid {
            before,
            _lock: lock,
        }
    }

    /// The next process that anybody creates gets `pid`, if that is free.
    pub fn next_is(pid: i32) {
        fs::write(LAST_PID, (pid - 1).to_string()).expect("ns_last_pid takes a pid");
    }
}

impl Drop for LastPid {
    fn drop(&mut self) {
        let _ = fs::write(LAST_PID, self.before.trim());
    }
}

const PID_MAX: &str = "/proc/sys/kernel/pid_max";

/// Another number of pids than this machine has. Puts it back at the end.
#[derive(Debug)]
pub struct PidMax {
    before: String,
    _lock: GlobalLock,
}

impl PidMax {
    /// Takes the lock, and sets it.
    pub fn set(count: u32) -> PidMax {
        let lock = GlobalLock::take();
        let before = fs::read_to_string(PID_MAX).expect("pid_max");
        let guard = PidMax {
            before,
            _lock: lock,
        };
        fs::write(PID_MAX, count.to_string()).expect("pid_max takes a number");
        guard
    }
}

impl Drop for PidMax {
    fn drop(&mut self) {
        let _ = fs::write(PID_MAX, self.before.trim());
    }
}
