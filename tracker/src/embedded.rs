//! tracker inside the calling process, without a daemon.

use std::sync::Arc;

use crate::api::{self, ErrorCode, Streamed};
use crate::lineage::Limits;
use crate::process::{Pid, Proc};
use crate::reap::Report;
use crate::service::{Caller, Drain, Heard, Outcome, Service, ServiceError, Subscriber};
use crate::session::Tracking;
use crate::source::{self, OpenError, PassedOver, Purpose, SourceChoice, SourceKind};
use crate::store::{self, Store};

/// Tracks all processes of the host from its creation on, and ends what its
/// sessions own. It takes the requests and gives the answers of
/// [`client::Client`](crate::client::Client), but what it knows ends with it:
/// whose sessions are to outlive a program asks the sidecar.
///
/// It asks in the name of this process. Root may do all; anybody else may open
/// sessions for processes of their own. This process and its ancestors are
/// never ended, and no session can be opened for them.
///
/// The methods need a tokio runtime, whose threads for what blocks they use. A
/// future that is dropped stops nothing.
///
/// ```no_run
/// use std::process::Command;
/// use tracker::api::{CloseSession, OpenSession};
/// use tracker::embedded::Tracker;
/// use tracker::source::SourceChoice;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let tracker = Tracker::open(SourceChoice::Auto)?;
/// let mut job = Command::new("sh").args(["-c", "(setsid sleep 600 &); make test"]).spawn()?;
/// let open = OpenSession {
///     name: Some("job 7".to_owned()),
///     pid: job.id().to_string().parse()?,
///     keep: vec![],
///     workdir: None,
/// };
/// let session = tracker.open_session(&open).await?.id.to_string();
/// let status = job.wait()?;
/// let report = tracker.close_session(&session, &CloseSession::default()).await?;
/// println!("{status}; {:?}", report.verdict);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Tracker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    service: Arc<Service>,
    drain: Option<Drain>,
    caller: Caller,
    source: SourceKind,
    passed_over: Vec<PassedOver>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.service.shut_down();
        if let Some(drain) = self.drain.take() {
            drain.join();
        }
    }
}

impl Tracker {
    /// Begins to track. Reads all of `/proc` and may load the kernel probe,
    /// which takes a moment.
    pub fn open(choice: SourceChoice) -> Result<Tracker, TrackerError> {
        let opened = source::open(choice, Purpose::Host)?;
        let source = opened.source.kind();
        let proc = Proc::open().map_err(ServiceError::from)?;
        let own = proc.seen(Pid::own()).map_err(ServiceError::from)?;
        let uid = rustix::process::geteuid();
        let tracking = Tracking::new(
            opened.source,
            Proc::open().map_err(ServiceError::from)?,
            Limits::default(),
        );
        let store = Store::in_memory(store::Limits::default()).map_err(ServiceError::from)?;
        let service = Service::new(tracking, store, proc).map_err(ServiceError::from)?;
        let drain = Drain::start(&service).map_err(ServiceError::from)?;
        Ok(Tracker(Arc::new(Inner {
            service,
            drain: Some(drain),
            caller: Caller {
                uid: uid.as_raw(),
                process: own.map(|seen| seen.id),
                may_all: uid.is_root(),
            },
            source,
            passed_over: opened.passed_over,
        })))
    }

    /// The source that was taken.
    pub fn source(&self) -> SourceKind {
        self.0.source
    }

    /// The better sources that were not taken, and why.
    pub fn passed_over(&self) -> &[PassedOver] {
        &self.0.passed_over
    }

    /// Opens a session for a process that is running.
    pub async fn open_session(
        &self,
        request: &api::OpenSession,
    ) -> Result<api::SessionInfo, TrackerError> {
        let request = request.clone();
        self.ask(move |service, caller| service.open_session(caller, &request))
            .await
    }

    /// The open sessions, oldest first.
    pub async fn sessions(&self) -> Result<api::SessionList, TrackerError> {
        self.ask(|service, caller| service.sessions(caller)).await
    }

    /// One session, by id or name.
    pub async fn session(&self, session: &str) -> Result<api::SessionInfo, TrackerError> {
        let session = session.to_owned();
        self.ask(move |service, caller| service.session(caller, &session))
            .await
    }

    /// Ends what a session owns, and the session; answers when it is over.
    pub async fn close_session(
        &self,
        session: &str,
        request: &api::CloseSession,
    ) -> Result<Report, TrackerError> {
        let (session, request) = (session.to_owned(), request.clone());
        self.outcome(move |service, caller| service.close_session(caller, &session, &request))
            .await
    }

    /// Ends a session, and leaves its members alone.
    pub async fn release_session(&self, session: &str) -> Result<api::SessionInfo, TrackerError> {
        let session = session.to_owned();
        self.ask(move |service, caller| service.release_session(caller, &session))
            .await
    }

    /// Ends processes; answers when it is over.
    pub async fn reap(&self, request: &api::ReapRequest) -> Result<Report, TrackerError> {
        let request = request.clone();
        self.outcome(move |service, caller| service.reap(caller, &request))
            .await
    }

    /// The last reaps, newest first.
    pub async fn reaps(&self, query: &api::ReapsQuery) -> Result<api::ReapList, TrackerError> {
        let query = query.clone();
        self.ask(move |service, caller| service.reaps(caller, &query))
            .await
    }

    /// One reap, with its report when it is over.
    pub async fn one_reap(&self, id: &str) -> Result<api::Reap, TrackerError> {
        let id = id.to_owned();
        self.ask(move |service, caller| service.one_reap(caller, &id))
            .await
    }

    /// Stops a reap for good: no further signal, no further attempt.
    pub async fn give_up_reap(&self, id: &str) -> Result<api::Reap, TrackerError> {
        let id = id.to_owned();
        self.ask(move |service, caller| service.give_up_reap(caller, &id))
            .await
    }

    /// Stops an attempt that is under way. A directory is tried again.
    pub async fn cancel_reap(&self, id: &str) -> Result<api::Reap, TrackerError> {
        let id = id.to_owned();
        self.ask(move |service, caller| service.cancel_reap(caller, &id))
            .await
    }

    /// Processes, each with who created it.
    pub async fn tree(&self, query: &api::TreeQuery) -> Result<api::Tree, TrackerError> {
        let query = query.clone();
        self.ask(move |service, caller| service.tree(caller, &query))
            .await
    }

    /// The creators of a process up to the root, dead ones too.
    pub async fn lineage(&self, process: api::ProcessRef) -> Result<api::Lineage, TrackerError> {
        let process = process.to_string();
        self.ask(move |service, caller| service.lineage(caller, &process))
            .await
    }

    /// Who owns a process, why, and what a reap would do with it.
    pub async fn why(&self, process: api::ProcessRef) -> Result<api::Why, TrackerError> {
        let process = process.to_string();
        self.ask(move |service, caller| service.why(caller, &process))
            .await
    }

    /// Spares a process and its descendants in every reap.
    pub async fn keep(&self, request: &api::Keep) -> Result<api::Process, TrackerError> {
        let request = request.clone();
        self.ask(move |service, caller| service.keep(caller, &request))
            .await
    }

    /// How the tracking is.
    pub async fn status(&self) -> Result<api::Status, TrackerError> {
        self.ask(|service, _| service.status()).await
    }

    /// What happens to processes from now on.
    pub async fn events(&self, query: &api::EventsQuery) -> Result<EventStream, TrackerError> {
        let query = query.clone();
        let subscriber = self
            .ask(move |service, caller| service.subscribe(caller, &query))
            .await?;
        Ok(EventStream(subscriber))
    }

    /// Runs what may block where it may.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<Service>, Caller) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, TrackerError> {
        let inner = Arc::clone(&self.0);
        let answer = tokio::task::spawn_blocking(move || work(&inner.service, inner.caller)).await;
        Ok(answer.unwrap_or_else(|error| Err(ServiceError::Thread(error.to_string())))?)
    }

    async fn outcome(
        &self,
        begin: impl FnOnce(&Arc<Service>, Caller) -> Result<Outcome, ServiceError> + Send + 'static,
    ) -> Result<Report, TrackerError> {
        let outcome = self.ask(begin).await?.await;
        let ended = |_| ServiceError::Thread("the reap ended without an outcome".to_owned());
        Ok(outcome.map_err(ended)??)
    }
}

/// What happens to processes, until it is dropped or the tracker is.
#[derive(Debug)]
pub struct EventStream(Subscriber);

impl EventStream {
    /// The next one; `None` when the tracker is gone.
    pub async fn next(&mut self) -> Result<Option<Streamed>, TrackerError> {
        Ok(self.0.next().await.map(|heard| match heard {
            Heard::Event(event) => Streamed::Event(Box::new((*event).clone())),
            Heard::Missed(count) => Streamed::Missed(count),
        }))
    }
}

/// A request failed.
#[derive(Debug, thiserror::Error)]
pub enum TrackerError {
    /// No source could be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What was asked for cannot be done.
    #[error(transparent)]
    Request(#[from] ServiceError),
}

impl TrackerError {
    /// What kind of thing went wrong, in the words of the API.
    pub fn code(&self) -> ErrorCode {
        match self {
            TrackerError::Open(_) => ErrorCode::Unavailable,
            TrackerError::Request(error) => error.code(),
        }
    }
}
