//! The client of the sidecar. `embedded::Tracker` takes the same requests where
//! there is no daemon, but cannot tell what only one knows that has been there
//! all along.

pub mod blocking;
mod error;
mod events;
mod transport;

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

pub use crate::api::Streamed;
pub use error::ClientError;
pub use events::EventStream;

use crate::api;
use crate::reap::Report;

/// Where the daemon listens when nobody says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/tracker/tracker.sock";

/// The socket that is meant when none is named: `$TRACKER_SOCKET`, or [`DEFAULT_SOCKET`].
pub fn default_socket() -> PathBuf {
    std::env::var_os("TRACKER_SOCKET")
        .filter(|path| !path.is_empty())
        .map_or_else(|| PathBuf::from(DEFAULT_SOCKET), PathBuf::from)
}

/// A client. Every request is a connection of its own, so it is cheap to keep
/// and survives a restart of the daemon.
///
/// ```no_run
/// use tracker::{api, client::Client};
///
/// # async fn example() -> Result<(), tracker::client::ClientError> {
/// let client = Client::new(tracker::client::default_socket());
/// let open = api::OpenSession {
///     name: Some("job 7".to_owned()),
///     pid: api::ProcessRef::Caller,
///     keep: vec![],
///     workdir: None,
/// };
/// let session = client.open_session(&open).await?;
/// // ... start what may leave processes behind ...
/// let report = client.close_session(&session.id.to_string(), &api::CloseSession::default()).await?;
/// println!("{:?}", report.verdict);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
    timeout: Option<Duration>,
}

impl Client {
    /// A client of the daemon that listens at `socket`.
    pub fn new(socket: impl Into<PathBuf>) -> Client {
        Client {
            socket: socket.into(),
            timeout: None,
        }
    }

    /// The same, with a limit to how long each answer may take. A reap is
    /// answered when it is over. An event stream has to begin in time. Needs a
    /// runtime with time.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Client {
        Client {
            timeout: Some(timeout),
            ..self
        }
    }

    /// Where the daemon listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Opens a session for a process that is running.
    pub async fn open_session(
        &self,
        request: &api::OpenSession,
    ) -> Result<api::SessionInfo, ClientError> {
        self.post("/v1/sessions", request).await
    }

    /// The sessions that the caller may see, oldest first.
    pub async fn sessions(&self) -> Result<api::SessionList, ClientError> {
        self.get("/v1/sessions").await
    }

    /// One session, by id or name.
    pub async fn session(&self, session: &str) -> Result<api::SessionInfo, ClientError> {
        self.get(&format!("/v1/sessions/{}", encode(session))).await
    }

    /// Ends what a session owns, and the session; answers when it is over. A
    /// future that is dropped does not stop it.
    pub async fn close_session(
        &self,
        session: &str,
        request: &api::CloseSession,
    ) -> Result<Report, ClientError> {
        self.post(&format!("/v1/sessions/{}/close", encode(session)), request)
            .await
    }

    /// Ends processes; answers when it is over. A future that is dropped does
    /// not stop it.
    pub async fn reap(&self, request: &api::ReapRequest) -> Result<Report, ClientError> {
        self.post("/v1/reaps", request).await
    }

    /// The last reaps that the caller may see, newest first.
    pub async fn reaps(&self, query: &api::ReapsQuery) -> Result<api::ReapList, ClientError> {
        let session = query.session.map(|id| id.to_string());
        self.get(&with_query("/v1/reaps", &[("session", session.as_deref())]))
            .await
    }

    /// One reap, with its report when it is over.
    pub async fn one_reap(&self, id: &str) -> Result<api::Reap, ClientError> {
        self.get(&format!("/v1/reaps/{}", encode(id))).await
    }

    /// Stops a reap for good: no further signal, no further attempt.
    pub async fn give_up_reap(&self, id: &str) -> Result<api::Reap, ClientError> {
        self.delete(&format!("/v1/reaps/{}", encode(id))).await
    }

    /// Stops an attempt that is under way. A directory is tried again.
    pub async fn cancel_reap(&self, id: &str) -> Result<api::Reap, ClientError> {
        self.post(
            &format!("/v1/reaps/{}/cancel", encode(id)),
            &serde_json::json!({}),
        )
        .await
    }

    /// Ends a session, and leaves its members alone.
    pub async fn release_session(&self, session: &str) -> Result<api::SessionInfo, ClientError> {
        self.delete(&format!("/v1/sessions/{}", encode(session)))
            .await
    }

    /// Processes, each with who created it.
    pub async fn tree(&self, query: &api::TreeQuery) -> Result<api::Tree, ClientError> {
        self.get(&tree_path(query)).await
    }

    /// [`Client::tree`] as the daemon writes it: JSON.
    pub async fn tree_text(&self, query: &api::TreeQuery) -> Result<Bytes, ClientError> {
        self.get_text(&tree_path(query)).await
    }

    /// The creators of a process up to the root, dead ones too.
    pub async fn lineage(&self, process: api::ProcessRef) -> Result<api::Lineage, ClientError> {
        self.get(&format!("/v1/processes/{process}/lineage")).await
    }

    /// Who owns a process, why, and what a reap would do with it.
    pub async fn why(&self, process: api::ProcessRef) -> Result<api::Why, ClientError> {
        self.get(&format!("/v1/processes/{process}/why")).await
    }

    /// Spares a process and its descendants in every reap.
    pub async fn keep(&self, request: &api::Keep) -> Result<api::Process, ClientError> {
        self.post("/v1/keeps", request).await
    }

    /// How the daemon is.
    pub async fn status(&self) -> Result<api::Status, ClientError> {
        self.get("/v1/status").await
    }

    /// What happens to processes from now on.
    pub async fn events(&self, query: &api::EventsQuery) -> Result<EventStream, ClientError> {
        let path = with_query("/v1/events", &[("session", query.session.as_deref())]);
        Ok(EventStream::new(self.stream(&path).await?))
    }
}

fn tree_path(query: &api::TreeQuery) -> String {
    let parts = [
        ("session", query.session.as_deref()),
        ("pid", query.pid.as_deref()),
        ("all", query.all.then_some("true")),
    ];
    with_query("/v1/tree", &parts)
}

/// Whatever a name holds, it is one segment of a path.
fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn with_query(path: &str, parts: &[(&str, Option<&str>)]) -> String {
    let mut whole = path.to_owned();
    for (name, value) in parts {
        if let Some(value) = value {
            whole.push(if whole.contains('?') { '&' } else { '?' });
            whole.extend([name, "=", &encode(value)]);
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_change_the_path() {
        assert_eq!(encode("a/../b?c#d e"), "a%2F%2E%2E%2Fb%3Fc%23d%20e");
        assert_eq!(
            with_query(
                "/v1/tree",
                &[
                    ("session", Some("a&b")),
                    ("pid", None),
                    ("all", Some("true"))
                ]
            ),
            "/v1/tree?session=a%26b&all=true"
        );
    }
}
