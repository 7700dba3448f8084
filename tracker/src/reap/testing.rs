//! What the tests of this module share: real processes, and a target that
//! knows them by their process group.

use std::io::{PipeReader, Read};
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::report::{Evidence, EvidenceKind, SpareReason, TargetEntry};
use super::target::{Candidate, Survey, Target, TargetError};
use crate::process::{Cancel, Opened, Pid, PidFd, Proc, ProcessId, Seen, Sender, Signal};
use crate::source::SourceKind;

/// Waits until `done`, or fails after a time that no machine needs.
#[track_caller]
pub(super) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Who has a pid.
#[track_caller]
pub(super) fn id_of(pid: u32) -> ProcessId {
    let pid = Pid::new(i64::from(pid)).unwrap();
    Proc::open().unwrap().seen(pid).unwrap().unwrap().id
}

/// Ends a process as the engine does.
#[track_caller]
pub(super) fn kill(id: ProcessId) {
    let Opened::Live(fd) = PidFd::open(id.pid).unwrap() else {
        panic!("{id} is gone")
    };
    let (proc, cancel) = (Proc::open().unwrap(), Cancel::new().unwrap());
    let sender = Sender::new(&proc, &cancel);
    sender
        .send(&fd, id, Signal::Kill, || Ok::<_, ()>(()))
        .unwrap();
}

/// A shell script and all that it starts: one process group, which ends with
/// the test. Each of them holds the write end of a pipe.
pub(super) struct Family {
    child: Child,
    pipe: PipeReader,
    pub(super) root: ProcessId,
}

impl Family {
    /// Runs `script`, and waits until it has printed one line.
    pub(super) fn start(script: &str) -> Family {
        Family::start_as(Command::new("sh").args(["-c", script]))
    }

    pub(super) fn start_as(command: &mut Command) -> Family {
        let (mut pipe, writer) = std::io::pipe().unwrap();
        let child = command.process_group(0).stdout(writer).spawn().unwrap();
        // The command holds a write end as well.
        command.stdout(std::process::Stdio::null());
        let mut byte = [0];
        while byte != *b"\n" {
            assert_eq!(pipe.read(&mut byte).unwrap(), 1, "the script ended early");
        }
        let root = id_of(child.id());
        Family { child, pipe, root }
    }

    pub(super) fn target(&self) -> Group {
        Group::new(self.root)
    }

    /// What `/proc` says of the root.
    pub(super) fn seen(&self) -> Seen {
        Proc::open().unwrap().same(self.root).unwrap().unwrap()
    }

    /// The members that are alive now.
    pub(super) fn alive(&self) -> Vec<ProcessId> {
        let proc = Proc::open().unwrap();
        let mut alive = self.target().members();
        alive.retain(|id| !proc.is_dead(*id).unwrap());
        alive
    }

    /// Blocks until nobody holds the pipe any more, and answers what was written.
    pub(super) fn last_words(mut self) -> String {
        let mut words = String::new();
        self.pipe.read_to_string(&mut words).unwrap();
        words
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        // The root was not waited for, so that the group is still this one.
        if let Some(group) = rustix::process::Pid::from_raw(self.root.pid.raw()) {
            for signal in [rustix::process::Signal::KILL, rustix::process::Signal::CONT] {
                let _ = rustix::process::kill_process_group(group, signal);
            }
        }
        let _ = self.child.wait();
    }
}

/// A target that scans for members of a process group. Its fields change how
/// it answers, and record what it was asked.
pub(super) struct Group {
    proc: Proc,
    root: ProcessId,
    members_of: Option<i32>,
    pub(super) looks: u32,
    pub(super) failing_looks: u32,
    pub(super) gaps: Vec<String>,
    /// Who is a candidate besides the group.
    pub(super) also: Vec<ProcessId>,
    pub(super) withdrawn: Vec<(ProcessId, SpareReason)>,
    pub(super) on_condemn: Box<dyn FnMut() + Send>,
    pub(super) condemned: u32,
    pub(super) absolved: u32,
}

impl Group {
    pub(super) fn new(root: ProcessId) -> Group {
        Group {
            proc: Proc::open().unwrap(),
            root,
            members_of: Some(root.pid.raw()),
            looks: 0,
            failing_looks: 0,
            gaps: Vec::new(),
            also: Vec::new(),
            withdrawn: Vec::new(),
            on_condemn: Box::new(|| {}),
            condemned: 0,
            absolved: 0,
        }
    }

    /// Only these, no group.
    pub(super) fn only(ids: &[ProcessId]) -> Group {
        Group {
            members_of: None,
            also: ids.to_vec(),
            ..Group::new(ids[0])
        }
    }

    fn members(&self) -> Vec<ProcessId> {
        let mut found = Vec::new();
        for seen in self.proc.scan().unwrap() {
            if Some(seen.stat.group) == self.members_of {
                found.push(seen.id);
            }
        }
        found
    }
}

impl Target for Group {
    fn entry(&self) -> TargetEntry {
        TargetEntry::Process {
            pid: self.root.pid,
            start_ticks: self.root.start_time.ticks(),
        }
    }

    fn source(&self) -> SourceKind {
        SourceKind::Procfs
    }

    fn survey(&mut self) -> Result<Survey, TargetError> {
        self.looks += 1;
        if self.looks <= self.failing_looks {
            let nowhere = std::path::Path::new("/nonexistent");
            return Err(Proc::at(nowhere).unwrap_err().into());
        }
        let mut ids = self.members();
        ids.extend(&self.also);
        let candidates = ids.into_iter().map(|id| Candidate {
            id,
            start_ns: None,
            creator: None,
            evidence: vec![Evidence {
                kind: EvidenceKind::Parent,
                detail: "of the group".to_owned(),
            }],
        });
        Ok(Survey {
            candidates: candidates.collect(),
            gaps: self.gaps.clone(),
            ..Survey::default()
        })
    }

    fn recheck(&mut self, id: ProcessId) -> Result<(), (SpareReason, String)> {
        match self.withdrawn.iter().find(|(who, _)| *who == id) {
            Some((_, reason)) => Err((*reason, "the test says so".to_owned())),
            None => Ok(()),
        }
    }

    fn condemn(&mut self, until_ns: u64) -> Result<(), TargetError> {
        assert!(until_ns > crate::process::now_boot_ns());
        self.condemned += 1;
        (self.on_condemn)();
        Ok(())
    }

    fn absolve(&mut self) -> Result<(), TargetError> {
        self.absolved += 1;
        Ok(())
    }

    fn news(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn look_again(&self) -> Option<Duration> {
        Some(Duration::from_millis(20))
    }
}
