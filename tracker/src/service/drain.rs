//! The thread that takes in what happens while nobody asks.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::Service;
use crate::process::give_back;

/// Without news, look so often: the probe does not wake anybody for a few records.
const IDLE: Duration = Duration::from_secs(1);
/// Two looks are at least so far apart. A look at every record would cost more
/// than the records.
const PAUSE: Duration = Duration::from_millis(50);
/// How often a source is asked that cannot tell of news, while there are sessions.
const SNAPSHOTS: Duration = Duration::from_millis(100);

/// How often memory that is not used is given back.
const TRIM: Duration = Duration::from_secs(60);

/// The running thread.
#[derive(Debug)]
pub struct Drain(JoinHandle<()>);

impl Drain {
    /// Starts it. It ends with [`Service::shut_down`].
    pub fn start(service: &Arc<Service>) -> std::io::Result<Drain> {
        let service = Arc::clone(service);
        let news = match service.tracking().news() {
            Some(news) => Some(news.try_clone_to_owned()?),
            None => None,
        };
        let run = move || {
            let mut trimmed = None;
            while !service.is_stopping() {
                match &news {
                    Some(news) => wait(&[news, &service.stop], IDLE),
                    None => wait(&[&service.stop], service.snapshot_interval()),
                }
                if let Err(error) = service.tracking().pump() {
                    tracing::error!("cannot take in what happened: {error}");
                }
                service.retry();
                if trimmed.is_none_or(|trimmed: Instant| trimmed.elapsed() > TRIM) {
                    give_back();
                    trimmed = Some(Instant::now());
                }
                wait(&[&service.stop], PAUSE);
            }
        };
        std::thread::Builder::new()
            .name("drain".to_owned())
            .spawn(run)
            .map(Drain)
    }

    /// Waits until it has ended.
    pub fn join(self) {
        // A panic was reported by the thread itself.
        let _ = self.0.join();
    }
}

impl Service {
    fn snapshot_interval(&self) -> Duration {
        match self.tracking().sessions().iter().next() {
            Some(_) => SNAPSHOTS,
            None => IDLE,
        }
    }
}

/// Waits until one of `fds` is readable, at most for `limit`.
fn wait(fds: &[&dyn std::os::fd::AsFd], limit: Duration) {
    let mut fds: Vec<_> = fds
        .iter()
        .map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN))
        .collect();
    let limit = Timespec::try_from(limit).ok();
    // Only an interruption by a signal can make it fail; that is a short wait.
    let _ = rustix::event::poll(&mut fds, limit.as_ref());
}
