//! What the report says of a process besides its identity.

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

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
    ///
    /// This can take for ever: the command line is read from the memory of the
    /// process, which may lie on a file system that does not answer.
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

/// Reads descriptions from `/proc` on a thread of its own, so that a process
/// which makes that read hang (arguments on a FUSE mount, a held `mmap_lock`)
/// delays its end by a moment, and no longer.
#[derive(Debug, Default)]
pub(super) struct Describer {
    reader: Option<Reader>,
    known: HashMap<ProcessId, Description>,
    left: usize,
    stuck: bool,
}

#[derive(Debug)]
struct Reader {
    ask: Sender<ProcessId>,
    answers: Receiver<(ProcessId, Option<Description>)>,
}

/// Without an answer for so long, the reader counts as stuck.
const PATIENCE: Duration = Duration::from_millis(100);
/// The longest that all answers to one question may take.
const PATIENCE_IN_ALL: Duration = Duration::from_millis(500);

impl Describer {
    /// Describes at most `limit` processes.
    pub(super) fn new(limit: usize) -> Describer {
        Describer {
            reader: None,
            known: HashMap::new(),
            left: limit,
            stuck: false,
        }
    }

    /// How many more it would describe.
    pub(super) fn left(&self) -> usize {
        if self.stuck { 0 } else { self.left }
    }

    /// Raises the limit by so many.
    pub(super) fn allow(&mut self, more: usize) {
        self.left = self.left.saturating_add(more);
    }

    /// Reads what `/proc` says of these, or of the first of them.
    pub(super) fn read(&mut self, ids: &[ProcessId]) {
        let ids = ids.get(..self.left()).unwrap_or(ids);
        if ids.is_empty() {
            return;
        }
        self.left -= ids.len();
        let Some(reader) = self.reader() else {
            self.stuck = true;
            return;
        };
        let mut due = 0;
        for id in ids {
            if reader.ask.send(*id).is_ok() {
                due += 1;
            }
        }
        let end = Instant::now() + PATIENCE_IN_ALL;
        let mut found = Vec::with_capacity(due);
        let mut stuck = due < ids.len();
        for _ in 0..due {
            let patience = PATIENCE.min(end.saturating_duration_since(Instant::now()));
            match reader.answers.recv_timeout(patience) {
                Ok(answer) => found.push(answer),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    stuck = true;
                    break;
                }
            }
        }
        self.stuck = stuck;
        self.known.extend(
            found
                .into_iter()
                .filter_map(|(id, found)| Some((id, found?))),
        );
    }

    /// What was read of `id`.
    pub(super) fn take(&mut self, id: ProcessId) -> Option<Description> {
        self.known.remove(&id)
    }

    fn reader(&mut self) -> Option<&Reader> {
        if self.reader.is_none() {
            self.reader = Reader::of_proc();
        }
        self.reader.as_ref()
    }
}

impl Reader {
    fn of_proc() -> Option<Reader> {
        let proc = Proc::open().ok()?;
        Reader::start(move |id| Description::read(&proc, id).ok().flatten())
    }

    /// The thread ends when its questions do. One that hangs ends with the
    /// process that it hangs on.
    fn start(read: impl Fn(ProcessId) -> Option<Description> + Send + 'static) -> Option<Reader> {
        let (ask, questions) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let run = move || {
            for id in questions {
                if answer.send((id, read(id))).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("describe".to_owned());
        thread.spawn(run).ok()?;
        Some(Reader { ask, answers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Pid, StartTime};

    #[test]
    fn a_process_is_described_by_proc() {
        let own = Proc::open().unwrap().seen(Pid::own()).unwrap().unwrap().id;
        let mut describer = Describer::new(1);
        describer.read(&[own]);
        let own = describer.take(own).unwrap();
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
        let own = Proc::open().unwrap().seen(Pid::own()).unwrap().unwrap().id;
        let other = ProcessId::new(own.pid, StartTime::from_ticks(own.start_time.ticks() + 1));
        let mut describer = Describer::new(2);
        describer.read(&[other, own]);
        assert_eq!(describer.take(other), None);
        assert!(describer.take(own).is_some());
    }

    #[test]
    fn no_more_are_read_than_was_allowed() {
        let own = Proc::open().unwrap().seen(Pid::own()).unwrap().unwrap().id;
        let mut describer = Describer::new(0);
        describer.read(&[own]);
        assert_eq!(describer.take(own), None);
        describer.allow(1);
        describer.read(&[own, own]);
        assert!(describer.take(own).is_some());
        assert_eq!(describer.left(), 0);
    }

    #[test]
    fn a_process_that_makes_the_read_hang_is_not_waited_for() {
        let id = |pid| ProcessId::new(Pid::new(pid).unwrap(), StartTime::from_ticks(1));
        let (release, hang) = mpsc::channel::<()>();
        let mut describer = Describer::new(10);
        describer.reader = Reader::start(move |asked| {
            if asked == id(2) {
                let _ = hang.recv();
            }
            Some(Description::default())
        });
        describer.read(&[id(1), id(2), id(3)]);
        assert!(describer.take(id(1)).is_some());
        assert!(describer.take(id(2)).is_none() && describer.take(id(3)).is_none());
        // Nor is anybody after it.
        assert_eq!(describer.left(), 0);
        describer.read(&[id(4)]);
        assert!(describer.take(id(4)).is_none());
        drop(release);
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
