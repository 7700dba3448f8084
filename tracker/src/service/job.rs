//! What a reap is to do, in the form that is stored: a later daemon goes on
//! with it.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::caller::Caller;
use super::error::ServiceError;
use crate::api;
use crate::lineage::SessionId;
use crate::process::{Place, escape};

/// What to reap and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    #[serde(flatten)]
    pub(super) aim: Aim,
    pub(super) grace_ms: u64,
    pub(super) dry_run: bool,
    uid: u32,
    may_all: bool,
    client: Option<api::ProcessKey>,
}

/// What to reap.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Aim {
    Session(SessionAim),
    Directory(DirAim),
}

/// A session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SessionAim {
    pub(super) session: SessionId,
    pub(super) ends: Ends,
    /// The process that was asked for, when the session was only opened for
    /// this reap.
    pub(super) process: Option<api::ProcessKey>,
    pub(super) exclude_root: bool,
}

/// When the session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ends {
    /// Not by this reap.
    Never,
    /// When nothing of it is known to be alive.
    Dead,
    /// When the reap is over, whoever is alive then.
    Over,
}

/// A directory, as it was when it was asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DirAim {
    pub(super) place: Place,
    pub(super) live: bool,
    pub(super) open_files: bool,
}

impl Job {
    pub(super) fn new(
        caller: Caller,
        aim: Aim,
        grace_ms: u64,
        dry_run: bool,
    ) -> Result<Job, ServiceError> {
        check_grace(grace_ms)?;
        Ok(Job {
            aim,
            grace_ms,
            dry_run,
            uid: caller.uid,
            may_all: caller.may_all,
            client: caller.process.map(Into::into),
        })
    }

    /// Who asked for it.
    pub(super) fn caller(&self) -> Caller {
        Caller {
            uid: self.uid,
            process: self.client.map(Into::into),
            may_all: self.may_all,
        }
    }

    pub(super) fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }

    /// The session that it is about.
    pub(super) fn session(&self) -> Option<SessionId> {
        match &self.aim {
            Aim::Session(aim) => Some(aim.session),
            Aim::Directory(_) => None,
        }
    }

    /// The directory that it is about, escaped.
    pub(super) fn directory(&self) -> Option<String> {
        match &self.aim {
            Aim::Session(_) => None,
            Aim::Directory(aim) => Some(shown(aim.place.path())),
        }
    }

    /// The session that is over when this is.
    pub(super) fn ends(&self) -> Option<(SessionId, Ends)> {
        match &self.aim {
            Aim::Session(aim) if aim.ends != Ends::Never => Some((aim.session, aim.ends)),
            _ => None,
        }
    }
}

/// A path as reports and the store have it.
pub(super) fn shown(path: &Path) -> String {
    escape(path.as_os_str().as_encoded_bytes())
}

pub(super) fn check_grace(grace_ms: u64) -> Result<(), ServiceError> {
    if grace_ms > api::MAX_GRACE_MS {
        let why = format!("grace_ms is at most {} (a day)", api::MAX_GRACE_MS);
        return Err(ServiceError::BadField(why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::RemovedDir;

    const CALLER: Caller = Caller {
        uid: 7,
        process: None,
        may_all: false,
    };

    fn back(job: &Job) -> Job {
        serde_json::from_str(&serde_json::to_string(job).unwrap()).unwrap()
    }

    #[test]
    fn a_job_is_read_back_as_it_was_stored() {
        let session = Aim::Session(SessionAim {
            session: SessionId::new(5).unwrap(),
            ends: Ends::Dead,
            process: None,
            exclude_root: true,
        });
        let place = Place::Removed(RemovedDir {
            path: "/w/a".into(),
            around: "/w".into(),
            around_id: crate::process::Dir::open("/".as_ref()).unwrap().id(),
        });
        let directory = Aim::Directory(DirAim {
            place,
            live: false,
            open_files: true,
        });
        for aim in [session, directory] {
            let job = Job::new(CALLER, aim, 250, false).unwrap();
            assert_eq!(format!("{:?}", back(&job)), format!("{job:?}"));
        }
    }

    #[test]
    fn what_the_first_version_stored_is_understood() {
        let stored = r#"{"session":"000000000005","ends":"dead","process":null,"grace_ms":3,
            "dry_run":false,"exclude_root":false,"uid":0,"may_all":true,"client":null}"#;
        let job: Job = serde_json::from_str(stored).unwrap();
        assert_eq!(job.ends(), SessionId::new(5).map(|id| (id, Ends::Dead)));
    }
}
