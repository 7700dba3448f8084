//! The probe on the live kernel. What it says is compared with `/proc`, with
//! `waitpid`, and with a pipe that every descendant inherits.
#![cfg(test)]

mod adoption;
mod condemned;
mod fields;
mod full;
mod lives;
mod losses;
mod news;
mod pins;

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Child, Command, Stdio};

use tracker::lineage::{Event, SessionId, Tag};
use tracker::process::{Pid, ProcessId, StartTime};
use tracker::source::ebpf::{EbpfSource, LoadOptions};
use tracker::source::{Adoption, Gap, Member, Source};
use tracker_tests::{Need, Scene, Who, able};

/// A probe, or the reason why there is none here.
#[track_caller]
fn load(options: LoadOptions) -> Option<EbpfSource> {
    able(&[Need::Ebpf]).then(|| EbpfSource::load(options).expect("the probe"))
}

/// A probe for single sessions.
#[track_caller]
fn probe() -> Option<EbpfSource> {
    load(LoadOptions::standalone())
}

fn id(who: Who) -> ProcessId {
    let pid = Pid::new(i64::from(who.pid)).expect("a pid");
    ProcessId::new(pid, StartTime::from_ticks(who.start))
}

/// A process that is held back until [`Gate::open`].
struct Gate {
    child: Child,
    who: Who,
}

impl Gate {
    /// Starts a shell on the scene that waits, then executes `program`.
    fn before(scene: &Scene, program: &[impl AsRef<OsStr>]) -> Gate {
        let mut command = scene.command("sh");
        command
            .args(["-c", "read -r _; exec \"$@\"", "sh"])
            .args(program);
        Gate::start(&mut command)
    }

    /// Starts a shell on the scene that waits, then goes on with `script`.
    fn script(scene: &Scene, script: &str) -> Gate {
        let script = format!("read -r _; {script}");
        Gate::start(scene.command("sh").args(["-c", &script]))
    }

    /// Starts a victim on the scene, behind a gate.
    fn victim(scene: &Scene, arguments: &[&str]) -> Gate {
        let mut program = vec![tracker_tests::victim_binary().as_os_str()];
        program.extend(arguments.iter().map(OsStr::new));
        Gate::before(scene, &program)
    }

    fn start(command: &mut Command) -> Gate {
        let child = command.stdin(Stdio::piped()).spawn().expect("a shell");
        let who = Who::with_pid(child.id());
        Gate { child, who }
    }

    /// Makes it the root of a new session.
    #[track_caller]
    fn member_of(&self, source: &mut EbpfSource) -> SessionId {
        let session = SessionId::random().expect("a number");
        self.adopt(source, Tag::member(session));
        session
    }

    #[track_caller]
    fn adopt(&self, source: &mut EbpfSource, tag: Tag) {
        let root = id(self.who);
        let fresh = true;
        let adopted = source.adopt(Adoption { root, tag, fresh }, None);
        assert_eq!(adopted.expect("adopt"), [root]);
    }

    /// Lets it go on.
    fn open(&mut self) {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        stdin.write_all(b"\n").expect("a reader");
    }

    /// Lets it go on, and waits for its end.
    fn finish(&mut self) -> std::process::ExitStatus {
        self.open();
        self.child.wait().expect("wait")
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a session has now: who can still fork, its gaps, its notes.
struct Now {
    running: Vec<ProcessId>,
    all: Vec<Member>,
    gaps: Vec<Gap>,
    notes: Vec<String>,
}

#[track_caller]
fn now(source: &mut EbpfSource, session: SessionId) -> Now {
    let members = source.members(&[session]).expect("members");
    assert!(members.gaps.iter().all(|(whose, _)| *whose == session));
    let running = members.found.iter().filter(|member| !member.exiting);
    let mut running: Vec<_> = running.map(|member| member.id).collect();
    running.sort_unstable();
    Now {
        running,
        all: members.found,
        gaps: members.gaps.into_iter().map(|(_, gap)| gap).collect(),
        notes: members.notes,
    }
}

#[track_caller]
fn events(source: &mut EbpfSource) -> Vec<Event> {
    let mut events = Vec::new();
    source
        .drain(&mut |event| events.push(event))
        .expect("drain");
    events
}
