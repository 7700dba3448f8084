//! Reaps: recorded before the first signal, run on a thread of their own to
//! their end whoever goes away, and recorded again with their outcome.

use std::collections::HashSet;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::caller::Caller;
use super::error::ServiceError;
use super::restricted::Restricted;
use super::sessions::find;
use super::{Service, lock};
use crate::api;
use crate::lineage::SessionId;
use crate::process::{Cancel, Proc, ProcessId};
use crate::reap::{Options, Protected, Report, SessionTarget, Verdict, reap};
use crate::session::{Session, SessionState};
use crate::store::{NewReap, ReapRecord};

/// How many reaps may run at once.
const MAX_RUNNING: usize = 64;
/// How many of one user may who may not do all.
const MAX_OF_UID: usize = 8;
/// How many the list shows.
const LISTED: u32 = 200;

/// What to reap and how; stored, so that it can be resumed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    target: JobTarget,
    grace_ms: u64,
    dry_run: bool,
    exclude_root: bool,
    uid: u32,
    may_all: bool,
    client: Option<api::ProcessKey>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum JobTarget {
    /// The session ends with the reap.
    Close { session: SessionId },
    /// The session goes on.
    Session { session: SessionId },
}

impl JobTarget {
    fn session(self) -> SessionId {
        match self {
            JobTarget::Close { session } | JobTarget::Session { session } => session,
        }
    }
}

/// A reap that is under way.
#[derive(Debug)]
pub(super) struct Running {
    session: Option<SessionId>,
    uid: u32,
    cancel: Cancel,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Makes it stop; answers what to wait for.
    pub(super) fn cancel(&mut self) -> Option<JoinHandle<()>> {
        self.cancel.cancel();
        self.thread.take()
    }
}

/// The outcome of a reap, when there is one.
pub type Outcome = oneshot::Receiver<Result<Report, ServiceError>>;

impl Service {
    /// Ends what a session owns, and the session with it, unless something is
    /// left alive.
    pub fn close_session(
        self: &Arc<Service>,
        caller: Caller,
        session: &str,
        request: &api::CloseSession,
    ) -> Result<Outcome, ServiceError> {
        let session = find(self.tracking().sessions(), caller, session)?.id;
        let target = JobTarget::Close { session };
        self.begin(self.job(caller, target, request.grace_ms, request.dry_run, false)?)
    }

    /// Ends processes.
    pub fn reap(
        self: &Arc<Service>,
        caller: Caller,
        request: &api::ReapRequest,
    ) -> Result<Outcome, ServiceError> {
        let target = match &request.target {
            api::ReapTarget::Session { session } => JobTarget::Session {
                session: find(self.tracking().sessions(), caller, session)?.id,
            },
        };
        let (grace_ms, dry_run) = (request.grace_ms, request.dry_run);
        self.begin(self.job(caller, target, grace_ms, dry_run, request.exclude_root)?)
    }

    /// The last reaps.
    pub fn reaps(
        &self,
        caller: Caller,
        query: &api::ReapsQuery,
    ) -> Result<api::ReapList, ServiceError> {
        let session = query.session.map(|id| id.to_string());
        let owner = (!caller.may_all).then_some(caller.uid);
        let records = self.store().reaps(session.as_deref(), owner, LISTED)?;
        let shown = records.into_iter().map(|record| show(record, false));
        Ok(api::ReapList {
            reaps: shown.collect::<Result<_, _>>()?,
        })
    }

    /// One reap, with its report when it is over.
    pub fn one_reap(&self, caller: Caller, id: &str) -> Result<api::Reap, ServiceError> {
        let record = self
            .store()
            .reap(id)?
            .filter(|record| caller.may(record.owner_uid));
        show(
            record.ok_or_else(|| ServiceError::NoReap(id.to_owned()))?,
            true,
        )
    }

    fn job(
        &self,
        caller: Caller,
        target: JobTarget,
        grace_ms: u64,
        dry_run: bool,
        exclude_root: bool,
    ) -> Result<Job, ServiceError> {
        if self.is_stopping() {
            return Err(ServiceError::ShuttingDown);
        }
        if grace_ms > api::MAX_GRACE_MS {
            let why = format!("grace_ms is at most {} (a day)", api::MAX_GRACE_MS);
            return Err(ServiceError::BadField(why));
        }
        Ok(Job {
            target,
            grace_ms,
            dry_run,
            exclude_root,
            uid: caller.uid,
            may_all: caller.may_all,
            client: caller.process.map(Into::into),
        })
    }

    /// Records a reap and starts it. A dry run changes nothing, so it is not recorded.
    fn begin(self: &Arc<Service>, job: Job) -> Result<Outcome, ServiceError> {
        let id = format!(
            "{}{}",
            SessionId::random()?,
            &SessionId::random()?.to_string()[..4]
        );
        let new = NewReap {
            id: id.clone(),
            request: serde_json::to_string(&job)?,
            session: Some(job.target.session()),
            owner_uid: job.uid,
        };
        let record = !job.dry_run;
        self.start(&id, job, move |service| {
            if record {
                service.store().begin_reap(&new)
            } else {
                Ok(())
            }
        })
    }

    /// Starts a reap that an earlier daemon began.
    pub(super) fn resume(self: &Arc<Service>, record: &ReapRecord) -> Result<(), ServiceError> {
        let job: Job = serde_json::from_str(&record.request)?;
        let id = record.id.clone();
        // Nobody waits for the outcome; it is in the store.
        self.start(&record.id, job, move |service| {
            service.store().resume_reap(&id)
        })
        .map(drop)
    }

    fn start(
        self: &Arc<Service>,
        id: &str,
        job: Job,
        record: impl FnOnce(&Service) -> Result<(), crate::store::StoreError>,
    ) -> Result<Outcome, ServiceError> {
        let cancel = Cancel::new()?;
        let (tell, outcome) = oneshot::channel();
        let mut running = lock(&self.running);
        check_running(&running, &job)?;
        // While the lock is held, so that no two reaps of a session begin.
        record(self)?;
        if let JobTarget::Close { session } = job.target
            && !job.dry_run
        {
            self.tracking().set_state(session, SessionState::Closing);
        }
        let entry = Running {
            session: Some(job.target.session()).filter(|_| !job.dry_run),
            uid: job.uid,
            cancel: cancel.clone(),
            thread: None,
        };
        running.insert(id.to_owned(), entry);
        let service = Arc::clone(self);
        let name = id.to_owned();
        let run = move || {
            let result = service.execute(&name, &job, &cancel);
            let result = service.conclude(&name, &job, result);
            lock(&service.running).remove(&name);
            // Whoever asked may be gone.
            let _ = tell.send(result);
        };
        let thread = std::thread::Builder::new()
            .name("reap".to_owned())
            .spawn(run);
        match thread {
            Ok(thread) => {
                if let Some(entry) = running.get_mut(id) {
                    entry.thread = Some(thread);
                }
                Ok(outcome)
            }
            Err(error) => {
                running.remove(id);
                drop(running);
                self.store().finish_reap(id, Err(&error.to_string()), &[])?;
                Err(ServiceError::Thread(error.to_string()))
            }
        }
    }

    fn execute(&self, id: &str, job: &Job, cancel: &Cancel) -> Result<Report, ServiceError> {
        let proc = Proc::open()?;
        let caller = Caller {
            uid: job.uid,
            process: job.client.map(Into::into),
            may_all: job.may_all,
        };
        let options = Options {
            grace: Duration::from_millis(job.grace_ms),
            dry_run: job.dry_run,
            client: caller.process.into_iter().collect(),
            reap_id: Some(id.to_owned()),
            ..Options::default()
        };
        let protected = Protected::new(&proc, &options.client)?;
        match job.target {
            JobTarget::Close { session } | JobTarget::Session { session } => {
                let target = SessionTarget::new(Arc::clone(&self.tracking), session, protected)?;
                let excluded = if job.exclude_root {
                    self.roots(session)
                } else {
                    HashSet::new()
                };
                let mut target = Restricted::new(target, &proc, caller, excluded);
                Ok(reap(&mut target, &proc, &options, cancel))
            }
        }
    }

    fn roots(&self, session: SessionId) -> HashSet<ProcessId> {
        let tracking = self.tracking();
        let session = tracking.sessions().get(session);
        session
            .map(|session| session.roots.iter().copied().collect())
            .unwrap_or_default()
    }

    /// Records the outcome. A session whose members are dead, as far as is
    /// known, is over, and so are those inside it: they were reaped with it.
    fn conclude(
        &self,
        id: &str,
        job: &Job,
        result: Result<Report, ServiceError>,
    ) -> Result<Report, ServiceError> {
        if job.dry_run {
            return result;
        }
        if let JobTarget::Close { session } = job.target {
            self.tracking().set_state(session, SessionState::Open);
        }
        if self.is_stopping() {
            // The record stays as it is, for the next daemon.
            return Err(ServiceError::ShuttingDown);
        }
        let report = match result {
            Ok(report) => report,
            Err(error) => {
                self.store().finish_reap(id, Err(&error.to_string()), &[])?;
                return Err(error);
            }
        };
        self.metrics.reaped(&report);
        let over = matches!(report.verdict, Verdict::Complete | Verdict::Incomplete);
        let closed = match job.target {
            JobTarget::Close { session } if over => self.forget(session)?,
            _ => Vec::new(),
        };
        self.store()
            .finish_reap(id, Ok(&serde_json::to_string(&report)?), &closed)?;
        Ok(report)
    }

    /// Ends a session and those inside it, the innermost first.
    fn forget(&self, session: SessionId) -> Result<Vec<Session>, ServiceError> {
        let mut tracking = self.tracking();
        let mut family = tracking.sessions().family(session);
        family.reverse();
        Ok(family
            .into_iter()
            .map(|id| tracking.close(id))
            .collect::<Result<_, _>>()?)
    }
}

fn check_running(
    running: &std::collections::HashMap<String, Running>,
    job: &Job,
) -> Result<(), ServiceError> {
    if let Some(session) = Some(job.target.session()).filter(|_| !job.dry_run) {
        let busy = running
            .iter()
            .find(|(_, other)| other.session == Some(session));
        if let Some((reap, _)) = busy {
            return Err(ServiceError::Busy {
                session,
                reap: reap.clone(),
            });
        }
    }
    let own = running
        .values()
        .filter(|other| other.uid == job.uid)
        .count();
    if running.len() >= MAX_RUNNING || (!job.may_all && own >= MAX_OF_UID) {
        return Err(ServiceError::TooMany(
            "too many reaps are under way, try again later".to_owned(),
        ));
    }
    Ok(())
}

fn show(record: ReapRecord, with_report: bool) -> Result<api::Reap, ServiceError> {
    let report = record.report.filter(|_| with_report);
    Ok(api::Reap {
        id: record.id,
        state: record.state,
        session: record.session,
        owner_uid: record.owner_uid,
        attempts: record.attempts,
        requested_ms: record.requested_ms,
        finished_ms: record.finished_ms,
        report: report.as_deref().map(serde_json::from_str).transpose()?,
        error: record.error,
    })
}
