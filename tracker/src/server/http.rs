//! One connection: requests in, answers out, and how long each may take.

use std::pin::Pin;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_io_timeout::TimeoutStream;

use super::answer::Failed;
use super::refusal::WithReasons;
use crate::api::ErrorCode;

/// How long a request's head may take, and how long a connection may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take to read something of an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How large a request's head may be.
const MAX_HEAD: usize = 64 << 10;

/// Answers what one client asks, until it hangs up, or has its answer after
/// `stop` was ready.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
    router: Router,
    stop: impl Future<Output = ()>,
) {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIMEOUT));
    let stream = WithReasons::new(Box::pin(stream));
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        // `printf ... | nc -U` closes its half when it has said all.
        .half_close(true)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let ended = tokio::select! {
        ended = &mut connection => Some(ended),
        () = stop => None,
    };
    let ended = if let Some(ended) = ended {
        ended
    } else {
        Pin::new(&mut connection).graceful_shutdown();
        (&mut connection).await
    };
    let Err(error) = ended else { return };
    tracing::debug!("a connection ended: {error}");
    let parts = connection.into_parts();
    // An idle connection that ends is owed nothing.
    if parts.read_buf.is_empty() {
        return;
    }
    if let Some(failed) = last_words(&error) {
        let answer = failed.on_the_wire(failed.status());
        let mut stream = parts.io.into_inner();
        // Who does not want to hear it need not.
        let _ = stream.write_all(&answer).await;
        let _ = stream.shutdown().await;
    }
}

/// What to say of a head that hyper has said nothing of.
fn last_words(error: &hyper::Error) -> Option<Failed> {
    if error.is_timeout() {
        let why = "the request did not arrive in time";
        return Some(Failed::new(ErrorCode::Timeout, why));
    }
    let why = if error.is_incomplete_message() {
        "the request ended in the middle"
    } else if error.is_parse_version_h2() {
        "HTTP/2 is not spoken here, only HTTP/1.1"
    } else {
        return None;
    };
    Some(Failed::new(ErrorCode::BadRequest, why))
}

/// Says that there are too many clients, whatever this one asks.
pub(super) async fn turn_away(mut stream: impl AsyncWrite + Unpin) {
    let failed = Failed::new(
        ErrorCode::Unavailable,
        "too many connections, try again later",
    );
    // It fits in the socket's buffer; who does not want to hear it need not.
    let answer = failed.on_the_wire(failed.status());
    let _ = stream.write_all(&answer).await;
}
