//! The client for programs without an async runtime.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;

use super::{ClientError, EventStream, Streamed};
use crate::api;
use crate::reap::Report;

/// A [`super::Client`] whose methods block.
#[derive(Debug)]
pub struct Client {
    client: super::Client,
    runtime: tokio::runtime::Runtime,
}

impl Client {
    /// A client of the daemon that listens at `socket`.
    pub fn new(socket: impl Into<PathBuf>) -> Result<Client, ClientError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| ClientError::Request(error.to_string()))?;
        Ok(Client {
            client: super::Client::new(socket),
            runtime,
        })
    }

    /// See [`super::Client::with_timeout`].
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Client {
        Client {
            client: self.client.with_timeout(timeout),
            ..self
        }
    }

    /// Where the daemon listens.
    pub fn socket(&self) -> &Path {
        self.client.socket()
    }

    /// See [`super::Client::open_session`].
    pub fn open_session(
        &self,
        request: &api::OpenSession,
    ) -> Result<api::SessionInfo, ClientError> {
        self.runtime.block_on(self.client.open_session(request))
    }

    /// See [`super::Client::sessions`].
    pub fn sessions(&self) -> Result<api::SessionList, ClientError> {
        self.runtime.block_on(self.client.sessions())
    }

    /// See [`super::Client::session`].
    pub fn session(&self, session: &str) -> Result<api::SessionInfo, ClientError> {
        self.runtime.block_on(self.client.session(session))
    }

    /// See [`super::Client::close_session`].
    pub fn close_session(
        &self,
        session: &str,
        request: &api::CloseSession,
    ) -> Result<Report, ClientError> {
        self.runtime
            .block_on(self.client.close_session(session, request))
    }

    /// See [`super::Client::reap`].
    pub fn reap(&self, request: &api::ReapRequest) -> Result<Report, ClientError> {
        self.runtime.block_on(self.client.reap(request))
    }

    /// See [`super::Client::reaps`].
    pub fn reaps(&self, query: &api::ReapsQuery) -> Result<api::ReapList, ClientError> {
        self.runtime.block_on(self.client.reaps(query))
    }

    /// See [`super::Client::one_reap`].
    pub fn one_reap(&self, id: &str) -> Result<api::Reap, ClientError> {
        self.runtime.block_on(self.client.one_reap(id))
    }

    /// See [`super::Client::give_up_reap`].
    pub fn give_up_reap(&self, id: &str) -> Result<api::Reap, ClientError> {
        self.runtime.block_on(self.client.give_up_reap(id))
    }

    /// See [`super::Client::cancel_reap`].
    pub fn cancel_reap(&self, id: &str) -> Result<api::Reap, ClientError> {
        self.runtime.block_on(self.client.cancel_reap(id))
    }

    /// See [`super::Client::release_session`].
    pub fn release_session(&self, session: &str) -> Result<api::SessionInfo, ClientError> {
        self.runtime.block_on(self.client.release_session(session))
    }

    /// See [`super::Client::tree`].
    pub fn tree(&self, query: &api::TreeQuery) -> Result<api::Tree, ClientError> {
        self.runtime.block_on(self.client.tree(query))
    }

    /// See [`super::Client::tree_text`].
    pub fn tree_text(&self, query: &api::TreeQuery) -> Result<Bytes, ClientError> {
        self.runtime.block_on(self.client.tree_text(query))
    }

    /// See [`super::Client::lineage`].
    pub fn lineage(&self, process: api::ProcessRef) -> Result<api::Lineage, ClientError> {
        self.runtime.block_on(self.client.lineage(process))
    }

    /// See [`super::Client::why`].
    pub fn why(&self, process: api::ProcessRef) -> Result<api::Why, ClientError> {
        self.runtime.block_on(self.client.why(process))
    }

    /// See [`super::Client::keep`].
    pub fn keep(&self, request: &api::Keep) -> Result<api::Process, ClientError> {
        self.runtime.block_on(self.client.keep(request))
    }

    /// See [`super::Client::status`].
    pub fn status(&self) -> Result<api::Status, ClientError> {
        self.runtime.block_on(self.client.status())
    }

    /// See [`super::Client::events`].
    pub fn events(&self, query: &api::EventsQuery) -> Result<Events<'_>, ClientError> {
        let stream = self.runtime.block_on(self.client.events(query))?;
        Ok(Events {
            stream,
            runtime: &self.runtime,
        })
    }
}

/// An [`EventStream`] as an iterator.
#[derive(Debug)]
pub struct Events<'a> {
    stream: EventStream,
    runtime: &'a tokio::runtime::Runtime,
}

impl Iterator for Events<'_> {
    type Item = Result<Streamed, ClientError>;

    fn next(&mut self) -> Option<Result<Streamed, ClientError>> {
        self.runtime.block_on(self.stream.next()).transpose()
    }
}
