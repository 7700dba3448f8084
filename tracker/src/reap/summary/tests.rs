use super::super::report::{Counts, SCHEMA, SparedEntry, TargetEntry};
use super::*;
use crate::process::Pid;
use crate::source::SourceKind;

fn pid(raw: i64) -> Pid {
    Pid::new(raw).unwrap()
}

fn report(verdict: Verdict, processes: Vec<ProcessEntry>, reasons: &[&str]) -> Report {
    let target = TargetEntry::Process {
        pid: pid(1000),
        start_ticks: 1,
    };
    let mut counts = Counts::default();
    for one in &processes {
        match one.outcome {
            Outcome::Exited => counts.exited += 1,
            Outcome::Terminated => counts.terminated += 1,
            Outcome::Killed => counts.killed += 1,
            Outcome::Survived => counts.survived += 1,
            Outcome::Skipped => counts.skipped += 1,
        }
    }
    Report {
        schema: SCHEMA,
        reap_id: "0".to_owned(),
        target,
        verdict,
        reasons: reasons.iter().map(|&reason| reason.to_owned()).collect(),
        source: SourceKind::Procfs,
        dry_run: false,
        grace_ms: 5000,
        duration_ms: 3,
        processes,
        spared: Vec::new(),
        counts,
        holders: Vec::new(),
    }
}

fn process(raw: i64, comm: &str, outcome: Outcome) -> ProcessEntry {
    let signals: &[&str] = match outcome {
        Outcome::Terminated => &["TERM"],
        Outcome::Killed | Outcome::Survived => &["TERM", "KILL"],
        Outcome::Exited | Outcome::Skipped => &[],
    };
    ProcessEntry {
        pid: pid(raw),
        start_ticks: 1,
        start_ns: None,
        comm: comm.to_owned(),
        exe: String::new(),
        cmdline: vec![comm.to_owned(), "600".to_owned()],
        truncated: false,
        uid: Some(0),
        evidence: Vec::new(),
        outcome,
        reason: None,
        state: None,
        signals: signals.iter().map(|&signal| signal.to_owned()).collect(),
    }
}

fn spared(raw: i64, comm: &str, reason: SpareReason) -> SparedEntry {
    SparedEntry {
        pid: pid(raw),
        start_ticks: 1,
        start_ns: None,
        comm: comm.to_owned(),
        exe: String::new(),
        cmdline: Vec::new(),
        truncated: false,
        uid: None,
        evidence: Vec::new(),
        reason,
        detail: "the rule redis-*".to_owned(),
    }
}

fn told(report: &Report) -> String {
    line(report).unwrap()
}

#[test]
fn nothing_is_said_when_nobody_was_left_behind() {
    assert_eq!(
        line(&report(Verdict::Complete, Vec::new(), &["a note"])),
        None
    );
    let exited = vec![process(4711, "sleep", Outcome::Exited)];
    assert_eq!(line(&report(Verdict::Complete, exited, &[])), None);
}

#[test]
fn one_process_is_told_with_its_pid() {
    let one = vec![process(4711, "sleep", Outcome::Terminated)];
    insta::assert_snapshot!(told(&report(Verdict::Complete, one, &[])), @"tracker: ended 1 process that was left behind: sleep 600 (pid 4711) [complete, 3 ms]");
}

#[test]
fn several_are_counted_by_name() {
    let mut many: Vec<_> = (1..=3)
        .map(|at| process(at, "sleep", Outcome::Terminated))
        .collect();
    many.push(process(9, "redis-server", Outcome::Killed));
    insta::assert_snapshot!(told(&report(Verdict::Complete, many, &[])), @"tracker: ended 4 processes that were left behind (1 by SIGKILL): sleep ×3, redis-server [complete, 3 ms]");
}

#[test]
fn a_crowd_makes_no_long_line() {
    let many = (1..=999).map(|at| process(at, &format!("worker-{at:03}"), Outcome::Killed));
    insta::assert_snapshot!(told(&report(Verdict::Complete, many.collect(), &[])), @"tracker: ended 999 processes that were left behind (999 by SIGKILL): worker-001, worker-002, worker-003, worker-004, and 995 more [complete, 3 ms]");
}

#[test]
fn survivors_are_named_with_their_state() {
    let mut alive = process(4711, "touch", Outcome::Survived);
    alive.state = Some('D');
    let both = vec![alive, process(4712, "sleep", Outcome::Terminated)];
    insta::assert_snapshot!(told(&report(Verdict::Survivors, both, &["1 process is alive"])), @"tracker: ended 1 process that was left behind: sleep 600 (pid 4712); 1 is still alive: touch (pid 4711, state D) [survivors, 3 ms]");
}

#[test]
fn who_may_not_be_signalled_is_named() {
    let mut report = report(Verdict::Survivors, Vec::new(), &["no permission"]);
    report
        .spared
        .push(spared(4711, "sudo", SpareReason::PermissionDenied));
    insta::assert_snapshot!(told(&report), @"tracker: may not signal sudo (pid 4711) [survivors, 3 ms]");
}

#[test]
fn what_is_not_proven_comes_with_the_first_reason() {
    let one = vec![process(4711, "sleep", Outcome::Terminated)];
    insta::assert_snapshot!(told(&report(Verdict::Incomplete, one, &["first", "second"])), @"tracker: ended 1 process that was left behind: sleep 600 (pid 4711) [incomplete, 3 ms]: first");
    insta::assert_snapshot!(told(&report(Verdict::Incomplete, Vec::new(), &["first"])), @"tracker: found nobody left behind [incomplete, 3 ms]: first");
}

#[test]
fn a_cancelled_reap_says_whom_it_left_alone() {
    let one = vec![process(4711, "sleep", Outcome::Skipped)];
    insta::assert_snapshot!(told(&report(Verdict::Incomplete, one, &["cancelled"])), @"tracker: left alone 1 process: sleep 600 (pid 4711) [incomplete, 3 ms]: cancelled");
}

#[test]
fn nothing_can_forge_a_second_line() {
    let one = vec![process(4711, "a\nb\x1b[2J", Outcome::Terminated)];
    let reason = "x\r\n".repeat(500);
    insta::assert_snapshot!(told(&report(Verdict::Incomplete, one, &[&reason])), @"tracker: ended 1 process that was left behind: a b [2J 600 (pid 4711) [incomplete, 3 ms]: x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x…");
}

#[test]
fn the_table_has_everybody() {
    let mut alive = process(12, "touch", Outcome::Survived);
    alive.reason = Some("in uninterruptible sleep (D)".to_owned());
    let all = vec![process(4711, "sleep", Outcome::Terminated), alive];
    let mut report = report(Verdict::Survivors, all, &["1 process is alive: 12 (touch)"]);
    report
        .spared
        .push(spared(13, "redis-server", SpareReason::Kept));
    report.counts.spared = 1;
    insta::assert_snapshot!(table(&report), @r#"
survivors: 1 ended, 1 alive, 1 spared, in 3 ms
  1 process is alive: 12 (touch)
4711  terminated (TERM)     sleep 600
  12  survived (TERM KILL)  touch 600       in uninterruptible sleep (D)
  13  spared                [redis-server]  kept: the rule redis-*
"#);
}
