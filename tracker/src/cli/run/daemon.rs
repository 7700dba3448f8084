//! A session of the daemon's for the command, and what is done when the daemon
//! is not there to end it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;

use super::closing;
use crate::api::{self, ProcessRef};
use crate::client::{ClientError, blocking, default_socket};
use crate::lineage::SessionId;
use crate::process::{Cancel, Proc, ProcessId, Workdir, escape};
use crate::reap::{Options, Report, TargetEntry, Verdict};
use crate::session::{KeepRule, OpenSession, Root};
use crate::source::Standby;
use crate::standalone::{ReapTarget, Standalone};

/// How long the daemon may take to open a session. Then the command is tracked
/// without it.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// A session of the daemon's.
#[derive(Clone, Debug)]
pub(super) struct DaemonSession(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: SessionId,
    request: Request,
    standby: Standby,
    /// Who ends the session when the daemon does not.
    substitute: Mutex<Option<Substitute>>,
}

/// What a session is opened with.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) name: String,
    pub(super) root: ProcessId,
    pub(super) keep: Vec<KeepRule>,
    pub(super) workdir: Option<Workdir>,
}

/// This process, as the tracker of the session.
#[derive(Clone, Debug)]
struct Substitute {
    tracker: Standalone,
    session: SessionId,
    /// Why it is needed.
    reason: String,
}

impl DaemonSession {
    /// Opens one, if there is a daemon that takes it: its probe runs already,
    /// and it knows who created this command.
    pub(super) fn open(request: Request, standby: Standby) -> Option<DaemonSession> {
        let opened = standby.begin().map_err(anyhow::Error::from).and_then(|()| {
            let client = blocking::Client::new(default_socket())?.with_timeout(OPEN_TIMEOUT);
            Ok(client.open_session(&api::OpenSession {
                name: Some(request.name.clone()),
                pid: ProcessRef::Exact(request.root),
                keep: request.keep.iter().map(ToString::to_string).collect(),
                workdir: request
                    .workdir
                    .as_ref()
                    .map(|workdir| workdir.path.as_path().into()),
            })?)
        });
        match opened {
            Ok(session) => Some(DaemonSession(Arc::new(Inner {
                id: session.id,
                request,
                standby,
                substitute: Mutex::new(None),
            }))),
            Err(error) => {
                tracing::info!(%error, "the daemon does not track this command");
                standby.end();
                None
            }
        }
    }

    pub(super) fn id(&self) -> SessionId {
        self.0.id
    }

    /// Whether a process belongs to the session, or to one inside it. The
    /// daemon is not asked: it may be stopped, and a signal waits for this.
    pub(super) fn is_member(&self, id: ProcessId) -> Result<bool> {
        Ok(self.0.standby.is_below(&Proc::open()?, id)?)
    }

    /// Ends what the session owns. Blocks until the verdict, or until `cancel`.
    pub(super) fn reap(&self, options: &Options, cancel: &Cancel) -> Result<Report> {
        let mut substitute = self
            .0
            .substitute
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(substitute) = &*substitute {
            return self.reap_alone(substitute, options, cancel);
        }
        match closing::close(self.0.id, options, cancel)? {
            Ok(report) => Ok(report),
            Err(error) => {
                let substitute = substitute.insert(self.take_over(&error)?);
                self.reap_alone(substitute, options, cancel)
            }
        }
    }

    fn take_over(&self, error: &ClientError) -> Result<Substitute> {
        tracing::info!(%error, "the daemon does not end the session");
        let Request {
            name, root, keep, ..
        } = self.0.request.clone();
        let tracker = Standalone::take_over(self.0.standby.clone(), root)?;
        let session = tracker.open_session(OpenSession {
            name,
            root: Root::Fresh(root),
            owner_uid: rustix::process::getuid().as_raw(),
            keep,
            workdir: None,
        })?;
        Ok(Substitute {
            tracker,
            session,
            reason: format!("tracker run ended the session itself, without the daemon: {error}"),
        })
    }

    fn reap_alone(
        &self,
        substitute: &Substitute,
        options: &Options,
        cancel: &Cancel,
    ) -> Result<Report> {
        let target = ReapTarget::Session(substitute.session);
        let mut report = substitute.tracker.reap(&target, options, cancel)?;
        // The one that the command knows.
        report.target = TargetEntry::Session {
            id: self.0.id,
            name: escape(self.0.request.name.as_bytes()),
        };
        report.reasons.push(substitute.reason.clone());
        if let Some(workdir) = &self.0.request.workdir {
            // Whose they are only the daemon knows.
            let path = escape(workdir.path.as_os_str().as_encoded_bytes());
            report.reasons.push(format!(
                "who else works in {path} was left alone, for the daemon knows whose they are"
            ));
            if report.verdict == Verdict::Complete {
                report.verdict = Verdict::Incomplete;
            }
        }
        Ok(report)
    }
}
