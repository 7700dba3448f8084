//! A session on the live kernel, from its opening to the verdict.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking; its helpers are not marked as tests"
)]

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracker::lineage::Limits;
use tracker::process::{Cancel, Pid, Proc};
use tracker::reap::{Options, Outcome, Protected, SessionTarget, SpareReason, Verdict, reap};
use tracker::session::{OpenSession, Root, SessionId, Tracking};
use tracker::source::ebpf::{EbpfSource, LoadOptions};

/// A shell that waits for a line before it runs its script.
struct Held(Child);

impl Held {
    fn new(script: &str) -> Held {
        let child = Command::new("sh")
            .args(["-c", &format!("read -r go; {script}")])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        Held(child)
    }

    fn finish(&mut self) {
        self.0.stdin.take().unwrap().write_all(b"\n").unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command that becomes `sleep N` in a session of its own, and says its pid first.
fn detached(dir: &Path, seconds: u32) -> String {
    let dir = dir.display();
    format!("setsid sh -c 'echo $$ >{dir}/{seconds}; exec sleep {seconds}'")
}

/// Waits until [`detached`] has become `sleep`.
fn started(dir: &Path, seconds: u32) -> String {
    let file = format!("{}/{seconds}", dir.display());
    format!("until [ -s {file} ] && grep -qz '^sleep$' /proc/$(cat {file})/cmdline; do :; done")
}

/// Opens a session for a held shell, lets it run, and reaps.
fn after(script: impl Fn(&Path) -> String, keep: &[&str]) -> tracker::reap::Report {
    let source = EbpfSource::load(LoadOptions::standalone()).unwrap();
    let proc = Proc::open().unwrap();
    let tracking = Tracking::new(Box::new(source), Proc::open().unwrap(), Limits::default());
    let tracking = Arc::new(Mutex::new(tracking));
    let dir = tempfile::tempdir().unwrap();
    let mut shell = Held::new(&script(dir.path()));
    let pid = Pid::new(i64::from(shell.0.id())).unwrap();
    let root = proc.seen(pid).unwrap().unwrap().id;
    let id = open(&tracking, root, keep);
    shell.finish();
    let protected = Protected::new(&proc, &[]).unwrap();
    let mut target = SessionTarget::new(Arc::clone(&tracking), id, protected).unwrap();
    let options = Options {
        grace: Duration::from_secs(60),
        ..Options::default()
    };
    reap(&mut target, &proc, &options, &Cancel::new().unwrap())
}

fn open(tracking: &Mutex<Tracking>, root: tracker::process::ProcessId, keep: &[&str]) -> SessionId {
    let request = OpenSession {
        name: "live".to_owned(),
        root: Root::Fresh(root),
        owner_uid: 0,
        keep: keep.iter().map(|rule| rule.parse().unwrap()).collect(),
        workdir: None,
    };
    tracking.lock().unwrap().open(request).unwrap()
}

#[test]
fn a_straggler_that_left_its_session_is_ended_and_its_chain_is_told() {
    let report = after(
        |dir| format!("({} &); {}", detached(dir, 600), started(dir, 600)),
        &[],
    );
    assert_eq!(report.verdict, Verdict::Complete, "{report:?}");
    let [sleep] = report.processes.as_slice() else {
        panic!("{report:?}")
    };
    assert_eq!(
        (sleep.comm.as_str(), sleep.outcome),
        ("sleep", Outcome::Terminated)
    );
    assert_eq!(sleep.cmdline, ["sleep", "600"]);
    let detail = &sleep.evidence.first().unwrap().detail;
    assert!(detail.contains("a root of the session"), "{detail}");
}

#[test]
fn what_a_handler_starts_is_left_alone_until_the_handler_is_through() {
    let dir = tempfile::tempdir().unwrap();
    let (helped, ready) = (dir.path().join("helped"), dir.path().join("ready"));
    // The helper fails if it is signalled.
    let handler = format!("sleep 0.3 && touch {}; exit", helped.display());
    let straggler = format!(
        "trap '{handler}' TERM; touch {}; while :; do :; done",
        ready.display()
    );
    let script = format!(
        "(setsid sh -c \"{straggler}\" &); until [ -e {} ]; do :; done",
        ready.display()
    );
    let report = after(|_| script.clone(), &[]);
    assert_eq!(report.verdict, Verdict::Complete, "{report:?}");
    assert_eq!(report.counts.killed, 0, "{report:?}");
    assert!(
        helped.exists(),
        "the handler's helper was signalled: {report:?}"
    );
}

#[test]
fn a_session_that_left_nothing_behind_has_an_empty_report() {
    let report = after(|_| "true".to_owned(), &[]);
    assert_eq!(report.verdict, Verdict::Complete, "{report:?}");
    assert!(report.processes.is_empty(), "{report:?}");
}

#[test]
fn what_a_keep_rule_names_is_spared_with_its_descendants() {
    // The rule may be looked at after the fork: it has to be inherited all the same.
    let script = |dir: &Path| {
        let (kept, other) = (detached(dir, 602), detached(dir, 601));
        let wait = [started(dir, 601), started(dir, 602)].join("; ");
        format!("({other} &); (timeout 600 {kept} &); {wait}")
    };
    let report = after(script, &["timeout"]);
    let spared: Vec<_> = report
        .spared
        .iter()
        .map(|spared| (spared.comm.as_str(), spared.reason))
        .collect();
    let result = std::panic::catch_unwind(|| {
        assert_eq!(report.verdict, Verdict::Complete, "{report:?}");
        assert!(
            spared.contains(&("timeout", SpareReason::Kept)),
            "{report:?}"
        );
        assert!(spared.contains(&("sleep", SpareReason::Kept)), "{report:?}");
        assert_eq!(spared.len(), 2, "{report:?}");
        assert!(
            report
                .processes
                .iter()
                .any(|process| process.cmdline == ["sleep", "601"])
        );
    });
    for kept in &report.spared {
        let pid = rustix::process::Pid::from_raw(kept.pid.raw()).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    result.unwrap();
}
