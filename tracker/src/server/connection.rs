//! Connections to the Unix socket: who is at the other end, and how many there
//! may be.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Extension;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

use super::http;
use crate::process::{Pid, Proc, peer_groups};
use crate::service::Caller;

/// How long requests under way have when the daemon ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// How many connections one uid may have; they could keep others out.
const MAX_OF_UID: usize = 256;
/// How many those who may do all have.
const MAX_PRIVILEGED: usize = 2048;
/// How many there may be in all.
const MAX_TOTAL: usize = 4096;

/// Answers connections until `stop` is ready, and those under way after it.
pub(super) async fn accept(
    listener: UnixListener,
    router: axum::Router,
    proc: &Proc,
    group: Option<u32>,
    stop: impl Future<Output = ()>,
) {
    let (stopping, stopped) = watch::channel(());
    let places = Places::default();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, most likely. The connection stays in the
                // backlog, so without a pause this would be a busy loop.
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let caller = match identify(&stream, proc, group) {
            Ok(caller) => caller,
            Err(error) => {
                tracing::warn!("cannot tell who connected: {error}");
                continue;
            }
        };
        let Some(place) = places.take(caller) else {
            tokio::spawn(http::turn_away(stream));
            continue;
        };
        let router = router.clone().layer(Extension(caller));
        let mut stopped = stopped.clone();
        tokio::spawn(async move {
            let stop = async {
                // Also when nobody can stop it any more.
                let _ = stopped.changed().await;
            };
            http::serve(stream, router, stop).await;
            drop((place, stopped));
        });
    }
    // Whoever comes now is told at once that nobody listens.
    drop(listener);
    drop(stopped);
    let _ = stopping.send(());
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, stopping.closed()).await;
}

/// Who connected, as the kernel recorded it at that time.
fn identify(stream: &UnixStream, proc: &Proc, group: Option<u32>) -> io::Result<Caller> {
    let peer = stream.peer_cred()?;
    let in_group = match group {
        Some(group) => peer.gid() == group || peer_groups(stream)?.contains(&group),
        None => false,
    };
    let pid = peer.pid().and_then(|pid| Pid::new(i64::from(pid)));
    let seen = pid.and_then(|pid| proc.seen(pid).ok().flatten());
    Ok(Caller {
        uid: peer.uid(),
        process: seen.map(|seen| seen.id),
        may_all: peer.uid() == 0 || in_group,
    })
}

/// How many connections there are, by uid.
#[derive(Clone, Default)]
struct Places(Arc<Mutex<HashMap<u32, usize>>>);

/// One connection; it is over when this is dropped.
struct Place {
    places: Places,
    uid: u32,
}

impl Places {
    fn take(&self, caller: Caller) -> Option<Place> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = taken.values().sum();
        let of_uid = taken.get(&caller.uid).copied().unwrap_or(0);
        let limit = if caller.may_all {
            MAX_PRIVILEGED
        } else {
            MAX_OF_UID
        };
        if of_uid >= limit || total >= MAX_TOTAL {
            return None;
        }
        taken.insert(caller.uid, of_uid + 1);
        Some(Place {
            places: self.clone(),
            uid: caller.uid,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_cannot_take_all_places() {
        let caller = |uid, may_all| Caller {
            uid,
            process: None,
            may_all,
        };
        let places = Places::default();
        let mut held: Vec<_> = (0..MAX_OF_UID)
            .filter_map(|_| places.take(caller(7, false)))
            .collect();
        assert_eq!(held.len(), MAX_OF_UID);
        assert!(places.take(caller(7, false)).is_none());
        assert!(places.take(caller(8, false)).is_some());
        assert!(places.take(caller(0, true)).is_some());
        held.pop();
        assert!(places.take(caller(7, false)).is_some());
    }
}
