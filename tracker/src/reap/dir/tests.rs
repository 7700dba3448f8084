//! Real processes in real directories, and a source that says what a test wants.

mod holding;
mod matching;
mod ownership;

use std::collections::HashMap;
use std::fs;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::super::testing::Family;
use super::super::{Options, Protected, Report, reap};
use super::{DirError, DirRequest, DirTarget};
use crate::lineage::{Event, Limits, SessionId, Tag};
use crate::process::{Cancel, Place, Proc, ProcessId, Workdir};
use crate::session::{Session, SessionState, Tracking};
use crate::source::{Adoption, Gap, Member, Members, Source, SourceError, SourceKind};

/// A directory for one test, without symbolic links in its path.
struct Base {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Base {
    fn new() -> Base {
        let dir = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(dir.path()).unwrap();
        Base { _dir: dir, path }
    }

    fn join(&self, below: &str) -> PathBuf {
        self.path.join(below)
    }

    /// Makes a directory, and somebody who lives there.
    fn dweller(&self, below: &str) -> Family {
        let path = self.join(below);
        fs::create_dir_all(&path).unwrap();
        dweller(&path)
    }

    fn workdir(&self, below: &str) -> Workdir {
        let path = self.join(below);
        fs::create_dir_all(&path).unwrap();
        workdir(&path)
    }

    fn remove(&self, below: &str) {
        fs::remove_dir_all(self.join(below)).unwrap();
    }
}

fn dweller(path: &Path) -> Family {
    Family::start_as(
        Command::new("sh")
            .args(["-c", "echo; exec sleep 600"])
            .current_dir(path),
    )
}

fn workdir(path: &Path) -> Workdir {
    match Place::find(&Proc::open().unwrap(), path).unwrap() {
        Place::Known(workdir) => workdir,
        other @ Place::Removed(_) => panic!("{other:?}"),
    }
}

fn is_alive(family: &Family) -> bool {
    !family.alive().is_empty()
}

/// Sessions as a test wants them.
#[derive(Debug, Default)]
struct World {
    tags: HashMap<ProcessId, Tag>,
    gaps: Vec<(SessionId, Gap)>,
    events: Vec<Event>,
    sessions: Vec<Session>,
}

impl World {
    fn session(&mut self, id: u64, workdir: Option<Workdir>, members: &[&Family]) -> SessionId {
        let id = SessionId::new(id).unwrap();
        self.sessions.push(Session {
            id,
            name: format!("s{id}"),
            roots: members.iter().map(|family| family.root).collect(),
            parent: None,
            owner_uid: 0,
            keep: Vec::new(),
            workdir,
            late: false,
            opened_ns: 0,
            state: SessionState::Open,
        });
        for member in members {
            self.tags.insert(member.root, Tag::member(id));
        }
        id
    }

    fn last(&mut self) -> &mut Session {
        self.sessions.last_mut().unwrap()
    }

    fn tracking(mut self) -> Arc<Mutex<Tracking>> {
        let sessions = std::mem::take(&mut self.sessions);
        let proc = Proc::open().unwrap();
        let mut tracking = Tracking::new(Box::new(self), proc, Limits::default());
        for session in sessions {
            tracking.restore(&[session]).unwrap();
        }
        Arc::new(Mutex::new(tracking))
    }

    fn reap(self, request: &DirRequest) -> Report {
        reap_with(self.tracking(), request).unwrap()
    }
}

impl Source for World {
    fn kind(&self) -> SourceKind {
        SourceKind::Ebpf
    }

    fn drain(&mut self, sink: &mut dyn FnMut(Event)) -> Result<(), SourceError> {
        self.events.drain(..).for_each(sink);
        Ok(())
    }

    fn adopt(&mut self, _: Adoption, _: Option<SessionId>) -> Result<Vec<ProcessId>, SourceError> {
        Ok(Vec::new())
    }

    fn release(&mut self, _: SessionId) -> Result<(), SourceError> {
        Ok(())
    }

    fn members(&mut self, sessions: &[SessionId]) -> Result<Members, SourceError> {
        let found = self
            .tags
            .iter()
            .filter(|(_, tag)| sessions.contains(&tag.session));
        let found = found.map(|(id, tag)| Member {
            id: *id,
            start_ns: None,
            tag: *tag,
            creator: None,
            exiting: false,
        });
        let gaps = self
            .gaps
            .iter()
            .filter(|(session, _)| sessions.contains(session));
        Ok(Members {
            found: found.collect(),
            gaps: gaps.cloned().collect(),
            notes: Vec::new(),
        })
    }

    fn tag_of(&mut self, id: ProcessId) -> Result<Option<Tag>, SourceError> {
        Ok(self.tags.get(&id).copied())
    }

    fn condemn(&mut self, _: &[SessionId], _: u64) -> Result<(), SourceError> {
        Ok(())
    }

    fn absolve(&mut self, _: &[SessionId]) -> Result<(), SourceError> {
        Ok(())
    }

    fn wake_eagerly(&mut self, _: bool) -> Result<(), SourceError> {
        Ok(())
    }

    fn news(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn took_over(&self) -> bool {
        true
    }
}

fn request(workdir: &Workdir) -> DirRequest {
    DirRequest::new(Place::Known(workdir.clone()))
}

fn live(workdir: &Workdir) -> DirRequest {
    DirRequest {
        live: true,
        ..request(workdir)
    }
}

fn options() -> Options {
    Options {
        grace: Duration::from_secs(60),
        ..Options::default()
    }
}

fn reap_with(tracking: Arc<Mutex<Tracking>>, request: &DirRequest) -> Result<Report, DirError> {
    let proc = Proc::open().unwrap();
    let protected = Protected::new(&proc, &[]).unwrap();
    let mut target = DirTarget::new(&proc, tracking, request, protected)?;
    Ok(reap(
        &mut target,
        &proc,
        &options(),
        &Cancel::new().unwrap(),
    ))
}

/// Without any session.
fn reap_dir(request: &DirRequest) -> Result<Report, DirError> {
    reap_with(World::default().tracking(), request)
}

/// Whom a report speaks of, as ended.
fn listed(report: &Report) -> Vec<ProcessId> {
    let proc = Proc::open().unwrap();
    let id = |pid, ticks| {
        let shown = crate::process::StartTime::from_ticks(ticks);
        ProcessId::new(pid, proc.clock().to_initial(shown))
    };
    report
        .processes
        .iter()
        .map(|one| id(one.pid, one.start_ticks))
        .collect()
}

fn spared_reason(report: &Report, family: &Family) -> Option<super::SpareReason> {
    let spared = report.spared.iter().find(|one| one.pid == family.root.pid);
    spared.map(|one| one.reason)
}
