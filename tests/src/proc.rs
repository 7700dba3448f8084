//! A reader of `/proc` for the oracles: it shares no code with tracker's.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, Signal};

/// A process: its pid, and field 22 of its `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Who {
    /// Thread group id.
    pub pid: i32,
    /// Start time in ticks since boot.
    pub start: u64,
}

impl Who {
    /// The calling process.
    pub fn own() -> Who {
        stat(own_pid()).expect("/proc shows its reader").who
    }

    /// Whoever has this pid now.
    #[track_caller]
    pub fn with_pid(pid: u32) -> Who {
        let pid = i32::try_from(pid).expect("a pid fits");
        match stat(pid) {
            Some(stat) => stat.who,
            None => panic!("nobody has pid {pid}"),
        }
    }

    /// What has become of it.
    pub fn life(self) -> Life {
        match stat(self.pid) {
            Some(stat) if stat.who != self => Life::Gone,
            Some(stat) if stat.is_zombie() => Life::Zombie,
            Some(stat) => Life::Alive(stat),
            None => Life::Gone,
        }
    }

    /// Whether a thread of it lives.
    pub fn is_alive(self) -> bool {
        matches!(self.life(), Life::Alive(_))
    }

    /// Sends a signal to it and to nobody else; does nothing when it is gone.
    pub fn signal(self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return;
        };
        let Ok(fd) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else {
            return;
        };
        // The descriptor is this process's if the pid still is its own now.
        if stat(self.pid).is_some_and(|stat| stat.who == self) {
            let _ = rustix::process::pidfd_send_signal(&fd, signal);
        }
    }
}

/// As `tracker` takes it on its command line.
impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.pid, self.start)
    }
}

/// What has become of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    /// A thread of it lives.
    Alive(Stat),
    /// All threads are dead; its parent has not waited for it.
    Zombie,
    /// Nobody has the pid, or somebody else has.
    Gone,
}

/// Some fields of `/proc/PID/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Fields 1 and 22.
    pub who: Who,
    /// Field 2.
    pub comm: Vec<u8>,
    /// Field 3: the leader's state.
    pub state: char,
    /// Field 4.
    pub parent: i32,
    /// Field 5.
    pub group: i32,
    /// Field 6.
    pub session: i32,
    /// Field 20.
    pub threads: u64,
}

impl Stat {
    /// Whether the whole group is dead. A leader that left before its threads
    /// has state Z as well.
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads <= 1
    }
}

/// Reads `/proc/PID/stat`; `None` when nobody has the pid.
pub fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // The first of them is field 3 of proc_pid_stat(5).
    let field = |number: usize| fields.get(number - 3).copied();
    Some(Stat {
        who: Who {
            pid,
            start: field(22)?.parse().ok()?,
        },
        comm: text.get(open + 1..close)?.to_vec(),
        state: field(3)?.chars().next()?,
        parent: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        session: field(6)?.parse().ok()?,
        threads: field(20)?.parse().ok()?,
    })
}

/// Everybody on this host, kernel threads and zombies too.
pub fn everybody() -> impl Iterator<Item = Stat> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(stat)
}

/// The children that `/proc` shows of a process, zombies too.
pub fn children(parent: i32) -> Vec<Stat> {
    everybody().filter(|stat| stat.parent == parent).collect()
}

/// The directories of a process's threads. What a leader that has exited hides
/// in `/proc/PID` is still to be seen in those of its threads.
pub(crate) fn threads(pid: i32) -> Vec<PathBuf> {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(Vec::new(), |threads| {
        let threads = threads.filter_map(Result::ok);
        threads.map(|thread| thread.path()).collect()
    })
}

/// Whether a file contains `text`. One that cannot be read does not.
pub(crate) fn file_contains(file: &Path, text: &[u8]) -> bool {
    fs::read(file).is_ok_and(|content| contains(&content, text))
}

/// Whether `text` occurs in `content`.
pub(crate) fn contains(content: &[u8], text: &[u8]) -> bool {
    content.windows(text.len()).any(|window| window == text)
}

/// Whether a link of this directory says exactly that.
pub(crate) fn any_link_is(dir: &Path, wanted: &str) -> bool {
    fs::read_dir(dir).is_ok_and(|links| {
        links
            .filter_map(|link| fs::read_link(link.ok()?.path()).ok())
            .any(|target| target.as_os_str() == wanted)
    })
}

/// The pid of the calling process.
pub fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_pid()
}
