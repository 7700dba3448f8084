//! Reading a file that may not answer.

use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long nothing is asked after there was no answer. Where one process does
/// not answer, its thousand siblings do not either.
const REST: Duration = Duration::from_secs(1);
/// Reads that may hang at a time.
const THREADS: usize = 4;

/// Reads files on threads of its own. The kernel's read can only be
/// interrupted by a signal that kills, so who must not hang cannot read
/// himself. A thread that hangs ends its read with the process that it hangs on.
#[derive(Debug)]
pub(super) struct Patient {
    state: Mutex<State>,
    patience: Duration,
    rest: Duration,
}

#[derive(Debug)]
struct State {
    threads: Vec<Thread>,
    resting_until: Option<Instant>,
}

#[derive(Debug)]
struct Thread {
    jobs: Sender<Job>,
    busy: Arc<AtomicBool>,
}

struct Job {
    file: Box<dyn Read + Send>,
    answer: Sender<io::Result<Vec<u8>>>,
}

/// The one that this process needs.
static PATIENT: Patient = Patient::new(PATIENCE, REST);

/// All that is in `file`; `None` when it does not answer, or when something
/// else did not a moment ago.
pub(super) fn read_to_end(file: File) -> io::Result<Option<Vec<u8>>> {
    PATIENT.read_to_end(Box::new(file))
}

impl Patient {
    const fn new(patience: Duration, rest: Duration) -> Patient {
        Patient {
            state: Mutex::new(State {
                threads: Vec::new(),
                resting_until: None,
            }),
            patience,
            rest,
        }
    }

    fn read_to_end(&self, file: Box<dyn Read + Send>) -> io::Result<Option<Vec<u8>>> {
        let (answer, answers) = mpsc::channel();
        if !self.ask(Job { file, answer }) {
            return Ok(None);
        }
        if let Ok(answer) = answers.recv_timeout(self.patience) {
            return answer.map(Some);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.resting_until = Some(Instant::now() + self.rest);
        Ok(None)
    }

    /// Hands the job to a thread that is free; answers whether there is one.
    fn ask(&self, job: Job) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State {
            threads,
            resting_until,
        } = &mut *state;
        if resting_until.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        let is_free = |thread: &Thread| !thread.busy.load(Ordering::Acquire);
        let free = match threads.iter().position(is_free) {
            // Where there is no room for a thread, nothing is read.
            None if threads.len() < THREADS => {
                threads.extend(Thread::start());
                threads.last().filter(|last| is_free(last))
            }
            free => free.and_then(|at| threads.get(at)),
        };
        let Some(free) = free else {
            return false;
        };
        free.busy.store(true, Ordering::Release);
        free.jobs.send(job).is_ok()
    }
}

impl Thread {
    fn start() -> io::Result<Thread> {
        let (jobs, queue) = mpsc::channel();
        let busy = Arc::new(AtomicBool::new(false));
        let is_busy = Arc::clone(&busy);
        let thread = std::thread::Builder::new().name("read".to_owned());
        thread.spawn(move || serve(&queue, &is_busy))?;
        Ok(Thread { jobs, busy })
    }
}

fn serve(queue: &Receiver<Job>, busy: &AtomicBool) {
    for mut job in queue {
        let mut text = Vec::with_capacity(512);
        let answer = job.file.read_to_end(&mut text).map(|_| text);
        drop(job.file);
        busy.store(false, Ordering::Release);
        // Nobody waits any more for one that took too long.
        let _ = job.answer.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody has to wait for this long in a test.
    const LONG: Duration = Duration::from_secs(600);

    fn text(text: &'static str) -> Box<dyn Read + Send> {
        Box::new(text.as_bytes())
    }

    #[test]
    fn what_answers_is_read() {
        let patient = Patient::new(LONG, LONG);
        for _ in 0..10 {
            let answer = patient.read_to_end(text("some")).unwrap();
            assert_eq!(answer, Some(b"some".to_vec()));
        }
        assert_eq!(patient.state.lock().unwrap().threads.len(), 1);
    }

    #[test]
    fn what_does_not_answer_is_given_up_and_nothing_is_asked_for_a_while() {
        let patient = Patient::new(Duration::from_millis(20), LONG);
        let (hangs, _writer) = io::pipe().unwrap();
        assert_eq!(patient.read_to_end(Box::new(hangs)).unwrap(), None);
        assert_eq!(patient.read_to_end(text("some")).unwrap(), None);
        patient.state.lock().unwrap().resting_until = None;
        // Not with LONG patience: so it is another thread that answers.
        let answered = || patient.read_to_end(text("some")).unwrap().is_some();
        let end = Instant::now() + Duration::from_secs(60);
        while !answered() {
            assert!(Instant::now() < end);
            patient.state.lock().unwrap().resting_until = None;
        }
    }

    #[test]
    fn threads_that_hang_are_bounded_and_serve_again_when_they_do_not() {
        let patient = Patient::new(Duration::from_millis(5), Duration::ZERO);
        let mut writers = Vec::new();
        for _ in 0..THREADS + 2 {
            let (hangs, writer) = io::pipe().unwrap();
            assert_eq!(patient.read_to_end(Box::new(hangs)).unwrap(), None);
            writers.push(writer);
        }
        assert_eq!(patient.state.lock().unwrap().threads.len(), THREADS);
        drop(writers);
        let end = Instant::now() + Duration::from_secs(60);
        while patient.read_to_end(text("some")).unwrap().is_none() {
            assert!(Instant::now() < end);
        }
    }

    #[test]
    fn an_error_is_handed_on() {
        let directory = File::open("/").unwrap();
        assert!(read_to_end(directory).is_err());
    }
}
