//! Directories that callers name.

use std::path::PathBuf;

use super::Service;
use super::caller::Caller;
use super::error::ServiceError;
use crate::process::{FilePath, Pid, Place, PlaceError, Workdir};
use crate::reap::{DirError, DirRequest};

impl Service {
    /// The directory that a session is to work in.
    pub(super) fn workdir(&self, caller: Caller, path: &FilePath) -> Result<Workdir, ServiceError> {
        let given = PathBuf::from(path.clone());
        match self.find_place(caller, path)?.place {
            Place::Known(workdir) => Ok(workdir),
            Place::Removed(_) => Err(DirError::Place(PlaceError::Missing(given)).into()),
        }
    }

    /// Where a path leads, for a caller who may have that looked up.
    pub(super) fn find_place(
        &self,
        caller: Caller,
        path: &FilePath,
    ) -> Result<DirRequest, ServiceError> {
        self.check_view(caller)?;
        let found = DirRequest::find(&PathBuf::from(path.clone()));
        if caller.may_all {
            return Ok(found?);
        }
        match found {
            Ok(request) => match &request.place {
                Place::Known(workdir) if workdir.owner_uid != caller.uid => Err(not_theirs(caller)),
                _ => Ok(request),
            },
            Err(error @ DirError::Place(PlaceError::Relative(_))) => Err(error.into()),
            Err(_) => Err(not_theirs(caller)),
        }
    }

    /// Paths are looked up in the daemon's view of the file systems. Another
    /// one's `/w` may be anything.
    fn check_view(&self, caller: Caller) -> Result<(), ServiceError> {
        let of = |pid| self.proc.mount_namespace(pid);
        let theirs = caller.process.and_then(|process| of(process.pid));
        if theirs.is_some() && theirs == of(Pid::own()) {
            return Ok(());
        }
        let why = "the caller is not in the daemon's mount namespace (or gone), so a path of its \
                   may be another one here; name the session instead";
        Err(ServiceError::BadField(why.to_owned()))
    }
}

/// Of a directory that is not theirs, callers do not even learn whether it exists.
pub(super) fn not_theirs(caller: Caller) -> ServiceError {
    let why = format!(
        "uid {} may only name directories of its own that are there, or that a session of its own \
         works in; 'tracker reap --dir PATH --standalone' needs no permission",
        caller.uid
    );
    ServiceError::Forbidden(why)
}
