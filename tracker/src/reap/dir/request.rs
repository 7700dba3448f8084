//! Which directory is to be reaped, and whether that can be done.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;

use super::door::Door;
use super::locate::{Locator, State};
use crate::lineage::SessionId;
use crate::process::{Place, PlaceError, Proc, ProcessId, Workdir, escape};
use crate::reap::target::TargetError;
use crate::reap::worker::Worker;

/// How long the way to a directory may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A directory to reap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirRequest {
    /// Which.
    pub place: Place,
    /// It may be there still, as it is about to be removed.
    pub live: bool,
    /// Who uses files in it is ended as well.
    pub open_files: bool,
    /// It was taken note of when it was asked for. When nobody is found there
    /// any more, then that is the end of it, and no sign of a wrong path.
    pub recorded: bool,
    /// The session that works in it, when that is over. Its members, and those
    /// of the sessions inside it, are ended, and whoever is nobody's.
    pub session: Option<SessionId>,
    /// Who asks. Members of their sessions are ended as well, and those of
    /// sessions that work in the directory.
    pub clients: Vec<ProcessId>,
}

impl DirRequest {
    /// Of an absolute path, through symbolic links.
    pub fn find(path: &Path) -> Result<DirRequest, DirError> {
        let given = path.to_owned();
        let mut worker = Worker::new(PATIENCE);
        let place = worker
            .ask(move |proc: &Proc| Place::find(proc, &given))
            .ok_or_else(|| DirError::Hangs(path.to_owned()))??;
        Ok(DirRequest::new(place))
    }

    /// Of one that was found before.
    pub fn new(place: Place) -> DirRequest {
        DirRequest {
            place,
            live: false,
            open_files: false,
            recorded: false,
            session: None,
            clients: Vec::new(),
        }
    }

    /// Whether the directory may be reaped as it is; answers whom it keeps out.
    pub(super) fn admit(&self, locator: &mut Locator) -> Result<Door, DirError> {
        let outside = match locator.aim().clone() {
            Place::Known(workdir) => {
                if !self.is_there(locator, &workdir)? {
                    return Ok(Door::default());
                }
                workdir.path
            }
            Place::Removed(removed) => removed.around,
        };
        locator
            .door(outside.clone())
            .ok_or(DirError::Hangs(outside))
    }

    fn is_there(&self, locator: &mut Locator, workdir: &Workdir) -> Result<bool, DirError> {
        let path = || workdir.path.clone();
        match locator.state_of(workdir) {
            Some(Ok(State::There)) if self.live => Ok(true),
            Some(Ok(State::There)) => Err(DirError::StillThere(path())),
            Some(Ok(_)) => Ok(false),
            Some(Err(errno)) => Err(DirError::Look {
                path: path(),
                errno,
            }),
            None => Err(DirError::Hangs(path())),
        }
    }
}

/// A directory cannot be reaped.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// The path leads to no directory that can be.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Processes in a directory that stays have a right to be there.
    #[error("{} is there; say --live if it is about to be removed", shown(.0))]
    StillThere(PathBuf),
    /// Nothing says that there ever was one.
    #[error("there is no directory {}, and no process in one that was removed from there", shown(.0))]
    Missing(PathBuf),
    /// Whether it is there was not answered.
    #[error("cannot look at {}: {errno}", shown(path))]
    Look {
        /// The directory.
        path: PathBuf,
        /// What the kernel answered.
        errno: Errno,
    },
    /// The file system does not answer.
    #[error("the file system of {} does not answer", shown(.0))]
    Hangs(PathBuf),
    /// A first look failed.
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl DirError {
    /// Whether it exists, and is not reaped for that reason.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            DirError::StillThere(_) | DirError::Place(PlaceError::Root)
        )
    }
}

fn shown(path: &Path) -> String {
    escape(path.as_os_str().as_encoded_bytes())
}
