//! What a daemon does first: take over from the one before it.

use std::sync::Arc;

use super::Service;
use super::error::ServiceError;

/// What was taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Sessions.
    pub sessions: usize,
    /// Reaps that go on.
    pub reaps: usize,
}

impl Service {
    /// Takes over the sessions of this boot, then goes on with the reaps that
    /// were cut short. Nothing of another boot is in the store.
    pub fn recover(self: &Arc<Service>) -> Result<Recovered, ServiceError> {
        let (sessions, kept, reaps) = {
            let store = self.store();
            (store.sessions()?, store.kept()?, store.unfinished_reaps()?)
        };
        let recovered = Recovered {
            sessions: sessions.len(),
            reaps: reaps.len(),
        };
        // Oldest first: a session inside another was opened after it.
        self.tracking().restore(&sessions)?;
        for id in kept {
            // Whoever is gone, or left its session, needs no sparing.
            let _ = self.tracking().keep(id);
        }
        for reap in reaps {
            if let Err(error) = self.resume(&reap) {
                tracing::error!("cannot go on with reap {}: {error}", reap.id);
                self.store()
                    .finish_reap(&reap.id, Err(&error.to_string()), &[])?;
            }
        }
        Ok(recovered)
    }
}
