//! Reasons for the refusals that hyper writes by itself.
//!
//! What is not HTTP never becomes a request that the router could answer: hyper
//! writes a status without a body, and hangs up. The daemon promises a line of
//! JSON with every error, so such an answer is replaced on its way out. It cannot
//! be mistaken: an error of the router's has a body.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::answer::Failed;
use crate::api::ErrorCode;

/// The end of a head.
const END: &[u8] = b"\r\n\r\n";
/// A head without a body is shorter than that.
const LONGEST: usize = 512;

/// A stream on which bare refusals get a body.
pub(super) struct WithReasons<S> {
    stream: S,
    /// What was taken and could not be written yet.
    pending: Vec<u8>,
}

impl<S> WithReasons<S> {
    pub(super) fn new(stream: S) -> WithReasons<S> {
        WithReasons {
            stream,
            pending: Vec::new(),
        }
    }
}

impl<S: AsyncWrite + Unpin> WithReasons<S> {
    fn poll_pending(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.pending.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.pending))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.pending.drain(..written);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WithReasons<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WithReasons<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_pending(cx))?;
        let Some(answer) = bufs.last().and_then(|last| with_reason(last)) else {
            return Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        };
        let before = bufs.len().saturating_sub(1);
        for buf in bufs.iter().take(before) {
            self.pending.extend_from_slice(buf);
        }
        self.pending.extend(answer);
        // Written when it is flushed, if not now.
        if let Poll::Ready(written) = self.poll_pending(cx) {
            written?;
        }
        Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pending(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pending(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The same bytes with a body, if they end with a refusal that has none.
fn with_reason(bytes: &[u8]) -> Option<Vec<u8>> {
    let head = bytes.strip_suffix(END)?;
    // Behind an answer that the client has not taken yet.
    let tail = head.len().saturating_sub(LONGEST);
    let start = head
        .get(tail..)?
        .windows(8)
        .rposition(|window| window.starts_with(b"HTTP/1."))?
        + tail;
    let (before, head) = head.split_at_checked(start)?;
    let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?;
    let status: StatusCode = status.parse().ok()?;
    let is_bare = lines.any(|line| line.eq_ignore_ascii_case("content-length: 0"));
    if !status.is_client_error() || !is_bare {
        return None;
    }
    let failed = match status {
        StatusCode::URI_TOO_LONG => Failed::new(ErrorCode::TooLarge, "the path is too long"),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Failed::new(
            ErrorCode::TooLarge,
            "the request has too many headers, or too long ones",
        ),
        _ => Failed::new(
            ErrorCode::BadRequest,
            "this is not a request of HTTP/1.1, or a header of it is malformed",
        ),
    };
    Some([before, &failed.on_the_wire(status)].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const BARE: &[u8] = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\
        content-length: 0\r\ndate: x\r\n\r\n";

    #[test]
    fn a_bare_refusal_gets_a_reason_and_keeps_its_status() {
        let reworded = with_reason(BARE).unwrap();
        let text = String::from_utf8(reworded).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}");
        assert!(head.contains(&format!("content-length: {}", body.len())));
        assert!(body.starts_with(r#"{"error":{"code":"bad_request""#));
        let bare = b"HTTP/1.0 431 Request Header Fields Too Large\r\nContent-Length: 0\r\n\r\n";
        let text = String::from_utf8(with_reason(bare).unwrap()).unwrap();
        assert!(text.starts_with("HTTP/1.1 431 ") && text.contains("too_large"));
    }

    #[test]
    fn every_other_answer_is_left_alone() {
        for other in [
            &b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"[..],
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 7\r\n\r\n",
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}",
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n",
            b"\r\n\r\n",
            b"",
        ] {
            assert_eq!(with_reason(other), None, "{other:?}");
        }
    }

    #[test]
    fn what_was_written_before_it_comes_before_it_through_the_narrowest_pipe() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (near, mut far) = tokio::io::duplex(1);
            let write = async {
                let mut stream = WithReasons::new(near);
                let both = [b"HTTP/1.1 200 OK\r\n\r\nbody", BARE].concat();
                stream.write_all(b"first ").await.unwrap();
                stream.write_all(&both).await.unwrap();
                stream.shutdown().await.unwrap();
            };
            let mut text = String::new();
            let ((), read) = tokio::join!(write, far.read_to_string(&mut text));
            read.unwrap();
            assert!(text.starts_with("first HTTP/1.1 200 OK\r\n\r\nbodyHTTP/1.1 400 "));
            assert!(text.ends_with("\"}}\n"), "{text}");
        });
    }
}
