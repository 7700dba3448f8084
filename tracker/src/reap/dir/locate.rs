//! Which processes have their working directory in a directory.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use super::door::Door;
use super::probe::{Found, Landmarks};
use crate::lineage::SessionId;
use crate::process::{
    Cwd, Cwds, Dir, LinkedPath, MountTable, Pid, Place, Proc, ProcError, Seen, Workdir,
};
use crate::reap::worker::Worker;

/// How long a file system may take to say what it has in its cache.
const PATIENCE: Duration = Duration::from_secs(2);

/// Looks for one directory.
///
/// The links of `/proc` tell the path of a working directory without asking its
/// file system. Only who could be meant by that path is looked at closer:
///
/// - whose path, read through its own mounts, leads into the directory;
/// - when the directory is not at its path any more, whoever is on its file
///   system: it may have been moved before it was removed.
#[derive(Debug)]
pub(super) struct Locator {
    pub(super) landmarks: Arc<Landmarks>,
    pub(super) worker: Worker,
    /// By mount namespace, with a process that sees it; `None` when it may not be read.
    pub(super) tables: HashMap<u64, (Pid, Option<MountTable>)>,
    /// The one that was asked for last, and of whom: a process has many files.
    pub(super) namespace: Option<(Pid, u64)>,
    pub(super) state: State,
}

/// How the directory's path and its file system are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The path leads to it.
    There,
    /// The path leads nowhere.
    Gone,
    /// The path leads to another one.
    Replaced,
    /// Its file system is not mounted here any more: who is still in it has
    /// any path.
    Unmounted,
}

/// What a path says.
pub(super) enum Lead {
    /// It leads elsewhere.
    Away,
    /// It may lead there.
    There {
        /// Read through the process's mounts, it is a path in the directory.
        named: bool,
        /// It goes through a mount of something in the directory, from where
        /// one cannot go up to it. If it leads there, so does this path of ours.
        apart: Option<PathBuf>,
    },
}

impl Lead {
    const UNKNOWN: Lead = Lead::There {
        named: false,
        apart: None,
    };
}

/// Where a process has its working directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// Not there.
    Elsewhere,
    /// That may not be read.
    Unreadable,
    /// Nowhere any more: it is on its way out.
    Nowhere,
    /// There, or perhaps there.
    At(Cwd, Found),
}

impl Locator {
    pub(super) fn new(aim: Place) -> Locator {
        Locator {
            landmarks: Arc::new(Landmarks {
                aim,
                others: Vec::new(),
            }),
            worker: Worker::new(PATIENCE),
            tables: HashMap::new(),
            namespace: None,
            state: State::There,
        }
    }

    pub(super) fn aim(&self) -> &Place {
        &self.landmarks.aim
    }

    /// Learns how the mounts are now, and where other sessions work.
    pub(super) fn refresh(
        &mut self,
        proc: &Proc,
        others: Vec<(SessionId, Workdir)>,
    ) -> Result<(), ProcError> {
        if self.landmarks.others != others {
            let aim = self.aim().clone();
            self.landmarks = Arc::new(Landmarks { aim, others });
        }
        self.tables.clear();
        let own = proc.mounts(Pid::own())?.unwrap_or_default();
        if let Place::Known(workdir) = &self.landmarks.aim {
            let mounted = own.iter().any(|mount| mount.device == workdir.file_system);
            let workdir = workdir.clone();
            self.state = if mounted {
                // One that does not answer, or may not be entered, has not gone.
                self.state_of(&workdir)
                    .and_then(Result::ok)
                    .unwrap_or(State::There)
            } else {
                State::Unmounted
            };
        }
        if let Some(namespace) = proc.mount_namespace(Pid::own()) {
            self.tables.insert(namespace, (Pid::own(), Some(own)));
        }
        Ok(())
    }

    /// Whether a directory is at its path; `None` when its file system does not
    /// answer. Only a missing file says that it is not.
    pub(super) fn state_of(&mut self, workdir: &Workdir) -> Option<Result<State, Errno>> {
        let Workdir { path, id, .. } = workdir.clone();
        self.worker.ask(move |_| match Dir::open(&path) {
            Ok(dir) if dir.id().is(id) => Ok(State::There),
            Ok(_) => Ok(State::Replaced),
            Err(Errno::NOENT) => Ok(State::Gone),
            Err(errno) => Err(errno),
        })
    }

    /// Who is kept out of a directory; `None` when its file system does not answer.
    pub(super) fn door(&mut self, path: PathBuf) -> Option<Door> {
        self.worker.ask(move |_| Door::of(&path))
    }

    /// Where the process has its working directory. Of several threads the one
    /// counts that says most against ending the process, if any is inside.
    pub(super) fn locate(&mut self, proc: &Proc, seen: &Seen) -> Result<Location, ProcError> {
        let found = match proc.cwds(seen)? {
            Cwds::Unreadable => return Ok(Location::Unreadable),
            Cwds::Found(found) => found,
        };
        self.namespace = None;
        if found.is_empty() {
            return Ok(Location::Nowhere);
        }
        let mut location = Location::Elsewhere;
        for cwd in found {
            let Lead::There { apart, .. } = self.follow(proc, seen.id.pid, &cwd.path)? else {
                continue;
            };
            let (landmarks, asked) = (Arc::clone(&self.landmarks), cwd.clone());
            let found = self
                .worker
                .ask(move |proc| landmarks.find(proc, &asked, apart.as_deref()));
            let found = found.unwrap_or_else(|| {
                Found::Unclear(
                    "the file system of its working directory does not answer".to_owned(),
                )
            });
            match (&found, &location) {
                (Found::Elsewhere, _) | (Found::Inside, Location::At(..)) => {}
                _ => location = Location::At(cwd, found),
            }
        }
        Ok(location)
    }

    /// Whether the path of a working directory may lead into the directory.
    pub(super) fn follow(
        &mut self,
        proc: &Proc,
        pid: Pid,
        path: &LinkedPath,
    ) -> Result<Lead, ProcError> {
        let landmarks = Arc::clone(&self.landmarks);
        let workdir = match &landmarks.aim {
            Place::Known(workdir) => workdir,
            Place::Removed(removed) => {
                let below = path
                    .path()
                    .is_some_and(|path| path.starts_with(&removed.path));
                return Ok(match path {
                    LinkedPath::Deleted(_) if below => Lead::UNKNOWN,
                    _ => Lead::Away,
                });
            }
        };
        let readings = path.readings();
        if readings.is_empty() {
            return Ok(Lead::UNKNOWN);
        }
        let mut lead = Lead::Away;
        for reading in &readings {
            match self.follow_to(proc, pid, reading, workdir)? {
                Lead::Away => {}
                there @ Lead::There { named: true, .. } => return Ok(there),
                there @ Lead::There { .. } => lead = there,
            }
        }
        Ok(lead)
    }

    fn follow_to(
        &mut self,
        proc: &Proc,
        pid: Pid,
        path: &Path,
        workdir: &Workdir,
    ) -> Result<Lead, ProcError> {
        let state = self.state;
        let Some(mount) = self.table(proc, pid)?.and_then(|table| table.holding(path)) else {
            return Ok(Lead::UNKNOWN);
        };
        let same_file_system = mount.device == workdir.file_system;
        let inside = mount.in_file_system(path).filter(|_| same_file_system);
        let below = inside
            .as_deref()
            .and_then(|inside| inside.strip_prefix(&workdir.inside).ok());
        // Or it is on another mount inside of it.
        let named = below.is_some() || path.starts_with(&workdir.path);
        let possible = match state {
            State::There => false,
            State::Gone | State::Replaced => same_file_system,
            State::Unmounted => true,
        };
        if !named && !possible {
            return Ok(Lead::Away);
        }
        let apart = below
            .filter(|_| mount.root.starts_with(&workdir.inside))
            .map(|below| join(&workdir.path, below));
        Ok(Lead::There { named, apart })
    }

    /// The mounts that a process sees. All of one namespace are taken to see
    /// the same: a `chroot(2)` does not change what the links say.
    pub(super) fn table(
        &mut self,
        proc: &Proc,
        pid: Pid,
    ) -> Result<Option<&MountTable>, ProcError> {
        let namespace = match self.namespace {
            Some((whose, namespace)) if whose == pid => namespace,
            _ => {
                let Some(namespace) = proc.mount_namespace(pid) else {
                    return Ok(None);
                };
                self.namespace = Some((pid, namespace));
                namespace
            }
        };
        let (_, table) = match self.tables.entry(namespace) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert((pid, proc.mounts(pid)?)),
        };
        Ok(table.as_ref())
    }
}

fn join(path: &Path, below: &Path) -> PathBuf {
    // `join` of an empty path would add a slash.
    if below.as_os_str().is_empty() {
        path.to_owned()
    } else {
        path.join(below)
    }
}
