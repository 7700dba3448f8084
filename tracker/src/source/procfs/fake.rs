//! A directory that looks like `/proc`, so that every step of a history can be
//! looked at.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use tempfile::TempDir;

use super::subtree::Subtree;
use super::*;
use crate::process::StartTime;

/// A `/proc` that does what the test says. Pids 1 and 10 (a shell) are there.
pub(super) struct Host {
    dir: TempDir,
    pub(super) source: ProcfsSource,
}

pub(super) fn id(pid: i64, start: u64) -> ProcessId {
    ProcessId::new(Pid::new(pid).unwrap(), StartTime::from_ticks(start))
}

pub(super) fn session(raw: u64) -> SessionId {
    SessionId::new(raw).unwrap()
}

pub(super) fn member(raw: u64) -> Tag {
    Tag::member(session(raw))
}

pub(super) fn kept(raw: u64) -> Tag {
    Tag {
        exempt: true,
        ..member(raw)
    }
}

impl Host {
    pub(super) fn new() -> Host {
        let dir = TempDir::new().unwrap();
        let source = ProcfsSource::reading(Proc::at(dir.path()).unwrap());
        let mut host = Host { dir, source };
        host.put(id(1, 0), 0, "init");
        host.put(id(10, 1), 1, "sh");
        host.source.scan().unwrap();
        host
    }

    /// One where pid 10 is a subreaper whose children are counted by `childless`.
    pub(super) fn subreaper(user: Option<u32>, childless: fn() -> bool) -> Host {
        let mut host = Host::new();
        host.source.subtree = Some(Subtree::fake(id(10, 1), user, childless));
        host
    }

    pub(super) fn put(&self, id: ProcessId, parent: i64, comm: impl AsRef<[u8]>) {
        self.put_in_state(id, parent, comm, 'S', 1);
    }

    pub(super) fn put_in_state(
        &self,
        id: ProcessId,
        parent: i64,
        comm: impl AsRef<[u8]>,
        state: char,
        threads: u64,
    ) {
        let dir = self.dir.path().join(id.pid.to_string());
        fs::create_dir_all(&dir).unwrap();
        let (pid, start) = (id.pid, id.start_time);
        let mut line = format!("{pid} (").into_bytes();
        line.extend_from_slice(comm.as_ref());
        let rest = format!(
            ") {state} {parent} 1 1 0 -1 0 1 2 3 4 5 6 7 8 20 0 {threads} 0 {start} 9 10 11\n"
        );
        line.extend_from_slice(rest.as_bytes());
        fs::write(dir.join("stat"), line).unwrap();
    }

    pub(super) fn put_details(&self, pid: i64, exe: &str, cmdline: &[u8], status: &str) {
        let dir = self.dir.path().join(pid.to_string());
        let _ = fs::remove_file(dir.join("exe"));
        std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(exe.as_bytes()), dir.join("exe"))
            .unwrap();
        fs::write(dir.join("cmdline"), cmdline).unwrap();
        fs::write(dir.join("status"), status).unwrap();
    }

    pub(super) fn remove(&self, pid: i64) {
        fs::remove_dir_all(self.dir.path().join(pid.to_string())).unwrap();
    }

    pub(super) fn adopt(&mut self, root: ProcessId, tag: Tag, fresh: bool) -> Vec<ProcessId> {
        let mut tagged = self
            .source
            .adopt(Adoption { root, tag, fresh }, None)
            .unwrap();
        tagged.sort();
        tagged
    }

    pub(super) fn events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        self.source.drain(&mut |event| events.push(event)).unwrap();
        events
    }

    pub(super) fn members(&mut self, raw: u64) -> Vec<ProcessId> {
        let members = self.source.members(&[session(raw)]).unwrap();
        members.found.iter().map(|member| member.id).collect()
    }

    pub(super) fn gaps(&mut self, raw: u64) -> Vec<Gap> {
        let members = self.source.members(&[session(raw)]).unwrap();
        assert!(members.gaps.iter().all(|(whose, _)| *whose == session(raw)));
        members.gaps.into_iter().map(|(_, gap)| gap).collect()
    }
}
