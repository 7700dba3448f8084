//! `/proc/PID/stat`, parsed from bytes. Format: `proc_pid_stat(5)`.

use super::identity::{Pid, StartTime};

/// The fields of `/proc/PID/stat` that tracker uses. All come from one read,
/// so that the parent and the start time belong to the same process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Field 1: thread group id.
    pub pid: Pid,
    /// Field 2: the leader's name. Up to 15 bytes for a user process; any byte but NUL.
    pub comm: Vec<u8>,
    /// Field 3: the leader's state.
    pub state: State,
    /// Field 4: the real parent; 0 for pid 1, kthreadd, and across pid namespaces.
    pub parent: Option<Pid>,
    /// Field 5: process group; 0 when it lies outside the reader's pid namespace.
    pub group: i32,
    /// Field 6: session.
    pub session: i32,
    /// Field 9: `PF_*` of the leader.
    pub flags: u64,
    /// Field 20: threads that have not been released. 0 never occurs in practice.
    pub threads: u64,
    /// Field 22: in the *reader's* time namespace.
    pub start_time: StartTime,
}

/// The leader's state, field 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State(pub u8);

impl State {
    /// The leader has exited. The thread group may live on: see [`Stat::is_dead`].
    pub fn is_zombie(self) -> bool {
        matches!(self.0, b'Z' | b'X' | b'x')
    }

    /// Stopped by a signal or by a tracer.
    pub fn is_stopped(self) -> bool {
        matches!(self.0, b'T' | b't')
    }

    /// The letter.
    pub fn letter(self) -> char {
        char::from(self.0)
    }
}

/// `PF_KTHREAD` of `include/linux/sched.h`: the task is a kernel thread.
const PF_KTHREAD: u64 = 0x0020_0000;

impl Stat {
    /// Parses the content of the file.
    pub fn parse(text: &[u8]) -> Result<Stat, ParseStatError> {
        // The name may hold anything, also `) R 1 (`; it ends at the last `)`.
        let open = text
            .iter()
            .position(|byte| *byte == b'(')
            .ok_or(ParseStatError("(comm)"))?;
        let close = text
            .iter()
            .rposition(|byte| *byte == b')')
            .ok_or(ParseStatError("(comm)"))?;
        let pid = text
            .get(..open)
            .and_then(number)
            .ok_or(ParseStatError("pid"))?;
        let comm = text
            .get(open + 1..close)
            .ok_or(ParseStatError("(comm)"))?
            .to_vec();
        let rest = text.get(close + 1..).unwrap_or_default();
        let fields: Vec<&[u8]> = rest
            .split(u8::is_ascii_whitespace)
            .filter(|field| !field.is_empty())
            .collect();
        // Field 3 of the manual page is the first after the name.
        let field = |at: usize| fields.get(at - 3).copied().unwrap_or_default();
        let parse = |at: usize, name| number(field(at)).ok_or(ParseStatError(name));
        Ok(Stat {
            pid: Pid::new(pid).ok_or(ParseStatError("pid"))?,
            comm,
            state: State(*field(3).first().ok_or(ParseStatError("state"))?),
            parent: Pid::new(parse(4, "ppid")?),
            group: parse(5, "pgrp")?.try_into().unwrap_or(0),
            session: parse(6, "session")?.try_into().unwrap_or(0),
            flags: parse(9, "flags")?
                .try_into()
                .map_err(|_| ParseStatError("flags"))?,
            threads: parse(20, "num_threads")?
                .try_into()
                .map_err(|_| ParseStatError("num_threads"))?,
            start_time: parse(22, "starttime")?
                .try_into()
                .map(StartTime::from_ticks)
                .map_err(|_| ParseStatError("starttime"))?,
        })
    }

    /// Whether the whole thread group is dead. A leader that exited while
    /// other threads run is a zombie too, but then they still count.
    pub fn is_dead(&self) -> bool {
        self.state.is_zombie() && self.threads <= 1
    }

    /// Whether this is a kernel thread, which is never signalled.
    pub fn is_kernel_thread(&self) -> bool {
        self.flags & PF_KTHREAD != 0
    }
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// The named field is missing or is not what the manual page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field {0} is missing or malformed")]
pub struct ParseStatError(pub &'static str);

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "7 (sh) S 3 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 10 11";

    #[test]
    fn fields_are_found_by_their_numbers() {
        let stat = Stat::parse(LINE.as_bytes()).unwrap();
        assert_eq!(
            (stat.pid.raw(), stat.parent, stat.start_time.ticks()),
            (7, Pid::new(3), 4242)
        );
        assert_eq!(
            (stat.state.letter(), stat.threads, stat.flags),
            ('S', 1, 4_194_304)
        );
    }

    #[test]
    fn a_name_that_looks_like_fields_moves_nothing() {
        let mut line = b"7 (x) R 1 (\n\xff".to_vec();
        line.extend_from_slice(&LINE.as_bytes()[5..]);
        let stat = Stat::parse(&line).unwrap();
        assert_eq!(stat.comm, b"x) R 1 (\n\xff");
        assert_eq!((stat.parent, stat.start_time.ticks()), (Pid::new(3), 4242));
    }

    #[test]
    fn a_cut_line_is_an_error() {
        for end in 0..LINE.len() - 12 {
            assert!(Stat::parse(&LINE.as_bytes()[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn a_leader_that_left_its_threads_behind_is_not_dead() {
        let dead = LINE.replace(") S", ") Z");
        assert!(Stat::parse(dead.as_bytes()).unwrap().is_dead());
        let threads = dead.replace(" 20 0 1 0 ", " 20 0 2 0 ");
        assert!(!Stat::parse(threads.as_bytes()).unwrap().is_dead());
    }
}
