//! One attempt of a reap: what is done, and what is recorded of it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::ServiceError;
use super::job::{Aim, DirAim, Ends, Job, SessionAim};
use super::restricted::Restricted;
use super::retry::{self, Attempt};
use super::{Service, lock};
use crate::lineage::SessionId;
use crate::process::{Cancel, Place, Proc, ProcessId, Workdir};
use crate::reap::{
    DirRequest, DirTarget, Options, Protected, Report, SessionTarget, Verdict, continued, followed,
    reap, summary,
};
use crate::session::{Session, SessionState};

/// What is swept out of a directory when its session is over has what is left
/// of the grace, and at least this part of it: it is sent SIGTERM only then.
const SWEEP_SHARE: u32 = 4;

impl Service {
    /// Does it, and records the outcome.
    pub(super) fn attempt(
        &self,
        id: &str,
        job: &Job,
        cancel: &Cancel,
    ) -> Result<Report, ServiceError> {
        let result = self.execute(id, job, cancel);
        let given_up = lock(&self.reaps).is_given_up(id);
        let (result, again) = self.conclude(id, job, result, given_up);
        let mut reaps = lock(&self.reaps);
        reaps.running.remove(id);
        if let Some(pause) = again {
            reaps.waiting.insert(id.to_owned(), Instant::now() + pause);
        }
        drop(reaps);
        result
    }

    fn execute(&self, id: &str, job: &Job, cancel: &Cancel) -> Attempt {
        let mut unfinished = false;
        let result = Proc::open().map_err(ServiceError::from).and_then(|proc| {
            let run = Run {
                service: self,
                proc: &proc,
                job,
                options: Options {
                    grace: job.grace(),
                    dry_run: job.dry_run,
                    client: job.caller().process.into_iter().collect(),
                    reap_id: Some(id.to_owned()),
                    ..Options::default()
                },
                cancel,
            };
            match &job.aim {
                Aim::Session(aim) => run.session(aim, &mut unfinished),
                Aim::Directory(aim) => run.directory(aim),
            }
        });
        Attempt {
            result,
            unfinished,
            cancelled: cancel.is_cancelled(),
        }
    }

    /// Records the outcome; answers with how long to wait before another
    /// attempt, if there is to be one. A session whose members are dead, as far
    /// as is known, is over, and so are those inside it: they were reaped with it.
    fn conclude(
        &self,
        id: &str,
        job: &Job,
        attempt: Attempt,
        given_up: bool,
    ) -> (Result<Report, ServiceError>, Option<Duration>) {
        if self.is_stopping() && !job.dry_run {
            self.mark_open(job);
            // The record stays as it is, for the next daemon.
            return (Err(ServiceError::ShuttingDown), None);
        }
        if let Ok(report) = &attempt.result
            && !job.dry_run
        {
            // Of this attempt alone: those before it have been counted.
            self.metrics.reaped(report);
        }
        let (attempts, attempt) = self.with_those_before(id, job, attempt);
        let again = retry::pause(job, &attempt, attempts).filter(|_| !given_up);
        if again.is_none() {
            self.mark_open(job);
        }
        let recorded = self.record(id, job, &attempt, again);
        let result = recorded.and(attempt.result);
        tell(id, job, &result);
        match (result, again) {
            // What could not be recorded is not over: the next attempt records it.
            (Err(error @ ServiceError::Store(_)), None) if job.directory().is_some() => {
                (Err(error), Some(retry::LONGEST_PAUSE))
            }
            (result, again) => (result, again),
        }
    }

    /// The attempt as the last of several, and how many those are.
    fn with_those_before(&self, id: &str, job: &Job, attempt: Attempt) -> (u32, Attempt) {
        if job.dry_run {
            return (1, attempt);
        }
        let before = match self.store().reap(id) {
            Ok(before) => before,
            Err(error) => {
                tracing::error!("cannot read what was done before by reap {id}: {error}");
                None
            }
        };
        let Some(before) = before else {
            return (1, attempt);
        };
        let report = before.report.as_deref();
        let earlier = report.and_then(|report| serde_json::from_str(report).ok());
        let result = match (earlier, attempt.result) {
            (Some(earlier), Ok(report)) => Ok(continued(earlier, report)),
            (_, result) => result,
        };
        (before.attempts, Attempt { result, ..attempt })
    }

    fn record(
        &self,
        id: &str,
        job: &Job,
        attempt: &Attempt,
        again: Option<Duration>,
    ) -> Result<(), ServiceError> {
        let is_dead = |report: &Report| {
            // What was cancelled leaves somebody alive who was skipped.
            let nobody_left = report.counts.skipped == 0;
            nobody_left && matches!(report.verdict, Verdict::Complete | Verdict::Incomplete)
        };
        let closed = match job.ends() {
            Some((session, Ends::Over)) => self.forget(session)?,
            Some((session, _)) if !job.dry_run && again.is_none() => match &attempt.result {
                Ok(report) if is_dead(report) => self.forget(session)?,
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        if job.dry_run {
            return Ok(());
        }
        let text = match &attempt.result {
            Ok(report) => Ok(serde_json::to_string(report)?),
            Err(error) => Err(error.to_string()),
        };
        let outcome = text.as_deref().map_err(String::as_str);
        let mut store = self.store();
        match again {
            Some(pause) => {
                let (report, error) = (outcome.ok(), outcome.err());
                store.postpone_reap(id, retry::due_ms(pause), report, error)?;
            }
            None => store.finish_reap(id, outcome, &closed)?,
        }
        Ok(())
    }

    /// Ends a session and those inside it, the innermost first. Who was kept in
    /// them stays kept.
    pub(super) fn forget(&self, session: SessionId) -> Result<Vec<Session>, ServiceError> {
        self.keep_on(session)?;
        let mut tracking = self.tracking();
        let mut family = tracking.sessions().family(session);
        family.reverse();
        Ok(family
            .into_iter()
            .map(|id| tracking.close(id))
            .collect::<Result<_, _>>()?)
    }

    /// Who is kept in a session stays so when its tags are gone, for the next
    /// daemon as well.
    pub(super) fn keep_on(&self, session: SessionId) -> Result<(), ServiceError> {
        let members = self.tracking().members(session)?.found;
        for member in members.iter().filter(|member| member.tag.exempt) {
            self.store().keep(member.id)?;
        }
        Ok(())
    }

    pub(super) fn mark_closing(&self, job: &Job) {
        if let Some((session, _)) = job.ends().filter(|_| !job.dry_run) {
            self.tracking().set_state(session, SessionState::Closing);
        }
    }

    fn mark_open(&self, job: &Job) {
        if let Some((session, _)) = job.ends().filter(|_| !job.dry_run) {
            self.tracking().set_state(session, SessionState::Open);
        }
    }
}

/// One attempt at work.
struct Run<'a> {
    service: &'a Service,
    proc: &'a Proc,
    job: &'a Job,
    options: Options,
    cancel: &'a Cancel,
}

impl Run<'_> {
    /// The session first: lineage knows more than a working directory. Then
    /// whoever is left in the directories of it and of those inside it.
    fn session(&self, aim: &SessionAim, unfinished: &mut bool) -> Result<Report, ServiceError> {
        let started = Instant::now();
        let protected = Protected::new(self.proc, &self.options.client)?;
        let tracking = Arc::clone(&self.service.tracking);
        let target = SessionTarget::new(tracking, aim.session, protected)?;
        let excluded = if aim.exclude_root {
            self.service.roots(aim.session)
        } else {
            HashSet::new()
        };
        let caller = self.job.caller();
        let mut target = Restricted::new(target, self.proc, caller, excluded, aim.process);
        let mut report = reap(&mut target, self.proc, &self.options, self.cancel);
        drop(target);
        if aim.ends != Ends::Dead {
            return Ok(report);
        }
        for workdir in self.service.workdirs(aim.session) {
            if self.cancel.is_cancelled() {
                break;
            }
            let left = self.options.grace.saturating_sub(started.elapsed());
            let grace = left.max(self.options.grace / SWEEP_SHARE);
            report = match self.sweep(aim.session, workdir, grace) {
                Ok(sweep) => followed(report, sweep),
                Err(error) => {
                    *unfinished = true;
                    in_doubt(report, &error)
                }
            };
        }
        Ok(report)
    }

    /// Ends who is left in the directory of a session that is over.
    fn sweep(
        &self,
        session: SessionId,
        workdir: Workdir,
        grace: Duration,
    ) -> Result<Report, ServiceError> {
        let request = DirRequest {
            live: true,
            recorded: true,
            session: Some(session),
            ..DirRequest::new(Place::Known(workdir))
        };
        self.reap_directory(&request, grace)
    }

    fn directory(&self, aim: &DirAim) -> Result<Report, ServiceError> {
        let request = DirRequest {
            live: aim.live,
            open_files: aim.open_files,
            recorded: true,
            clients: self.options.client.clone(),
            ..DirRequest::new(aim.place.clone())
        };
        self.reap_directory(&request, self.options.grace)
    }

    fn reap_directory(
        &self,
        request: &DirRequest,
        grace: Duration,
    ) -> Result<Report, ServiceError> {
        let protected = Protected::new(self.proc, &self.options.client)?;
        let tracking = Arc::clone(&self.service.tracking);
        let target = DirTarget::new(self.proc, tracking, request, protected)?;
        let (caller, nobody) = (self.job.caller(), HashSet::new());
        let target = Restricted::new(target, self.proc, caller, nobody, None);
        let mut target = target.hiding_others();
        let options = Options {
            grace,
            ..self.options.clone()
        };
        Ok(reap(&mut target, self.proc, &options, self.cancel))
    }
}

/// A report whose sweep failed.
fn in_doubt(mut report: Report, error: &ServiceError) -> Report {
    if report.verdict == Verdict::Complete {
        report.verdict = Verdict::Incomplete;
    }
    let reason = format!("who is left in the directory is not known: {error}");
    report.reasons.push(reason);
    report
}

impl Service {
    fn roots(&self, session: SessionId) -> HashSet<ProcessId> {
        let tracking = self.tracking();
        let session = tracking.sessions().get(session);
        session
            .map(|session| session.roots.iter().copied().collect())
            .unwrap_or_default()
    }

    /// Where a session and those inside it work, each directory once.
    fn workdirs(&self, session: SessionId) -> Vec<Workdir> {
        let tracking = self.tracking();
        let family = tracking.sessions().family(session);
        let mut found: Vec<Workdir> = Vec::new();
        for id in family {
            let workdir = tracking.sessions().get(id);
            let workdir = workdir.and_then(|session| session.workdir.as_ref());
            let Some(workdir) = workdir else { continue };
            if !found.iter().any(|known| known.id.is(workdir.id)) {
                found.push(workdir.clone());
            }
        }
        found
    }
}

/// The one line that the log has of each reap.
fn tell(id: &str, job: &Job, result: &Result<Report, ServiceError>) {
    let what = match (job.session(), job.directory()) {
        (Some(session), _) => format!("session {session}"),
        (None, directory) => directory.unwrap_or_default(),
    };
    match result {
        _ if job.dry_run => {}
        Ok(report) => tracing::info!("reap {id} of {what}: {}", summary::counts(report)),
        Err(error) => tracing::error!("reap {id} of {what} failed: {error}"),
    }
}
