//! The identity of a process: a pid, and the time at which its holder started.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A thread group id: what user space calls a pid. Always positive.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(try_from = "i64", into = "i64")]
pub struct Pid(i32);

impl Pid {
    /// The init process of this pid namespace.
    pub const INIT: Pid = Pid(1);

    /// A pid from a number; `None` unless it is in `1..=i32::MAX`.
    pub fn new(raw: i64) -> Option<Pid> {
        i32::try_from(raw).ok().filter(|raw| *raw > 0).map(Pid)
    }

    /// The pid of the calling process.
    pub fn own() -> Pid {
        Pid(rustix::process::getpid().as_raw_pid())
    }

    /// The number.
    pub fn raw(self) -> i32 {
        self.0
    }

    /// The number as the kernel's maps have it.
    pub fn as_u32(self) -> u32 {
        self.0.unsigned_abs()
    }
}

impl From<Pid> for i64 {
    fn from(pid: Pid) -> i64 {
        i64::from(pid.raw())
    }
}

impl TryFrom<i64> for Pid {
    type Error = ParseProcessIdError;

    fn try_from(raw: i64) -> Result<Pid, ParseProcessIdError> {
        Pid::new(raw).ok_or(ParseProcessIdError::Pid)
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw().fmt(f)
    }
}

impl fmt::Debug for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw().fmt(f)
    }
}

impl FromStr for Pid {
    type Err = ParseProcessIdError;

    fn from_str(text: &str) -> Result<Pid, ParseProcessIdError> {
        digits(text)
            .and_then(|raw| i64::try_from(raw).ok())
            .and_then(Pid::new)
            .ok_or(ParseProcessIdError::Pid)
    }
}

/// When a process started: field 22 of `/proc/PID/stat`, in ticks of 10 ms
/// since boot, as a reader in the initial time namespace sees it.
///
/// The kernel's own `start_boottime` has nanoseconds. Both sources are compared
/// in ticks, since rounding one of them and comparing for equality is how two
/// views of one process become two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StartTime(u64);

impl StartTime {
    /// From ticks since boot.
    pub const fn from_ticks(ticks: u64) -> StartTime {
        StartTime(ticks)
    }

    /// From nanoseconds since boot, rounded down as the kernel does for `/proc`.
    pub const fn from_ns(ns: u64) -> StartTime {
        StartTime(ns / tracker_ebpf::NS_PER_TICK)
    }

    /// Ticks of 10 ms since boot.
    pub const fn ticks(self) -> u64 {
        self.0
    }
}

impl fmt::Display for StartTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A process. Printed and parsed as `PID@START`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its thread group id.
    pub pid: Pid,
    /// When its thread group leader started.
    pub start_time: StartTime,
}

impl ProcessId {
    /// From its two parts.
    pub const fn new(pid: Pid, start_time: StartTime) -> ProcessId {
        ProcessId { pid, start_time }
    }

    /// From what the kernel's maps hold; `None` when the pid is not one.
    pub fn from_kernel(pid: u32, start_ns: u64) -> Option<ProcessId> {
        Pid::new(i64::from(pid)).map(|pid| ProcessId::new(pid, StartTime::from_ns(start_ns)))
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.pid, self.start_time)
    }
}

impl fmt::Debug for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ProcessId {
    type Err = ParseProcessIdError;

    fn from_str(text: &str) -> Result<ProcessId, ParseProcessIdError> {
        let (pid, start) = text.split_once('@').ok_or(ParseProcessIdError::NoStart)?;
        let start = digits(start).ok_or(ParseProcessIdError::Start)?;
        Ok(ProcessId::new(pid.parse()?, StartTime::from_ticks(start)))
    }
}

/// Decimal digits only: `u64::from_str` would take a sign too.
fn digits(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Why a text is no identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseProcessIdError {
    /// The pid is not a number that a process can have.
    #[error("a pid is a whole number from 1 to 2147483647")]
    Pid,
    /// There is no `@`.
    #[error("an identity is PID@START, with START as in field 22 of /proc/PID/stat")]
    NoStart,
    /// The start time is not a number.
    #[error("START is a whole number of clock ticks, as in field 22 of /proc/PID/stat")]
    Start,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn init_is_pid_one() {
        assert_eq!(Pid::INIT.raw(), 1);
    }

    #[test]
    fn numbers_that_no_process_has_are_no_pids() {
        for raw in [0, -1, i64::from(i32::MAX) + 1, i64::MIN, i64::MAX] {
            assert_eq!(Pid::new(raw), None, "{raw}");
        }
        for text in [
            "",
            "0",
            "-1",
            "+1",
            " 1",
            "1 ",
            "2147483648",
            "1e3",
            "banana",
            "99999999999999999999",
        ] {
            assert_eq!(
                text.parse::<Pid>(),
                Err(ParseProcessIdError::Pid),
                "{text:?}"
            );
        }
    }

    #[test]
    fn an_identity_reads_back_as_it_was_printed() {
        let id = ProcessId::new(Pid::new(4711).unwrap(), StartTime::from_ticks(815));
        assert_eq!(id.to_string(), "4711@815");
        assert_eq!("4711@815".parse(), Ok(id));
        assert_eq!(
            "4711".parse::<ProcessId>(),
            Err(ParseProcessIdError::NoStart)
        );
        assert_eq!(
            "4711@".parse::<ProcessId>(),
            Err(ParseProcessIdError::Start)
        );
        assert_eq!("@1".parse::<ProcessId>(), Err(ParseProcessIdError::Pid));
    }

    #[test]
    fn nanoseconds_are_rounded_down_as_proc_does() {
        assert_eq!(StartTime::from_ns(19_999_999).ticks(), 1);
        assert_eq!(StartTime::from_ns(20_000_000).ticks(), 2);
    }
}
