//! How a reap is to be done, and how far it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use crate::process::ProcessId;

/// How a reap is to be done.
#[derive(Clone, Debug)]
pub struct Options {
    /// From SIGTERM to SIGKILL; zero goes straight to SIGKILL.
    pub grace: Duration,
    /// How long to wait for deaths after SIGKILL.
    pub settle: Duration,
    /// Only plan: nobody is signalled.
    pub dry_run: bool,
    /// Who asked. They and their ancestors are protected, as tracker itself is.
    pub client: Vec<ProcessId>,
    /// The reap's name in the report; `None` makes one up.
    pub reap_id: Option<String>,
    /// Where the reap shows how far it is.
    pub progress: Progress,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            grace: Duration::from_secs(5),
            settle: Duration::from_secs(5),
            dry_run: false,
            client: Vec::new(),
            reap_id: None,
            progress: Progress::default(),
        }
    }
}

/// How far a reap is; written by its thread, read by any other.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    phase: AtomicU8,
    alive: AtomicUsize,
    dead: AtomicUsize,
}

/// What a reap is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Finding out who is to be ended.
    Plan,
    /// SIGTERM was sent.
    Grace,
    /// SIGKILL was sent.
    Kill,
    /// The report is ready.
    Over,
}

impl Progress {
    /// The phase.
    pub fn phase(&self) -> Phase {
        match self.0.phase.load(Ordering::Relaxed) {
            0 => Phase::Plan,
            1 => Phase::Grace,
            2 => Phase::Kill,
            _ => Phase::Over,
        }
    }

    /// How many are to be ended and are not known to be dead.
    pub fn alive(&self) -> usize {
        self.0.alive.load(Ordering::Relaxed)
    }

    /// How many were found alive and are dead now.
    pub fn dead(&self) -> usize {
        self.0.dead.load(Ordering::Relaxed)
    }

    pub(super) fn enter(&self, phase: Phase) {
        let number = match phase {
            Phase::Plan => 0,
            Phase::Grace => 1,
            Phase::Kill => 2,
            Phase::Over => 3,
        };
        self.0.phase.store(number, Ordering::Relaxed);
    }

    pub(super) fn count(&self, alive: usize, dead: usize) {
        self.0.alive.store(alive, Ordering::Relaxed);
        self.0.dead.store(dead, Ordering::Relaxed);
    }
}
