//! What a daemon does first: take over from the one before it.

use std::sync::Arc;
use std::time::Instant;

use super::error::ServiceError;
use super::{Service, lock};

/// What was taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Sessions.
    pub sessions: usize,
    /// Reaps that go on.
    pub reaps: usize,
    /// Reaps that wait for another attempt.
    pub waiting: usize,
}

impl Service {
    /// Takes over the sessions of this boot, then goes on with the reaps that
    /// were cut short. Nothing of another boot is in the store.
    pub fn recover(self: &Arc<Service>) -> Result<Recovered, ServiceError> {
        let (sessions, kept, reaps, waiting) = {
            let store = self.store();
            let (sessions, kept) = (store.sessions()?, store.kept()?);
            (
                sessions,
                kept,
                store.unfinished_reaps()?,
                store.waiting_reaps()?,
            )
        };
        let recovered = Recovered {
            sessions: sessions.len(),
            reaps: reaps.len(),
            waiting: waiting.len(),
        };
        // Oldest first: a session inside another was opened after it.
        self.tracking().restore(&sessions)?;
        for id in kept {
            // Whoever is gone, or left its session, needs no sparing.
            let _ = self.tracking().keep(id);
        }
        // How long they were to wait is over, or not worth to be told.
        let now = Instant::now();
        lock(&self.reaps)
            .waiting
            .extend(waiting.into_iter().map(|reap| (reap.id, now)));
        for reap in reaps {
            if let Err(error) = self.resume(&reap) {
                tracing::error!("cannot go on with reap {}: {error}", reap.id);
                self.store().give_up_reap(&reap.id, &error.to_string())?;
            }
        }
        Ok(recovered)
    }
}
