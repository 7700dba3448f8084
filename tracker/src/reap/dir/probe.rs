//! Whether a working directory lies in a directory: found out by going up from
//! it, which names cannot fool.

use std::path::Path;

use rustix::io::Errno;

use crate::lineage::SessionId;
use crate::process::{Cwd, Dir, DirId, LinkedPath, Place, Proc, RemovedDir, Workdir};

/// What to look for on the way up.
#[derive(Clone, Debug)]
pub(super) struct Landmarks {
    /// The directory that is reaped.
    pub(super) aim: Place,
    /// Directories in which other sessions work.
    pub(super) others: Vec<(SessionId, Workdir)>,
}

/// Where a working directory lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// In the directory that is reaped.
    Inside,
    /// In another session's, which lies in the reaped one or is the same.
    Worktree(SessionId),
    /// In none of them.
    Elsewhere,
    /// That could not be found out.
    Unclear(String),
}

/// Longer ways up are a loop.
const DEPTH: usize = 1 << 16;

impl Landmarks {
    /// Where `cwd` lies. `way` is a path of ours that leads to the same
    /// directory if it lies in the reaped one, for directories that are mounted
    /// apart from those around them. Can take for ever.
    pub(super) fn find(&self, proc: &Proc, cwd: &Cwd, way: Option<&Path>) -> Found {
        let found = match &self.aim {
            Place::Known(workdir) => self.find_known(proc, cwd, workdir.id, way),
            Place::Removed(removed) => self.find_removed(proc, cwd, removed),
        };
        found.unwrap_or_else(|errno| {
            Found::Unclear(format!(
                "its working directory cannot be looked at: {errno}"
            ))
        })
    }

    fn find_known(
        &self,
        proc: &Proc,
        cwd: &Cwd,
        aim: DirId,
        way: Option<&Path>,
    ) -> Result<Found, Errno> {
        let Some(dir) = proc.enter(cwd)? else {
            return Ok(Found::Elsewhere);
        };
        let id = dir.id();
        let is_aim = |_, here: DirId| here.is(aim);
        let found = self.climb(dir, is_aim)?;
        let Some(way) = way.filter(|_| found == Found::Elsewhere) else {
            return Ok(found);
        };
        match Dir::open(way) {
            Ok(dir) if dir.id().is(id) => self.climb(dir, is_aim),
            Err(Errno::NOENT | Errno::NOTDIR) if matches!(cwd.path, LinkedPath::Deleted(_)) => {
                let why = "its working directory is removed and was mounted apart, \
                           so that nothing tells where it was";
                Ok(Found::Unclear(why.to_owned()))
            }
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => Ok(Found::Elsewhere),
            Err(errno) => Err(errno),
        }
    }

    /// A removed directory is known by the path that it had, counted from a
    /// directory that is still there.
    fn find_removed(&self, proc: &Proc, cwd: &Cwd, removed: &RemovedDir) -> Result<Found, Errno> {
        let path = cwd.path.path();
        let Some(below) = path.and_then(|path| path.strip_prefix(&removed.around).ok()) else {
            return Ok(Found::Elsewhere);
        };
        let depth = below.components().count();
        let Some(dir) = proc.enter(cwd)? else {
            return Ok(Found::Elsewhere);
        };
        let id = dir.id();
        let found = self.climb(dir, |steps, here| {
            steps == depth && here.is(removed.around_id)
        })?;
        // One that is there is really called `x (deleted)`.
        let is_there = || Dir::open(Path::new(&cwd.path.text())).is_ok_and(|dir| dir.id().is(id));
        if found == Found::Inside && (is_there() || !proc.still_at(cwd)) {
            return Ok(Found::Elsewhere);
        }
        Ok(found)
    }

    /// Goes up to the first landmark; `is_aim` is told how many steps it took.
    fn climb(&self, dir: Dir, is_aim: impl Fn(usize, DirId) -> bool) -> Result<Found, Errno> {
        let mut here = dir;
        let mut owner = None;
        for steps in 0..DEPTH {
            let id = here.id();
            // The innermost owns, and of two at one place the other session does.
            if owner.is_none() {
                let other = self.others.iter().find(|(_, other)| other.id.is(id));
                owner = other.map(|(session, _)| *session);
            }
            if is_aim(steps, id) {
                return Ok(owner.map_or(Found::Inside, Found::Worktree));
            }
            match here.parent()? {
                Some(parent) => here = parent,
                None => return Ok(Found::Elsewhere),
            }
        }
        Err(Errno::LOOP)
    }
}
