//! What a source tells the map. The same for every source.

use super::tag::Tag;
use crate::process::ProcessId;

/// Something that happened to a process, or was seen of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A process was created.
    Fork(Fork),
    /// It executed a program.
    Exec(Exec),
    /// The last thread of it began to exit.
    Exit(Exit),
    /// It was found alive, by a look at `/proc` or at the kernel's tasks.
    Snapshot(Snapshot),
    /// It was found dead, and how it ended is not known.
    Gone(Gone),
}

/// A process was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The child.
    pub child: ProcessId,
    /// Who called `clone`: not always the parent that `/proc` shows.
    pub creator: ProcessId,
    /// What it inherited.
    pub tag: Option<Tag>,
    /// When: `CLOCK_BOOTTIME`, nanoseconds.
    pub time_ns: u64,
    /// The creator's name, which the child starts with.
    pub comm: Vec<u8>,
    /// The creator's real uid.
    pub uid: u32,
    /// The creator's cgroup.
    pub cgroup_id: u64,
}

/// A program was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exec {
    /// The process.
    pub id: ProcessId,
    /// Its tag.
    pub tag: Option<Tag>,
    /// When: `CLOCK_BOOTTIME`, nanoseconds.
    pub time_ns: u64,
    /// Its new name.
    pub comm: Vec<u8>,
    /// The path that was given to `execve`.
    pub exe: Vec<u8>,
    /// The arguments.
    pub argv: Vec<Vec<u8>>,
    /// Whether `exe` or `argv` were cut.
    pub truncated: bool,
    /// Its real uid.
    pub uid: u32,
    /// Its cgroup.
    pub cgroup_id: u64,
}

/// The last thread of a process began to exit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The process.
    pub id: ProcessId,
    /// Its tag.
    pub tag: Option<Tag>,
    /// When: `CLOCK_BOOTTIME`, nanoseconds.
    pub time_ns: u64,
    /// How it ended.
    pub status: WaitStatus,
}

/// A process that was found alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The process.
    pub id: ProcessId,
    /// Its parent at that time, which need not be its creator.
    pub parent: Option<ProcessId>,
    /// Its tag, where the source knows one.
    pub tag: Option<Tag>,
    /// When: `CLOCK_BOOTTIME`, nanoseconds.
    pub time_ns: u64,
    /// Its name.
    pub comm: Vec<u8>,
    /// Its program; `None` when it was not read.
    pub exe: Option<Vec<u8>>,
    /// Its arguments; `None` when they were not read.
    pub argv: Option<Vec<Vec<u8>>>,
    /// Its real uid; `None` when it was not read.
    pub uid: Option<u32>,
}

/// A process that a look at the live ones no longer found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// The process.
    pub id: ProcessId,
    /// When it was looked for: `CLOCK_BOOTTIME`, nanoseconds. It died before.
    pub time_ns: u64,
}

/// How a process ended, as `waitpid(2)` encodes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitStatus(pub u32);

impl WaitStatus {
    /// The exit code, when it ended by itself.
    pub fn code(self) -> Option<u8> {
        let [low, high, ..] = self.0.to_le_bytes();
        (low.trailing_zeros() >= 7).then_some(high)
    }

    /// The signal that ended it.
    pub fn signal(self) -> Option<u8> {
        let [low, ..] = self.0.to_le_bytes();
        let signal = low & 0x7f;
        (signal != 0 && signal != 0x7f).then_some(signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_a_code_or_a_signal() {
        assert_eq!(
            (WaitStatus(3 << 8).code(), WaitStatus(3 << 8).signal()),
            (Some(3), None)
        );
        assert_eq!(
            (WaitStatus(9 | 0x80).code(), WaitStatus(9 | 0x80).signal()),
            (None, Some(9))
        );
    }
}
