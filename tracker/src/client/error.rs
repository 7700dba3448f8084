//! Why a request to the daemon failed.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::api::ErrorDetail;

/// A request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error(
        "no daemon listens on {} ({source}); start one with 'tracker serve', or name its socket in TRACKER_SOCKET",
        socket.display()
    )]
    NoDaemon {
        /// Where one was looked for.
        socket: PathBuf,
        /// What the kernel answered.
        source: io::Error,
    },
    /// Somebody listens and does not answer.
    #[error("the daemon on {} has not answered within {} s; is it stopped?", socket.display(), waited.as_secs())]
    NoAnswer {
        /// Where it listens.
        socket: PathBuf,
        /// How long it had.
        waited: Duration,
    },
    /// The daemon said no.
    #[error("{}", .0.message)]
    Refused(ErrorDetail),
    /// The connection broke.
    #[error("the connection to the daemon broke: {0}")]
    Broken(#[from] hyper::Error),
    /// The answer is not what this client understands.
    #[error("the daemon's answer is not understood ({0}); is it of another version?")]
    NotUnderstood(String),
    /// The request could not be made.
    #[error("cannot make the request: {0}")]
    Request(String),
}

impl ClientError {
    /// Whether there is no daemon to talk to.
    pub fn is_no_daemon(&self) -> bool {
        matches!(self, ClientError::NoDaemon { .. })
    }
}
