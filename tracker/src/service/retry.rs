//! When a reap is tried again, and how often.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::ServiceError;
use super::job::{Aim, Ends, Job};
use super::{Service, lock};
use crate::reap::{Report, Verdict};
use crate::store::unix_ms;

/// The pause after the first attempt. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Attempts that find nobody, and cannot prove that there is nobody, before
/// that is taken for the answer.
const UNPROVEN: u32 = 5;

/// When the next attempts are due, by reap.
pub(super) type Waiting = HashMap<String, Instant>;

/// How an attempt went.
#[derive(Debug)]
pub(super) struct Attempt {
    /// What it did, or why it did nothing.
    pub(super) result: Result<Report, ServiceError>,
    /// It could not look everywhere.
    pub(super) unfinished: bool,
    /// It was cut short on request.
    pub(super) cancelled: bool,
}

/// How long to wait before another attempt, when there is to be one. `attempts`
/// were made.
pub(super) fn pause(job: &Job, attempt: &Attempt, attempts: u32) -> Option<Duration> {
    let again = match (&job.aim, &attempt.result) {
        _ if job.dry_run => false,
        // Whoever cancels the end of a session gives up on its members.
        (Aim::Session(_), _) if attempt.cancelled => false,
        (Aim::Session(aim), Ok(report)) => {
            aim.ends == Ends::Dead && (report.counts.survived > 0 || attempt.unfinished)
        }
        // The session is still there, and says so.
        (Aim::Session(_), Err(_)) => false,
        (Aim::Directory(_), Ok(report)) => {
            let unproven = report.verdict == Verdict::Incomplete && attempts < UNPROVEN;
            report.counts.survived + report.counts.skipped > 0 || unproven
        }
        (Aim::Directory(_), Err(ServiceError::Directory(error))) => !error.is_refusal(),
        (Aim::Directory(_), Err(_)) => true,
    };
    let doubled = 2_u32.saturating_pow(attempts.saturating_sub(1));
    again.then(|| FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE))
}

/// The time on the clock after a pause from now.
pub(super) fn due_ms(pause: Duration) -> i64 {
    unix_ms().saturating_add(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX))
}

impl Service {
    /// Makes the attempts that are due.
    pub(super) fn retry(self: &Arc<Service>) {
        let now = Instant::now();
        let due: Vec<String> = {
            let reaps = lock(&self.reaps);
            let due = reaps.waiting.iter().filter(|(_, at)| **at <= now);
            due.map(|(id, _)| id.clone()).collect()
        };
        for id in due {
            if self.is_stopping() {
                return;
            }
            if let Err(error) = self.try_again(&id) {
                // Nothing was signalled: what cannot be recorded is not done.
                tracing::error!("cannot go on with reap {id}: {error}");
                if let Some(at) = lock(&self.reaps).waiting.get_mut(&id) {
                    *at = now + LONGEST_PAUSE;
                }
            }
        }
    }

    fn try_again(self: &Arc<Service>, id: &str) -> Result<(), ServiceError> {
        let record = self.store().reap(id)?;
        if let Some(record) = record {
            return self.resume(&record);
        }
        // The history forgets none that waits: somebody changed the file.
        lock(&self.reaps).waiting.remove(id);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::caller::Caller;
    use super::super::job::{DirAim, SessionAim};
    use super::*;
    use crate::lineage::SessionId;
    use crate::process::{Place, RemovedDir};
    use crate::reap::{DirError, TargetEntry};
    use crate::source::SourceKind;

    fn job(aim: Aim) -> Job {
        let caller = Caller {
            uid: 0,
            process: None,
            may_all: true,
        };
        Job::new(caller, aim, 0, false).unwrap()
    }

    fn directory() -> Job {
        let around_id = crate::process::Dir::open("/".as_ref()).unwrap().id();
        job(Aim::Directory(DirAim {
            place: Place::Removed(RemovedDir {
                path: "/w".into(),
                around: "/".into(),
                around_id,
            }),
            live: false,
            open_files: false,
        }))
    }

    fn session(ends: Ends) -> Job {
        job(Aim::Session(SessionAim {
            session: SessionId::new(1).unwrap(),
            ends,
            process: None,
            exclude_root: false,
        }))
    }

    fn attempt(verdict: Verdict, survived: u64, skipped: u64) -> Attempt {
        let target = TargetEntry::Directory {
            path: String::new(),
        };
        let mut report = Report::refused(target, SourceKind::Procfs, String::new());
        report.verdict = verdict;
        report.counts.survived = survived;
        report.counts.skipped = skipped;
        Attempt {
            result: Ok(report),
            unfinished: false,
            cancelled: false,
        }
    }

    #[test]
    fn a_directory_is_tried_again_until_nobody_is_left() {
        let job = directory();
        let survivors = attempt(Verdict::Survivors, 1, 0);
        for (attempts, seconds) in [(1, 1), (2, 2), (4, 8), (7, 60), (u32::MAX, 60)] {
            let pause = pause(&job, &survivors, attempts);
            assert_eq!(pause, Some(Duration::from_secs(seconds)), "{attempts}");
        }
        let cancelled = attempt(Verdict::Incomplete, 0, 3);
        assert!(pause(&job, &cancelled, 1000).is_some());
        assert_eq!(pause(&job, &attempt(Verdict::Complete, 0, 0), 1), None);
    }

    #[test]
    fn what_stays_unproven_is_the_answer_in_the_end() {
        let unproven = attempt(Verdict::Incomplete, 0, 0);
        assert!(pause(&directory(), &unproven, 1).is_some());
        assert_eq!(pause(&directory(), &unproven, UNPROVEN), None);
    }

    #[test]
    fn what_is_refused_is_not_tried_again_and_what_fails_is() {
        let failed = |error| Attempt {
            result: Err(error),
            unfinished: false,
            cancelled: false,
        };
        let refused = failed(DirError::StillThere("/w".into()).into());
        assert_eq!(pause(&directory(), &refused, 1), None);
        let hangs = failed(DirError::Hangs("/w".into()).into());
        assert!(pause(&directory(), &hangs, 1).is_some());
    }

    #[test]
    fn a_session_is_tried_again_when_it_was_to_end() {
        let survivors = attempt(Verdict::Survivors, 1, 0);
        assert!(pause(&session(Ends::Dead), &survivors, 1).is_some());
        for ends in [Ends::Never, Ends::Over] {
            assert_eq!(pause(&session(ends), &survivors, 1), None);
        }
        // Some may have been sent SIGTERM already.
        let cancelled = Attempt {
            cancelled: true,
            ..attempt(Verdict::Survivors, 1, 1)
        };
        assert_eq!(pause(&session(Ends::Dead), &cancelled, 1), None);
        let unfinished = Attempt {
            unfinished: true,
            ..attempt(Verdict::Incomplete, 0, 0)
        };
        assert!(pause(&session(Ends::Dead), &unfinished, 1).is_some());
    }
}
