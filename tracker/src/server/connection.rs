//! Connections: who is at the other end, how many there may be, and how long
//! each may take.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Extension;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio_io_timeout::TimeoutStream;

use crate::process::{Pid, Proc, peer_groups};
use crate::service::Caller;

/// How long a request's head may take, and how long a connection may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take to read something of an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
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
    let graceful = GracefulShutdown::new();
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
            tokio::spawn(turn_away(stream));
            continue;
        };
        let service = TowerToHyperService::new(router.clone().layer(Extension(caller)));
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(WRITE_TIMEOUT));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            // `printf ... | nc -U` closes its half when it has said all.
            .half_close(true)
            .max_buf_size(64 << 10)
            .serve_connection(TokioIo::new(Box::pin(stream)), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("a connection ended: {error}");
            }
            drop(place);
        });
    }
    // Whoever comes now is told at once that nobody listens.
    drop(listener);
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, graceful.shutdown()).await;
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

/// Says that there are too many, whatever was asked.
async fn turn_away(mut stream: UnixStream) {
    const BODY: &str =
        r#"{"error":{"code":"unavailable","message":"too many connections, try again later"}}"#;
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{BODY}",
        BODY.len()
    );
    // It fits in the socket's buffer; who does not want to hear it need not.
    let _ = stream.write_all(answer.as_bytes()).await;
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
