//! What the daemon does, without the transport: sessions, queries and reaps on
//! behalf of callers, with everything that must outlive the daemon in its store.
//!
//! All methods block, most of them for well under a millisecond; the server
//! calls them from threads that may block.

mod attempt;
mod caller;
mod drain;
mod error;
mod events;
mod explain;
mod job;
mod metrics;
mod places;
mod queries;
mod reap_list;
mod reaps;
mod recover;
mod restricted;
mod retry;
mod sessions;
#[cfg(test)]
pub(crate) mod testing;
mod view;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

pub use caller::Caller;
pub use drain::Drain;
pub use error::ServiceError;
pub use events::{Heard, Subscriber};
pub use reaps::Outcome;
pub use recover::Recovered;

use crate::api;
use crate::process::{Cancel, Proc, ProcessId};
use crate::session::Tracking;
use crate::store::Store;

/// The daemon's state, shared by all its threads.
#[derive(Debug)]
pub struct Service {
    tracking: Arc<Mutex<Tracking>>,
    store: Mutex<Store>,
    proc: Proc,
    reaps: Mutex<reaps::Reaps>,
    events: events::Channel,
    metrics: metrics::Metrics,
    stopping: AtomicBool,
    /// Readable once the daemon ends.
    stop: Cancel,
    started: Instant,
}

impl Service {
    /// A service for `tracking`, whose sessions are those of `store` when
    /// [`Service::recover`] has run.
    pub fn new(mut tracking: Tracking, store: Store, proc: Proc) -> std::io::Result<Arc<Service>> {
        let events = events::Channel::default();
        tracking.listen(Box::new(events.listener()));
        Ok(Arc::new(Service {
            tracking: Arc::new(Mutex::new(tracking)),
            store: Mutex::new(store),
            proc,
            reaps: Mutex::default(),
            events,
            metrics: metrics::Metrics::new(),
            stopping: AtomicBool::new(false),
            stop: Cancel::new()?,
            started: Instant::now(),
        }))
    }

    /// How the daemon is.
    pub fn status(&self) -> Result<api::Status, ServiceError> {
        // Before the other lock, as everywhere.
        let reaps = lock(&self.reaps);
        let mut tracking = self.tracking();
        tracking.pump()?;
        let stats = tracking.lineage().stats();
        let (reaps_running, reaps_waiting) =
            (count(reaps.running.len()), count(reaps.waiting.len()));
        Ok(api::Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            source: tracking.source_kind(),
            uptime_s: self.started.elapsed().as_secs(),
            sessions: count(tracking.sessions().iter().count()),
            reaps_running,
            reaps_waiting,
            processes_live: count(stats.live),
            processes_dead: count(stats.dead),
            processes_evicted: stats.evicted,
            kernel: tracking.counters()?,
        })
    }

    /// The numbers of [`Service::status`] and of past reaps, as Prometheus reads them.
    pub fn metrics(&self) -> Result<String, ServiceError> {
        Ok(self.metrics.encode(&self.status()?))
    }

    /// Begins to end: no new requests, and the reaps under way are left as
    /// they are, to be resumed by the next daemon. Answers when they have stopped.
    pub fn shut_down(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.stop.cancel();
        self.events.end();
        let threads: Vec<_> = lock(&self.reaps)
            .running
            .values_mut()
            .filter_map(reaps::Running::cancel)
            .collect();
        for thread in threads {
            // A reap that panicked has nothing left to stop.
            let _ = thread.join();
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    fn tracking(&self) -> MutexGuard<'_, Tracking> {
        lock(&self.tracking)
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        lock(&self.store)
    }

    /// Whom a request means. That process is alive or a zombie.
    fn resolve(
        &self,
        caller: Caller,
        process: api::ProcessRef,
    ) -> Result<crate::process::Seen, ServiceError> {
        let (pid, exactly) = match process {
            api::ProcessRef::Caller => {
                let id = caller.process.ok_or(ServiceError::NoCaller)?;
                (id.pid, Some(id))
            }
            api::ProcessRef::Exact(id) => (id.pid, Some(id)),
            api::ProcessRef::Pid(pid) => (pid, None),
        };
        let seen = self.proc.seen(pid)?.ok_or(ServiceError::NoProcess(pid))?;
        match exactly {
            Some(given) if given != seen.id => Err(ServiceError::AnotherProcess {
                given,
                now: seen.id,
            }),
            _ => Ok(seen),
        }
    }

    /// The real uid of a process, read while it has its identity.
    fn uid_of(&self, id: ProcessId) -> Result<Option<u32>, ServiceError> {
        let uid = self.proc.uid(id.pid)?;
        Ok(self.proc.same(id)?.and(uid))
    }
}

/// A panic of another holder leaves the state as consistent as its last call did.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
