use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use super::super::report::{Outcome, ProcessEntry, Report, SpareReason, Verdict};
use super::super::testing::{Family, Group, until};
use super::super::{Options, Phase, reap};
use crate::process::{Cancel, Proc, ProcessId, StartTime};

/// Longer than any test runs: what waits for it hangs.
const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

fn grace(grace: Duration) -> Options {
    Options {
        grace,
        settle: Duration::from_secs(60),
        ..Options::default()
    }
}

fn run(target: &mut Group, options: &Options) -> Report {
    run_with(target, options, &Cancel::new().unwrap())
}

fn run_with(target: &mut Group, options: &Options, cancel: &Cancel) -> Report {
    reap(target, &Proc::open().unwrap(), options, cancel)
}

#[track_caller]
fn entry(report: &Report, id: ProcessId) -> &ProcessEntry {
    let entry = |entry: &&ProcessEntry| entry.pid == id.pid;
    report.processes.iter().find(entry).unwrap()
}

fn outcomes(report: &Report) -> Vec<(Outcome, Vec<&str>)> {
    let mut outcomes = Vec::new();
    for entry in &report.processes {
        let signals = entry.signals.iter().map(String::as_str).collect();
        outcomes.push((entry.outcome, signals));
    }
    outcomes
}

#[track_caller]
fn assert_complete(report: &Report) {
    assert_eq!(report.verdict, Verdict::Complete, "{report:#?}");
    assert_eq!(report.reasons, Vec::<String>::new());
}

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
    let report = run(&mut family.target(), &grace(FOR_EVER));
    assert_complete(&report);
    assert!(report.counts.forked_during_reap >= 1, "{report:#?}");
    assert_eq!(report.counts.killed, 0);
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
        let name = "reap::engine::tests::few_descriptors_are_enough_for_many_processes";
        let status = Command::new("prlimit")
            .arg("--nofile=32:32")
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(INNER, "1")
            .status()
            .unwrap();
        assert!(status.success());
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

#[test]
fn nobody_is_signalled_after_a_cancellation() {
    let family = Family::start("trap '' TERM; sleep 600 & echo; wait");
    let cancel = Cancel::new().unwrap();
    let mut target = family.target();
    let handle = cancel.clone();
    target.on_condemn = Box::new(move || handle.cancel());
    let report = run_with(&mut target, &grace(Duration::from_millis(50)), &cancel);
    assert_eq!(report.verdict, Verdict::Survivors);
    assert_eq!(
        outcomes(&report),
        vec![(Outcome::Survived, vec!["TERM"]); 2]
    );
    assert_eq!((target.condemned, target.absolved), (1, 1));
    assert_eq!(family.alive().len(), 2);
}

#[test]
fn a_cancellation_interrupts_the_grace() {
    let family = Family::start("trap '' TERM; sleep 600 & echo; wait");
    let cancel = Cancel::new().unwrap();
    let options = grace(FOR_EVER);
    let progress = options.progress.clone();
    let handle = cancel.clone();
    let canceller = std::thread::spawn(move || {
        until("the grace begins", || progress.phase() == Phase::Grace);
        handle.cancel();
    });
    let report = run_with(&mut family.target(), &options, &cancel);
    canceller.join().unwrap();
    assert!(
        report
            .reasons
            .iter()
            .any(|reason| reason.contains("cancelled"))
    );
    assert!(
        report
            .processes
            .iter()
            .all(|entry| !entry.signals.contains(&"KILL".to_owned()))
    );
    assert_eq!(family.alive().len(), 2);
}

#[test]
fn who_cancels_before_it_begins_has_nothing_done() {
    let family = Family::start("echo; exec sleep 600");
    let cancel = Cancel::new().unwrap();
    cancel.cancel();
    let report = run_with(&mut family.target(), &grace(FOR_EVER), &cancel);
    assert_eq!(report.verdict, Verdict::Incomplete);
    assert!(!report.signalled_any());
    assert_eq!(report.counts.skipped, report.processes.len() as u64);
    assert!(!family.alive().is_empty());
}

#[test]
fn a_dry_run_lists_and_spares_everybody() {
    let family = Family::start("sleep 600 & echo; wait");
    let options = Options {
        dry_run: true,
        ..grace(Duration::ZERO)
    };
    let report = run(&mut family.target(), &options);
    assert_eq!(report.verdict, Verdict::Incomplete);
    assert_eq!(outcomes(&report), vec![(Outcome::Skipped, vec![]); 2]);
    assert_eq!(family.alive().len(), 2);
}

#[test]
fn a_reused_pid_is_spared_and_the_member_is_dead() {
    let stranger = Family::start("echo; exec sleep 600");
    let start = StartTime::from_ticks(stranger.root.start_time.ticks() - 1);
    let member = ProcessId::new(stranger.root.pid, start);
    let report = run(&mut Group::only(&[member]), &grace(Duration::ZERO));
    assert_complete(&report);
    assert_eq!(outcomes(&report), [(Outcome::Exited, vec![])]);
    let [spared] = report.spared.as_slice() else {
        panic!("{report:#?}")
    };
    assert_eq!(spared.reason, SpareReason::IdentityChanged);
    assert_eq!(spared.start_ticks, stranger.root.start_time.ticks());
    assert!(!stranger.alive().is_empty());
}

#[test]
fn who_is_withdrawn_is_spared_and_the_others_are_not() {
    let family = Family::start("sleep 600 & echo; wait");
    let mut target = family.target();
    let kept = family
        .alive()
        .into_iter()
        .find(|id| *id != family.root)
        .unwrap();
    target.withdrawn = vec![(kept, SpareReason::Kept)];
    let report = run(&mut target, &grace(FOR_EVER));
    assert_complete(&report);
    assert_eq!(outcomes(&report), [(Outcome::Terminated, vec!["TERM"])]);
    assert_eq!(report.spared[0].reason, SpareReason::Kept);
    assert_eq!(report.spared[0].comm, "sleep");
    assert_eq!(family.alive(), [kept]);
}

#[test]
fn who_may_belong_to_the_target_or_not_is_spared_and_keeps_the_verdict_from_complete() {
    let family = Family::start("echo; exec sleep 600");
    let mut target = family.target();
    target.withdrawn = vec![(family.root, SpareReason::Inconclusive)];
    let report = run(&mut target, &grace(FOR_EVER));
    assert_eq!(report.verdict, Verdict::Incomplete);
    assert!(family.alive().contains(&family.root));
}

#[test]
fn the_client_is_protected() {
    let family = Family::start("sleep 600 & echo; wait");
    let client = family
        .alive()
        .into_iter()
        .find(|id| *id != family.root)
        .unwrap();
    let options = Options {
        client: vec![client],
        ..grace(FOR_EVER)
    };
    let report = run(&mut family.target(), &options);
    assert_complete(&report);
    // The shell is an ancestor of the client.
    assert_eq!((report.processes.len(), report.spared.len()), (0, 2));
    assert!(
        report
            .spared
            .iter()
            .all(|spared| spared.reason == SpareReason::Protected)
    );
    assert_eq!(family.alive().len(), 2);
}

#[test]
fn whom_the_kernel_does_not_let_us_signal_is_a_survivor_and_the_others_are_ended() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("TRACKER_REQUIRE_EBPF").is_none());
        eprintln!("not run: only root can start processes of two users");
        return;
    }
    let nobody = 65534;
    let foreign = Family::start("echo; exec sleep 600");
    let family = Family::start_as(
        Command::new("sh")
            .args(["-c", "sleep 600 & sleep 600 & echo; wait"])
            .uid(nobody),
    );
    let mut target = family.target();
    target.also = vec![foreign.root];
    // Credentials belong to a thread; this one does not outlive the reap.
    let report = std::thread::scope(|scope| {
        let reap = scope.spawn(|| {
            let uid = rustix::process::Uid::from_raw(nobody);
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            run(&mut target, &grace(Duration::from_millis(500)))
        });
        reap.join().unwrap()
    });
    assert_eq!(report.verdict, Verdict::Survivors, "{report:#?}");
    assert_eq!(report.counts.terminated, 3);
    assert_eq!(report.spared[0].pid, foreign.root.pid);
    assert_eq!(report.spared[0].reason, SpareReason::PermissionDenied);
    assert_eq!(foreign.alive(), [foreign.root]);
    family.last_words();
}

/// A process whose parent waits for nobody, and the parent.
fn child_of_a_careless_parent() -> (Family, ProcessId) {
    let family = Family::start("sleep 600 & echo; exec sleep 600");
    let child = || family.alive().into_iter().find(|id| *id != family.root);
    let child = child().unwrap();
    (family, child)
}

#[test]
fn a_zombie_that_nobody_waits_for_is_dead_at_once() {
    let (family, child) = child_of_a_careless_parent();
    let report = run(&mut Group::only(&[child]), &grace(FOR_EVER));
    assert_complete(&report);
    assert_eq!(outcomes(&report), [(Outcome::Terminated, vec!["TERM"])]);
    // Now it is a zombie when it is first seen: nothing to do or to report.
    let zombie = Proc::open().unwrap().same(child).unwrap().unwrap();
    assert!(zombie.stat.is_dead());
    let report = run(&mut Group::only(&[child]), &grace(FOR_EVER));
    assert_complete(&report);
    assert_eq!(report.processes, []);
    assert_eq!(family.alive(), [family.root]);
}

#[test]
fn nothing_to_do_is_done_after_one_look() {
    let (_family, child) = child_of_a_careless_parent();
    let mut target = Group::only(&[child]);
    target.also.clear();
    assert_complete(&run(&mut target, &grace(FOR_EVER)));
    assert_eq!(target.looks, 1);
}

#[test]
fn a_look_that_fails_is_repeated() {
    let family = Family::start("echo; exec sleep 600");
    let mut target = family.target();
    target.failing_looks = 1;
    assert_complete(&run(&mut target, &grace(FOR_EVER)));
    family.last_words();
}

#[test]
fn when_all_looks_fail_nothing_is_proven() {
    let family = Family::start("echo; exec sleep 600");
    let mut target = family.target();
    target.failing_looks = u32::MAX;
    let report = run(&mut target, &grace(FOR_EVER));
    assert_eq!(report.verdict, Verdict::Incomplete);
    assert!(
        report.reasons[0].starts_with("cannot look at the target"),
        "{report:#?}"
    );
    assert_eq!(family.alive(), [family.root]);
}

#[test]
fn a_gap_keeps_the_verdict_from_complete() {
    let family = Family::start("echo; exec sleep 600");
    let mut target = family.target();
    target.gaps = vec!["half".to_owned(), "half".to_owned()];
    let report = run(&mut target, &grace(FOR_EVER));
    assert_eq!(
        (report.verdict, report.reasons),
        (Verdict::Incomplete, vec!["half".to_owned()])
    );
    family.last_words();
}

#[test]
fn a_target_that_panics_is_absolved() {
    let family = Family::start("trap '' TERM; echo; while :; do sleep 600; done");
    let mut target = family.target();
    target.on_condemn = Box::new(|| panic!("the test says so"));
    let options = grace(Duration::from_millis(50));
    let caught = std::panic::AssertUnwindSafe(|| run(&mut target, &options));
    assert!(std::panic::catch_unwind(caught).is_err());
    assert_eq!((target.condemned, target.absolved), (1, 1));
}
