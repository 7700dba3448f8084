//! Who is signalled when, and that everybody is found.

use std::process::Command;
use std::time::Duration;

use super::super::super::testing::{Family, until};
use super::super::super::{Outcome, Phase};
use super::{FOR_EVER, assert_complete, entry, grace, outcomes, run};
use crate::process::Proc;

#[test]
fn who_ends_on_sigterm_is_not_killed_and_nobody_waits_for_the_grace() {
    let family = Family::start("sleep 600 & sleep 600 & echo; wait");
    let canary = Family::start("echo; exec sleep 600");
    let mut target = family.target();
    let report = run(&mut target, &grace(FOR_EVER));
    assert_complete(&report);
    assert_eq!(
        outcomes(&report),
        vec![(Outcome::Terminated, vec!["TERM"]); 3]
    );
    assert_eq!(
        (report.counts.terminated, report.counts.forked_during_reap),
        (3, 0)
    );
    assert_eq!((target.condemned, target.absolved), (0, 0));
    let root = entry(&report, family.root);
    assert_eq!(root.comm, "sh");
    assert_eq!(root.cmdline.first().map(String::as_str), Some("sh"));
    assert_eq!(root.uid, Some(rustix::process::getuid().as_raw()));
    assert!(!root.exe.is_empty() && root.evidence.len() == 1);
    assert!(!canary.alive().is_empty());
    family.last_words();
}

#[test]
fn who_ignores_sigterm_is_killed_when_the_grace_is_over() {
    let family = Family::start("trap '' TERM; sleep 600 & echo; wait");
    let mut target = family.target();
    let report = run(&mut target, &grace(Duration::from_millis(100)));
    assert_complete(&report);
    assert_eq!(
        outcomes(&report),
        vec![(Outcome::Killed, vec!["TERM", "KILL"]); 2]
    );
    assert_eq!((target.condemned, target.absolved), (1, 1));
    family.last_words();
}

#[test]
fn without_grace_nobody_is_asked() {
    let family = Family::start("trap 'echo asked; exit' TERM; sleep 600 & echo; wait");
    let report = run(&mut family.target(), &grace(Duration::ZERO));
    assert_complete(&report);
    assert_eq!(outcomes(&report), vec![(Outcome::Killed, vec!["KILL"]); 2]);
    assert_eq!(family.last_words(), "");
}

#[test]
fn the_handler_of_a_stopped_process_runs() {
    let family = Family::start("trap 'echo handled; exit' TERM; echo; kill -STOP $$");
    let proc = Proc::open().unwrap();
    until("the shell stops", || {
        proc.same(family.root)
            .unwrap()
            .unwrap()
            .stat
            .state
            .is_stopped()
    });
    let report = run(&mut family.target(), &grace(FOR_EVER));
    assert_complete(&report);
    assert_eq!(
        outcomes(&report),
        [(Outcome::Terminated, vec!["TERM", "CONT"])]
    );
    assert_eq!(family.last_words(), "handled\n");
}

#[test]
fn a_handler_that_takes_its_time_is_not_killed_within_the_grace() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let script =
        "trap 'read line <\"$0\"; echo handled; exit' TERM; echo; while :; do sleep 0.05; done";
    let family = Family::start_as(Command::new("sh").args(["-c", script]).arg(&fifo));
    let options = grace(FOR_EVER);
    let progress = options.progress.clone();
    let release = std::thread::spawn(move || {
        until("the grace begins", || progress.phase() == Phase::Grace);
        // The open waits until the handler has opened the other end.
        std::fs::write(fifo, "go\n").unwrap();
    });
    let report = run(&mut family.target(), &options);
    release.join().unwrap();
    assert_complete(&report);
    assert_eq!(entry(&report, family.root).signals, ["TERM"]);
    assert_eq!(family.last_words(), "handled\n");
}

#[test]
fn who_is_forked_during_the_grace_is_found() {
    let family = Family::start("trap 'sleep 600 & exit' TERM; echo; while :; do sleep 0.05; done");
    // Not for ever: SIGTERM between the fork and the exec runs the shell's own
    // handler in the child, and is lost.
    let report = run(&mut family.target(), &grace(Duration::from_secs(2)));
    assert_complete(&report);
    assert!(report.counts.forked_during_reap >= 1, "{report:#?}");
    family.last_words();
}

#[test]
fn a_process_that_forks_and_exits_for_ever_is_caught() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("hop");
    // It ends some day, should the test not end it.
    let hop = "trap '' TERM; sleep 0.02\n[ $1 -gt 0 ] || { echo escaped; exit; }\nsh \"$0\" $(($1-1)) &\n";
    std::fs::write(&script, hop).unwrap();
    let family = Family::start(&format!(
        "trap '' TERM; echo; sh '{}' 3000 &",
        script.display()
    ));
    let report = run(&mut family.target(), &grace(Duration::from_millis(200)));
    assert_complete(&report);
    assert!(report.counts.forked_during_reap > 0);
    assert_eq!(family.last_words(), "");
}

#[test]
fn a_thousand_that_ignore_sigterm_are_killed() {
    let script =
        "trap '' TERM; i=0; while [ $i -lt 1000 ]; do sleep 600 & i=$((i+1)); done; echo; wait";
    let family = Family::start(script);
    let report = run(&mut family.target(), &grace(Duration::from_millis(100)));
    assert_complete(&report);
    assert_eq!(report.counts.killed, 1001);
    family.last_words();
}

/// Runs the test again with few descriptors, in a process of its own: the
/// limit is one of the whole process.
#[test]
fn few_descriptors_are_enough_for_many_processes() {
    const INNER: &str = "TRACKER_TEST_FEW_DESCRIPTORS";
    if std::env::var_os(INNER).is_none() {
        let name = "reap::engine::tests::course::few_descriptors_are_enough_for_many_processes";
        let output = Command::new("prlimit")
            .arg("--nofile=32:32")
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(INNER, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{said}"
        );
        return;
    }
    // Half of them end on SIGTERM, so that some die while others are waited for.
    let script = "i=0; while [ $i -lt 200 ]; do sleep 600 & i=$((i+1)); done; \
                  trap '' TERM; while [ $i -lt 400 ]; do sleep 600 & i=$((i+1)); done; echo; wait";
    let family = Family::start(script);
    let report = run(&mut family.target(), &grace(Duration::from_millis(500)));
    assert_complete(&report);
    assert_eq!((report.counts.terminated, report.counts.killed), (200, 201));
    family.last_words();
}
