//! Long and heavy: what only shows in great numbers. `cargo xtask drill` runs
//! these at full size and one by one; each has a small one that always runs, or
//! is left out where it needs the machine for itself.
#![cfg(test)]

mod forks;
mod losses;
mod members;
mod pid_wrap;

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tracker::lineage::Limits;
use tracker::process::{Cancel, Pid, Proc, ProcessId, StartTime};
use tracker::reap::{Options, Protected, Report, SessionTarget, reap};
use tracker::session::{OpenSession, Root, SessionId, Tracking};
use tracker::source::ebpf::{EbpfSource, LoadOptions};
use tracker_tests::{Scene, Who};

/// `small`, or what `TRACKER_DRILL` asks for.
fn size(small: u64) -> u64 {
    let asked = std::env::var("TRACKER_DRILL").ok();
    asked.map_or(small, |asked| {
        asked.parse().expect("TRACKER_DRILL is a number")
    })
}

/// Sessions with a probe of their own.
struct Sessions {
    tracking: Arc<Mutex<Tracking>>,
    proc: Proc,
}

impl Sessions {
    fn new(options: LoadOptions) -> Sessions {
        let source = EbpfSource::load(options).unwrap();
        let tracking = Tracking::new(Box::new(source), Proc::open().unwrap(), Limits::default());
        Sessions {
            tracking: Arc::new(Mutex::new(tracking)),
            proc: Proc::open().unwrap(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Tracking> {
        self.tracking.lock().unwrap()
    }

    fn open(&self, root: Who) -> SessionId {
        let request = OpenSession {
            name: "drill".to_owned(),
            root: Root::Fresh(id(root)),
            owner_uid: 0,
            keep: Vec::new(),
            workdir: None,
        };
        self.lock().open(request).unwrap()
    }

    fn reap(&self, session: SessionId, grace: Duration) -> Report {
        let protected = Protected::new(&self.proc, &[]).unwrap();
        let tracking = Arc::clone(&self.tracking);
        let mut target = SessionTarget::new(tracking, session, protected).unwrap();
        let options = Options {
            grace,
            ..Options::default()
        };
        reap(&mut target, &self.proc, &options, &Cancel::new().unwrap())
    }
}

fn id(who: Who) -> ProcessId {
    let pid = Pid::new(i64::from(who.pid)).expect("a pid");
    ProcessId::new(pid, StartTime::from_ticks(who.start))
}

/// A shell of a scene that waits for a line before it goes on with a script.
struct Gate {
    child: Child,
    who: Who,
}

impl Gate {
    fn new(scene: &Scene, script: &str) -> Gate {
        let mut command = scene.command("sh");
        command.args(["-c", &format!("read -r _; {script}")]);
        let child = command.stdin(Stdio::piped()).spawn().unwrap();
        let who = Who::with_pid(child.id());
        Gate { child, who }
    }

    fn open(&mut self) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(b"\n").unwrap();
    }

    fn finish(&mut self) {
        self.open();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A victim that is ended when dropped.
struct Beside(Child);

impl Beside {
    fn new(scene: &Scene, arguments: &[&str]) -> Beside {
        let command: &mut Command = &mut scene.victim(arguments);
        Beside(command.spawn().unwrap())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Resident memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let value = line.and_then(|line| line.trim().strip_suffix(" kB"));
    value.unwrap().trim().parse().unwrap()
}
