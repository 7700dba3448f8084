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
use crate::api::{self, CloseSession};
use crate::lineage::SessionId;
use crate::process::{Cancel, Proc, ProcessId};
use crate::reap::{Options, Protected, Report, SessionTarget, Verdict, reap};
use crate::session::{Session, SessionState};
use crate::store::{NewReap, ReapRecord};

/// How many reaps may run at once.
const MAX_RUNNING: usize = 64;
/// How many of one user may who may not do all.
const MAX_OF_UID: usize = 8;

/// What to reap and how; stored, so that it can be resumed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    session: SessionId,
    ends: Ends,
    /// The process that was asked for, when the session was only opened for
    /// this reap.
    process: Option<api::ProcessKey>,
    grace_ms: u64,
    dry_run: bool,
    exclude_root: bool,
    uid: u32,
    may_all: bool,
    client: Option<api::ProcessKey>,
}

/// When the session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ends {
    /// Not by this reap.
    Never,
    /// When nothing of it is known to be alive.
    Dead,
    /// When the reap is over, whoever is alive then.
    Over,
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
        request: &CloseSession,
    ) -> Result<Outcome, ServiceError> {
        let session = find(self.tracking().sessions(), caller, session)?.id;
        let CloseSession { grace_ms, dry_run } = *request;
        self.begin(job(caller, session, Ends::Dead, grace_ms, dry_run)?)
    }

    /// Ends processes.
    pub fn reap(
        self: &Arc<Service>,
        caller: Caller,
        request: &api::ReapRequest,
    ) -> Result<Outcome, ServiceError> {
        let api::ReapRequest {
            target,
            grace_ms,
            dry_run,
            exclude_root,
        } = request;
        let session = match target {
            api::ReapTarget::Session { session } => {
                find(self.tracking().sessions(), caller, session)?.id
            }
            api::ReapTarget::Process { pid } => {
                return self.reap_process(caller, *pid, *grace_ms, *dry_run, *exclude_root);
            }
        };
        let job = job(caller, session, Ends::Never, *grace_ms, *dry_run)?;
        self.begin(Job {
            exclude_root: *exclude_root,
            ..job
        })
    }

    /// Ends a process and its descendants: whoever would be the members of a
    /// session that is opened for it now.
    fn reap_process(
        self: &Arc<Service>,
        caller: Caller,
        pid: api::ProcessRef,
        grace_ms: u64,
        dry_run: bool,
        exclude_root: bool,
    ) -> Result<Outcome, ServiceError> {
        check_grace(grace_ms)?;
        let open = api::OpenSession {
            name: None,
            pid,
            keep: Vec::new(),
        };
        let session = self.open_unsaved(caller, &open)?;
        let process = session.roots.first().copied().map(Into::into);
        let job = job(caller, session.id, Ends::Over, grace_ms, dry_run)?;
        let begun = self.begin(Job {
            process,
            exclude_root,
            ..job
        });
        if begun.is_err() {
            self.forget(session.id)?;
        }
        begun
    }

    /// Stops a reap that is under way: no signal is sent after this. Its report
    /// comes soon, and its session stays open if anybody of it is alive.
    pub fn cancel_reap(&self, caller: Caller, id: &str) -> Result<api::Reap, ServiceError> {
        let reap = self.one_reap(caller, id)?;
        if let Some(running) = lock(&self.running).get(id) {
            running.cancel.cancel();
        }
        Ok(reap)
    }

    /// Ends a session and leaves its members alone.
    pub fn release_session(
        &self,
        caller: Caller,
        session: &str,
    ) -> Result<api::SessionInfo, ServiceError> {
        let shown = self.session(caller, session)?;
        let running = lock(&self.running);
        if let Some((reap, _)) = running
            .iter()
            .find(|(_, other)| other.session == Some(shown.id))
        {
            return Err(ServiceError::Busy {
                session: shown.id,
                reap: reap.clone(),
            });
        }
        let session = self.tracking().close(shown.id)?;
        self.store().remove_session(&session)?;
        Ok(shown)
    }

    /// Records a reap and starts it. A dry run changes nothing, so it is not recorded.
    fn begin(self: &Arc<Service>, job: Job) -> Result<Outcome, ServiceError> {
        if self.is_stopping() {
            return Err(ServiceError::ShuttingDown);
        }
        let id = format!(
            "{}{}",
            SessionId::random()?,
            &SessionId::random()?.to_string()[..4]
        );
        let new = NewReap {
            id: id.clone(),
            request: serde_json::to_string(&job)?,
            session: Some(job.session),
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
        if self.tracking().sessions().get(job.session).is_none() {
            let error = "the daemon was restarted meanwhile; ask again";
            return Ok(self.store().finish_reap(&record.id, Err(error), &[])?);
        }
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
        if job.ends != Ends::Never && !job.dry_run {
            self.tracking()
                .set_state(job.session, SessionState::Closing);
        }
        let entry = Running {
            session: (!job.dry_run).then_some(job.session),
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
        let target = SessionTarget::new(Arc::clone(&self.tracking), job.session, protected)?;
        let excluded = if job.exclude_root {
            self.roots(job.session)
        } else {
            HashSet::new()
        };
        let mut target = Restricted::new(target, &proc, caller, excluded, job.process);
        Ok(reap(&mut target, &proc, &options, cancel))
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
        self.tracking().set_state(job.session, SessionState::Open);
        if self.is_stopping() && !job.dry_run {
            // The record stays as it is, for the next daemon.
            return Err(ServiceError::ShuttingDown);
        }
        let is_dead = |report: &Report| {
            // What was cancelled leaves somebody alive who was skipped.
            let nobody_left = report.counts.skipped == 0;
            nobody_left && matches!(report.verdict, Verdict::Complete | Verdict::Incomplete)
        };
        let ends = match job.ends {
            Ends::Never => false,
            Ends::Dead => !job.dry_run && result.as_ref().is_ok_and(is_dead),
            Ends::Over => true,
        };
        let closed = if ends {
            self.forget(job.session)?
        } else {
            Vec::new()
        };
        if job.dry_run {
            return result;
        }
        let text = match &result {
            Ok(report) => {
                self.metrics.reaped(report);
                Ok(serde_json::to_string(report)?)
            }
            Err(error) => Err(error.to_string()),
        };
        let outcome = text.as_deref().map_err(String::as_str);
        self.store().finish_reap(id, outcome, &closed)?;
        result
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

fn job(
    caller: Caller,
    session: SessionId,
    ends: Ends,
    grace_ms: u64,
    dry_run: bool,
) -> Result<Job, ServiceError> {
    check_grace(grace_ms)?;
    Ok(Job {
        session,
        ends,
        process: None,
        grace_ms,
        dry_run,
        exclude_root: false,
        uid: caller.uid,
        may_all: caller.may_all,
        client: caller.process.map(Into::into),
    })
}

fn check_grace(grace_ms: u64) -> Result<(), ServiceError> {
    if grace_ms > api::MAX_GRACE_MS {
        let why = format!("grace_ms is at most {} (a day)", api::MAX_GRACE_MS);
        return Err(ServiceError::BadField(why));
    }
    Ok(())
}

fn check_running(
    running: &std::collections::HashMap<String, Running>,
    job: &Job,
) -> Result<(), ServiceError> {
    if !job.dry_run {
        let session = job.session;
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
