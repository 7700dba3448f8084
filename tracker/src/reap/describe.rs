//! What the report says of a process besides its identity.

use crate::process::{Proc, ProcError, ProcessId};

/// What a process is. All bytes are as the kernel gave them, not escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Its name.
    pub comm: Vec<u8>,
    /// Its program; empty when unknown.
    pub exe: Vec<u8>,
    /// Its arguments.
    pub cmdline: Vec<Vec<u8>>,
    /// `cmdline` is only the beginning of the command line.
    pub truncated: bool,
    /// Its real uid, where known.
    pub uid: Option<u32>,
}

/// The most of a command line that is kept, in bytes.
const CMDLINE_MAX: usize = 4096;

impl Description {
    /// What `/proc` says of `id`; `None` when it is gone.
    fn read(proc: &Proc, id: ProcessId) -> Result<Option<Description>, ProcError> {
        let uid = proc.uid(id.pid)?;
        let exe = proc.exe(id.pid).unwrap_or_default();
        let cmdline = proc.cmdline(id.pid)?.unwrap_or_default();
        // Read last: if `id` has its pid still, it had it all along.
        let Some(seen) = proc.same(id)? else {
            return Ok(None);
        };
        let (cmdline, truncated) = bounded(cmdline);
        Ok(Some(Description {
            comm: seen.stat.comm,
            exe,
            cmdline,
            truncated,
            uid,
        }))
    }
}

/// Cuts a command line after [`CMDLINE_MAX`] bytes.
fn bounded(cmdline: Vec<Vec<u8>>) -> (Vec<Vec<u8>>, bool) {
    let mut room = CMDLINE_MAX;
    let mut kept = Vec::new();
    for mut argument in cmdline {
        if argument.len() > room {
            argument.truncate(room);
            kept.push(argument);
            return (kept, true);
        }
        room -= argument.len();
        kept.push(argument);
    }
    (kept, false)
}

/// Reads descriptions from `/proc`, of so many processes and no more: it takes
/// about as long as ending them.
#[derive(Debug, Default)]
pub(super) struct Describer {
    left: usize,
}

impl Describer {
    /// Describes at most `limit` processes.
    pub(super) fn new(limit: usize) -> Describer {
        Describer { left: limit }
    }

    /// Raises the limit by so many.
    pub(super) fn allow(&mut self, more: usize) {
        self.left = self.left.saturating_add(more);
    }

    /// What `/proc` says of `id`; `None` when it is gone, cannot be read, or
    /// the limit is reached.
    pub(super) fn read(&mut self, proc: &Proc, id: ProcessId) -> Option<Description> {
        self.left = self.left.checked_sub(1)?;
        Description::read(proc, id).ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Pid, StartTime};

    #[test]
    fn a_process_is_described_by_proc() {
        let proc = Proc::open().unwrap();
        let own = proc.seen(Pid::own()).unwrap().unwrap().id;
        let own = Describer::new(1).read(&proc, own).unwrap();
        assert_eq!(own.uid, Some(rustix::process::getuid().as_raw()));
        assert_eq!(
            own.exe,
            std::env::current_exe()
                .unwrap()
                .into_os_string()
                .into_encoded_bytes()
        );
        assert!(!own.comm.is_empty() && !own.cmdline.is_empty());
    }

    #[test]
    fn another_process_with_its_pid_is_not_described_in_its_place() {
        let proc = Proc::open().unwrap();
        let own = proc.seen(Pid::own()).unwrap().unwrap().id;
        let other = ProcessId::new(own.pid, StartTime::from_ticks(own.start_time.ticks() + 1));
        let mut describer = Describer::new(2);
        assert_eq!(describer.read(&proc, other), None);
        assert!(describer.read(&proc, own).is_some());
    }

    #[test]
    fn no_more_are_read_than_was_allowed() {
        let proc = Proc::open().unwrap();
        let own = proc.seen(Pid::own()).unwrap().unwrap().id;
        let mut describer = Describer::new(0);
        assert_eq!(describer.read(&proc, own), None);
        describer.allow(1);
        assert!(describer.read(&proc, own).is_some());
        assert_eq!(describer.read(&proc, own), None);
    }

    #[test]
    fn a_long_command_line_is_cut_and_says_so() {
        let long = vec![b"a".to_vec(), vec![b'x'; CMDLINE_MAX], b"b".to_vec()];
        let (kept, truncated) = bounded(long);
        assert!(truncated);
        assert_eq!(
            (kept.len(), kept.iter().map(Vec::len).sum()),
            (2, CMDLINE_MAX)
        );
        let (kept, truncated) = bounded(vec![b"a".to_vec(), Vec::new()]);
        assert!(!truncated);
        assert_eq!(kept, [b"a".to_vec(), Vec::new()]);
    }
}
