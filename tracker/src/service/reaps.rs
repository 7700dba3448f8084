//! Requests to reap: recorded before the first signal, run on a thread of
//! their own to their end whoever goes away.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use super::caller::Caller;
use super::error::ServiceError;
use super::job::{Aim, DirAim, Ends, Job, SessionAim, check_grace, shown};
use super::places::not_theirs;
use super::retry::Waiting;
use super::sessions::find;
use super::{Service, lock};
use crate::api::{self, CloseSession};
use crate::lineage::SessionId;
use crate::process::{Cancel, FilePath, Place};
use crate::reap::{DirTarget, Protected, Report};
use crate::store::{NewReap, ReapRecord, StoreError};

/// How many reaps may run at once.
const MAX_RUNNING: usize = 64;
/// How many of one user may who may not do all.
const MAX_OF_UID: usize = 8;
/// How many may wait for another attempt, of one user who may not do all.
const MAX_WAITING_OF_UID: usize = 256;

/// The reaps that are not over.
#[derive(Debug, Default)]
pub(super) struct Reaps {
    pub(super) running: HashMap<String, Running>,
    pub(super) waiting: Waiting,
}

/// A reap that is under way.
#[derive(Debug)]
pub(super) struct Running {
    session: Option<SessionId>,
    uid: u32,
    cancel: Cancel,
    /// There is to be no further attempt.
    given_up: bool,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Makes it stop; answers what to wait for.
    pub(super) fn cancel(&mut self) -> Option<JoinHandle<()>> {
        self.cancel.cancel();
        self.thread.take()
    }
}

/// The outcome of a reap, when there is one. Of one that will be tried again,
/// the outcome of this attempt.
pub type Outcome = oneshot::Receiver<Result<Report, ServiceError>>;

impl Service {
    /// Ends what a session owns, and the session with it, unless something is
    /// left alive. That is tried again then.
    pub fn close_session(
        self: &Arc<Service>,
        caller: Caller,
        session: &str,
        request: &CloseSession,
    ) -> Result<Outcome, ServiceError> {
        let session = find(self.tracking().sessions(), caller, session)?.id;
        let CloseSession { grace_ms, dry_run } = *request;
        let aim = SessionAim {
            session,
            ends: Ends::Dead,
            process: None,
            exclude_root: false,
        };
        self.begin(Job::new(caller, Aim::Session(aim), grace_ms, dry_run)?)
    }

    /// Ends processes.
    pub fn reap(
        self: &Arc<Service>,
        caller: Caller,
        request: &api::ReapRequest,
    ) -> Result<Outcome, ServiceError> {
        check_grace(request.grace_ms)?;
        match &request.target {
            api::ReapTarget::Session { session } => {
                let aim = SessionAim {
                    session: find(self.tracking().sessions(), caller, session)?.id,
                    ends: Ends::Never,
                    process: None,
                    exclude_root: request.exclude_root,
                };
                let (grace_ms, dry_run) = (request.grace_ms, request.dry_run);
                self.begin(Job::new(caller, Aim::Session(aim), grace_ms, dry_run)?)
            }
            api::ReapTarget::Process { pid } => self.reap_process(caller, *pid, request),
            api::ReapTarget::Directory {
                path,
                live,
                open_files,
            } => {
                if request.exclude_root {
                    let why = "a directory has no root process that could be excluded";
                    return Err(ServiceError::BadField(why.to_owned()));
                }
                let aim = self.admit(caller, path, *live, *open_files)?;
                let (grace_ms, dry_run) = (request.grace_ms, request.dry_run);
                self.begin(Job::new(caller, Aim::Directory(aim), grace_ms, dry_run)?)
            }
        }
    }

    /// Ends a process and its descendants: whoever would be the members of a
    /// session that is opened for it now.
    fn reap_process(
        self: &Arc<Service>,
        caller: Caller,
        pid: api::ProcessRef,
        request: &api::ReapRequest,
    ) -> Result<Outcome, ServiceError> {
        let open = api::OpenSession {
            name: None,
            pid,
            keep: Vec::new(),
            workdir: None,
        };
        let session = self.open_unsaved(caller, &open)?;
        let aim = SessionAim {
            session: session.id,
            ends: Ends::Over,
            process: session.roots.first().copied().map(Into::into),
            exclude_root: request.exclude_root,
        };
        let job = Job::new(caller, Aim::Session(aim), request.grace_ms, request.dry_run);
        let begun = job.and_then(|job| self.begin(job));
        if begun.is_err() {
            self.forget(session.id)?;
        }
        begun
    }

    /// Whether a directory may be reaped as it is now. A first look tells that;
    /// what is refused leaves no trace.
    fn admit(
        &self,
        caller: Caller,
        path: &FilePath,
        live: bool,
        open_files: bool,
    ) -> Result<DirAim, ServiceError> {
        let mut request = self.find_place(caller, path)?;
        request.live = live;
        request.open_files = open_files;
        request.clients = caller.process.into_iter().collect();
        if let Place::Removed(removed) = &request.place {
            // Else a path that nobody is in could be any.
            request.recorded = self.store().knows_directory(&shown(&removed.path))?;
        }
        let protected = Protected::new(&self.proc, &request.clients)?;
        let tracking = Arc::clone(&self.tracking);
        let looked = DirTarget::new(&self.proc, tracking, &request, protected);
        let place = match looked {
            Ok(target) => target.place().clone(),
            Err(error) if caller.may_all || matches!(request.place, Place::Known(_)) => {
                return Err(error.into());
            }
            Err(_) => return Err(not_theirs(caller)),
        };
        let is_theirs = match &place {
            Place::Known(workdir) => caller.uid == workdir.owner_uid,
            Place::Removed(_) => false,
        };
        if !caller.may_all && !is_theirs {
            return Err(not_theirs(caller));
        }
        Ok(DirAim {
            place,
            live,
            open_files,
        })
    }

    /// Stops an attempt that is under way: it sends no signal after this, and its
    /// report comes soon. The session of one stays open if anybody of it is
    /// alive; a directory is tried again.
    pub fn cancel_reap(&self, caller: Caller, id: &str) -> Result<api::Reap, ServiceError> {
        let reap = self.one_reap(caller, id)?;
        if let Some(running) = lock(&self.reaps).running.get(id) {
            running.cancel.cancel();
        }
        Ok(reap)
    }

    /// Stops a reap for good: an attempt that is under way sends no further
    /// signal, and there is none after it.
    pub fn give_up_reap(&self, caller: Caller, id: &str) -> Result<api::Reap, ServiceError> {
        let reap = self.one_reap(caller, id)?;
        let mut reaps = lock(&self.reaps);
        if let Some(running) = reaps.running.get_mut(id) {
            running.given_up = true;
            running.cancel.cancel();
            return Ok(reap);
        }
        if reaps.waiting.remove(id).is_none() {
            return Ok(reap);
        }
        self.store().give_up_reap(id, "given up on request")?;
        drop(reaps);
        let session = reap.session.as_deref().and_then(|id| id.parse().ok());
        if let Some(session) = session {
            self.tracking()
                .set_state(session, crate::session::SessionState::Open);
        }
        self.one_reap(caller, id)
    }

    /// Ends a session and leaves its members alone.
    pub fn release_session(
        &self,
        caller: Caller,
        session: &str,
    ) -> Result<api::SessionInfo, ServiceError> {
        let shown = self.session(caller, session)?;
        let mut reaps = lock(&self.reaps);
        if let Some(reap) = reaps.of_session(shown.id) {
            return Err(busy(shown.id, reap));
        }
        let waiting = self.store().waiting_reaps()?;
        for waiting in waiting {
            if waiting.session.as_deref() == Some(&shown.id.to_string()) {
                self.store()
                    .give_up_reap(&waiting.id, "its session was released")?;
                reaps.waiting.remove(&waiting.id);
            }
        }
        self.keep_on(shown.id)?;
        let session = self.tracking().close(shown.id)?;
        self.store().remove_session(&session)?;
        Ok(shown)
    }

    /// Records a reap and starts it. A dry run changes nothing, so it is not
    /// recorded. Who asks again for what waits makes the next attempt come now.
    fn begin(self: &Arc<Service>, job: Job) -> Result<Outcome, ServiceError> {
        if self.is_stopping() {
            return Err(ServiceError::ShuttingDown);
        }
        let request = serde_json::to_string(&job)?;
        if job.dry_run {
            return self.start(&new_id()?, job, |_| Ok(()));
        }
        if let Some(id) = self.waiting_for(&job)? {
            let waiting = id.clone();
            return self.start(&id, job, move |service| {
                service.store().resume_reap(&waiting, &request)
            });
        }
        let new = NewReap {
            id: new_id()?,
            request,
            session: job.session(),
            directory: job.directory().or_else(|| self.directory_of(&job)),
            owner_uid: job.caller().uid,
        };
        let id = new.id.clone();
        self.start(&id, job, move |service| service.store().begin_reap(&new))
    }

    /// Where the session of a job works.
    fn directory_of(&self, job: &Job) -> Option<String> {
        let tracking = self.tracking();
        let session = tracking.sessions().get(job.session()?)?;
        session.workdir.as_ref().map(|workdir| shown(&workdir.path))
    }

    /// The reap that waits to do the same.
    fn waiting_for(&self, job: &Job) -> Result<Option<String>, ServiceError> {
        let waiting = self.store().waiting_reaps()?;
        let caller = job.caller();
        let session = job.session().map(|id| id.to_string());
        let mut own = 0;
        for record in waiting {
            if record.owner_uid != caller.uid {
                continue;
            }
            own += 1;
            let same = match &session {
                Some(_) => record.session == session,
                None => record.session.is_none() && record.directory == job.directory(),
            };
            if same {
                return Ok(Some(record.id));
            }
        }
        if !caller.may_all && own >= MAX_WAITING_OF_UID {
            let why = format!("{own} reaps of yours wait for another attempt; cancel some");
            return Err(ServiceError::TooMany(why));
        }
        Ok(None)
    }

    /// Goes on with a reap that waits, or that an earlier daemon began.
    pub(super) fn resume(self: &Arc<Service>, record: &ReapRecord) -> Result<(), ServiceError> {
        let job: Job = serde_json::from_str(&record.request)?;
        let gone = job
            .session()
            .is_some_and(|session| self.tracking().sessions().get(session).is_none());
        if gone {
            lock(&self.reaps).waiting.remove(&record.id);
            let why = "its session is gone; ask again";
            return Ok(self.store().give_up_reap(&record.id, why)?);
        }
        let (id, request) = (record.id.clone(), record.request.clone());
        // Nobody waits for the outcome; it is in the store.
        self.start(&record.id, job, move |service| {
            service.store().resume_reap(&id, &request)
        })
        .map(drop)
    }

    /// Starts a reap once `record` has written that it begins.
    fn start(
        self: &Arc<Service>,
        id: &str,
        job: Job,
        record: impl FnOnce(&Service) -> Result<(), StoreError>,
    ) -> Result<Outcome, ServiceError> {
        let cancel = Cancel::new()?;
        let (tell, outcome) = oneshot::channel();
        let mut reaps = lock(&self.reaps);
        reaps.check(id, &job)?;
        // While the lock is held, so that no two reaps of a session begin.
        record(self)?;
        self.mark_closing(&job);
        let entry = Running {
            session: job.session().filter(|_| !job.dry_run),
            uid: job.caller().uid,
            cancel: cancel.clone(),
            given_up: false,
            thread: None,
        };
        reaps.running.insert(id.to_owned(), entry);
        reaps.waiting.remove(id);
        let service = Arc::clone(self);
        let name = id.to_owned();
        let run = move || {
            let result = service.attempt(&name, &job, &cancel);
            // Whoever asked may be gone.
            let _ = tell.send(result);
        };
        let thread = std::thread::Builder::new()
            .name("reap".to_owned())
            .spawn(run);
        match thread {
            Ok(thread) => {
                if let Some(entry) = reaps.running.get_mut(id) {
                    entry.thread = Some(thread);
                }
                Ok(outcome)
            }
            Err(error) => {
                reaps.running.remove(id);
                drop(reaps);
                self.store().finish_reap(id, Err(&error.to_string()), &[])?;
                Err(ServiceError::Thread(error.to_string()))
            }
        }
    }
}

impl Reaps {
    /// The reap of a session that is under way.
    fn of_session(&self, session: SessionId) -> Option<&str> {
        let busy = |running: &Running| running.session == Some(session);
        let found = self.running.iter().find(|(_, running)| busy(running));
        found.map(|(id, _)| id.as_str())
    }

    /// Whether there is to be no further attempt.
    pub(super) fn is_given_up(&self, id: &str) -> bool {
        self.running.get(id).is_some_and(|running| running.given_up)
    }

    /// Whether another one may begin.
    fn check(&self, id: &str, job: &Job) -> Result<(), ServiceError> {
        if let Some(session) = job.session().filter(|_| !job.dry_run)
            && let Some(reap) = self.of_session(session)
        {
            return Err(busy(session, reap));
        }
        if self.running.contains_key(id) {
            return Err(ServiceError::Underway(id.to_owned()));
        }
        let caller = job.caller();
        let own = self
            .running
            .values()
            .filter(|other| other.uid == caller.uid)
            .count();
        if self.running.len() >= MAX_RUNNING || (!caller.may_all && own >= MAX_OF_UID) {
            let why = "too many reaps are under way, try again later";
            return Err(ServiceError::TooMany(why.to_owned()));
        }
        Ok(())
    }
}

fn busy(session: SessionId, reap: &str) -> ServiceError {
    ServiceError::Busy {
        session,
        reap: reap.to_owned(),
    }
}

fn new_id() -> Result<String, ServiceError> {
    let (one, two) = (SessionId::random()?, SessionId::random()?.to_string());
    Ok(format!("{one}{}", two.get(..4).unwrap_or_default()))
}
