//! Who uses files of a directory in other ways than as its working directory.

use super::locate::{Lead, Locator, State};
use super::probe::Found;
use crate::process::{
    Held, HeldFile, HeldKind, LinkedPath, MountTable, Pid, Place, Proc, ProcError, Seen, Workdir,
    escape,
};
use crate::reap::report::{HeldBy, HeldEntry, HolderEntry};

/// So many files are listed of one holder.
const LISTED: usize = 100;

/// A file of the directory that a process uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holding {
    kind: HeldBy,
    path: LinkedPath,
    size: Option<u64>,
    /// Where it lies. Unlike a directory, a file does not tell what it is in,
    /// so this goes by its path and its mount.
    pub(super) found: Found,
}

impl Holding {
    /// How, and what.
    pub(super) fn detail(&self) -> String {
        let how = match self.kind {
            HeldBy::File => "it has open",
            HeldBy::Map => "it has mapped",
            HeldBy::Root => "its root directory is",
            HeldBy::Mount => "it sees mounted",
        };
        format!("{how} {}", escape(self.path.text().as_encoded_bytes()))
    }

    fn entry(&self) -> HeldEntry {
        HeldEntry {
            kind: self.kind,
            path: shown(&self.path),
            deleted: matches!(self.path, LinkedPath::Deleted(_)),
            size: self.size,
        }
    }
}

/// A line of the report; `None` when nothing is used.
pub(super) fn entry(proc: &Proc, seen: &Seen, holdings: &[Holding]) -> Option<HolderEntry> {
    let mut files: Vec<_> = holdings.iter().map(Holding::entry).collect();
    files.sort_by_key(|file| std::cmp::Reverse(file.size));
    let more = files.len().saturating_sub(LISTED);
    files.truncate(LISTED);
    (!files.is_empty()).then(|| HolderEntry {
        pid: Some(seen.id.pid),
        start_ticks: Some(proc.clock().to_shown(seen.id.start_time).ticks()),
        comm: escape(&seen.stat.comm),
        files,
        more: more as u64,
    })
}

impl Locator {
    /// The files of the directory that a process uses; `None` when that may not be read.
    pub(super) fn held_by(
        &mut self,
        proc: &Proc,
        seen: &Seen,
    ) -> Result<Option<Vec<Holding>>, ProcError> {
        let pid = seen.id.pid;
        self.namespace = None;
        let Some(mut all) = proc.open_files(seen)? else {
            return Ok(None);
        };
        // A process whose memory is locked does not tell; its files it did.
        let mapped = self.worker.ask(move |proc| proc.mapped_files(pid));
        all.extend(mapped.transpose()?.unwrap_or_default());
        let mut found: Vec<Holding> = Vec::new();
        for held in all {
            let kind = match held.kind {
                HeldKind::File => HeldBy::File,
                HeldKind::Map => HeldBy::Map,
                HeldKind::Root => HeldBy::Root,
            };
            let known = |other: &Holding| other.kind == kind && other.path == held.path;
            if found.iter().any(known) || !self.is_named_so(proc, pid, &held.path)? {
                continue;
            }
            let asked = held.clone();
            let file = match self.worker.ask(move |proc| proc.look_at(&asked)) {
                Some(Ok(None)) => continue,
                Some(Ok(file)) => file,
                Some(Err(_)) | None => None,
            };
            let place = match file {
                Some(file) => self.place(proc, pid, &held, file)?,
                None => Found::Unclear("a file that it uses cannot be looked at".to_owned()),
            };
            if place != Found::Elsewhere {
                let size = file.and_then(|file| file.size);
                found.push(Holding {
                    kind,
                    path: held.path,
                    size,
                    found: place,
                });
            }
        }
        Ok(Some(found))
    }

    /// Whether the path of a file is one in the directory.
    fn is_named_so(&mut self, proc: &Proc, pid: Pid, path: &LinkedPath) -> Result<bool, ProcError> {
        let Lead::There { named, .. } = self.follow(proc, pid, path)? else {
            return Ok(false);
        };
        let (Place::Known(workdir), Some(path)) = (self.aim(), path.path()) else {
            return Ok(path.path().is_some());
        };
        Ok(named || self.state == State::Unmounted && path.starts_with(&workdir.inside))
    }

    /// Where a file with such a path lies.
    fn place(
        &mut self,
        proc: &Proc,
        pid: Pid,
        held: &Held,
        file: HeldFile,
    ) -> Result<Found, ProcError> {
        let (state, landmarks) = (self.state, self.landmarks.clone());
        let Some(path) = held.path.path() else {
            return Ok(Found::Elsewhere);
        };
        let Place::Known(aim) = &landmarks.aim else {
            // Of another mount namespace nothing but the path is known.
            let here = self
                .table(proc, Pid::own())?
                .and_then(|table| table.by_id(file.mount_id));
            return Ok(if here.is_some() {
                Found::Inside
            } else {
                Found::Elsewhere
            });
        };
        if state == State::Replaced {
            return Ok(match held.path {
                LinkedPath::There(_) => Found::Elsewhere,
                _ => Found::Unclear("another directory has the same path now".to_owned()),
            });
        }
        let table = self.table(proc, pid)?;
        let mount = table.and_then(|table| table.by_id(file.mount_id));
        let inside = match mount {
            Some(mount) if mount.device == aim.file_system => mount.in_file_system(path),
            // On a mount inside of it, if that path leads to it in this namespace.
            Some(mount)
                if mount.point.starts_with(&aim.path)
                    && table.is_some_and(|table| leads_to(table, aim)) =>
            {
                return Ok(Found::Inside);
            }
            None if state == State::Unmounted => Some(path.to_owned()),
            _ => None,
        };
        let Some(inside) = inside.filter(|inside| inside.starts_with(&aim.inside)) else {
            return Ok(Found::Elsewhere);
        };
        if matches!(held.path, LinkedPath::Deleted(_)) && !is_younger(file, aim) {
            let why = "it is removed and may have been in a directory that had this path before";
            return Ok(Found::Unclear(why.to_owned()));
        }
        let nested = landmarks.others.iter().find(|(_, other)| {
            let nested =
                other.file_system == aim.file_system && other.inside.starts_with(&aim.inside);
            nested && inside.starts_with(&other.inside)
        });
        Ok(nested.map_or(Found::Inside, |(session, _)| Found::Worktree(*session)))
    }

    /// The mounts in the directory, and those of something in it, a line for
    /// each mount namespace that is known.
    pub(super) fn mounts(&self) -> Vec<HolderEntry> {
        let Place::Known(aim) = self.aim() else {
            return Vec::new();
        };
        let mut entries = Vec::new();
        for (witness, table) in self.tables.values() {
            let here = *witness == Pid::own();
            let Some(table) = table else { continue };
            let held = table.iter().filter(|mount| {
                let of_it = mount.device == aim.file_system && mount.root.starts_with(&aim.inside);
                let in_it = here && mount.point.starts_with(&aim.path) && mount.point != aim.path;
                of_it || in_it
            });
            let files: Vec<_> = held
                .map(|mount| HeldEntry {
                    kind: HeldBy::Mount,
                    path: escape(mount.point.as_os_str().as_encoded_bytes()),
                    deleted: mount
                        .root
                        .as_os_str()
                        .as_encoded_bytes()
                        .ends_with(b"//deleted"),
                    size: None,
                })
                .collect();
            if !files.is_empty() {
                let pid = (!here).then_some(*witness);
                entries.push(HolderEntry {
                    pid,
                    start_ticks: None,
                    comm: String::new(),
                    files,
                    more: 0,
                });
            }
        }
        entries
    }
}

/// Whether a namespace has the directory at its path, and nothing mounted over it.
fn leads_to(table: &MountTable, aim: &Workdir) -> bool {
    table.holding(&aim.path).is_some_and(|mount| {
        mount.device == aim.file_system
            && mount.in_file_system(&aim.path).as_deref() == Some(&aim.inside)
    })
}

/// Whether a file was made when the directory was there. The path of a removed
/// one may be that of a former directory, in which nothing is made any more.
fn is_younger(file: HeldFile, aim: &Workdir) -> bool {
    matches!((file.born_ns, aim.id.born_ns), (Some(file), Some(aim)) if file >= aim)
}

fn shown(path: &LinkedPath) -> String {
    path.path()
        .map(|path| escape(path.as_os_str().as_encoded_bytes()))
        .unwrap_or_default()
}
