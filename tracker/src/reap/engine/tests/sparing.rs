//! Who is not signalled.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use super::super::super::testing::{Family, Group, until};
use super::super::super::{Options, Outcome, Phase, SpareReason, Verdict};
use super::{FOR_EVER, assert_complete, grace, outcomes, run, run_with};
use crate::process::{Cancel, Proc, ProcessId, StartTime};

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
    let proc = Proc::open().unwrap();
    until("it executes sleep", || {
        proc.same(kept).unwrap().unwrap().stat.comm == b"sleep"
    });
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
