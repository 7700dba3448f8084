//! Questions to file systems that may never answer.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use crate::process::Proc;

/// Runs what may hang on a thread of its own, and waits for it for a moment.
#[derive(Debug)]
pub(super) struct Worker {
    patience: Duration,
    jobs: Option<Sender<Job>>,
    hung: u32,
}

type Job = Box<dyn FnOnce(&Proc) + Send>;

/// So many threads may hang at once. They end when their file system answers,
/// or with this process.
const HUNG: u32 = 8;

impl Worker {
    /// Waits for so long for each answer.
    pub(super) fn new(patience: Duration) -> Worker {
        Worker {
            patience,
            jobs: None,
            hung: 0,
        }
    }

    /// What `job` answers; `None` when it does not in time, or too many hang already.
    pub(super) fn ask<T: Send + 'static>(
        &mut self,
        job: impl FnOnce(&Proc) -> T + Send + 'static,
    ) -> Option<T> {
        if self.jobs.is_none() && self.hung < HUNG {
            self.jobs = start();
        }
        let jobs = self.jobs.as_ref()?;
        let (tell, answer) = mpsc::channel();
        let job = Box::new(move |proc: &Proc| {
            // Nobody listens any more when it took too long.
            let _ = tell.send(job(proc));
        });
        let answer = match jobs.send(job) {
            Ok(()) => answer.recv_timeout(self.patience),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        };
        if answer.is_err() {
            self.jobs = None;
            self.hung += 1;
        }
        answer.ok()
    }
}

/// The thread ends when nobody can ask it any more.
fn start() -> Option<Sender<Job>> {
    let proc = Proc::open().ok()?;
    let (jobs, questions) = mpsc::channel::<Job>();
    std::thread::Builder::new()
        .name("ask".to_owned())
        .spawn(move || questions.into_iter().for_each(|job| job(&proc)))
        .ok()?;
    Some(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back() {
        let mut worker = Worker::new(Duration::from_secs(600));
        assert_eq!(worker.ask(|_| 1), Some(1));
        assert_eq!(
            worker.ask(|proc| proc.pids().unwrap().is_empty()),
            Some(false)
        );
    }

    #[test]
    fn who_hangs_is_given_up_and_the_next_question_is_answered() {
        let (_held, never) = mpsc::channel::<()>();
        let mut worker = Worker::new(Duration::from_millis(20));
        assert_eq!(worker.ask(move |_| never.recv().is_err()), None);
        worker.patience = Duration::from_secs(600);
        assert_eq!(worker.ask(|_| 1), Some(1));
    }

    #[test]
    fn when_too_many_hang_nobody_is_asked_any_more() {
        let mut hanging = Vec::new();
        let mut worker = Worker::new(Duration::from_millis(1));
        for _ in 0..HUNG {
            let (hold, never) = mpsc::channel::<()>();
            hanging.push(hold);
            assert_eq!(worker.ask(move |_| never.recv().is_err()), None);
        }
        worker.patience = Duration::from_secs(600);
        assert_eq!(worker.ask(|_| 1), None);
    }
}
