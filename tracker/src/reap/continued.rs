//! Two reaps, one after the other, as one report.

use std::collections::{BTreeMap, HashSet};

use super::report::{Counts, Outcome, ProcessEntry, Report, SparedEntry, Verdict};
use crate::process::Pid;

/// `first`, as `next` found things when it went on with the same target. What
/// is proven is what `next` has proven.
pub fn continued(first: Report, next: Report) -> Report {
    let spared: HashSet<_> = next
        .spared
        .iter()
        .map(|one| (one.pid, one.start_ticks))
        .collect();
    let mut later: BTreeMap<_, _> = next.processes.into_iter().map(keyed).collect();
    let mut forked = first.counts.forked_during_reap;
    let mut all: BTreeMap<(Pid, u64), ProcessEntry> = BTreeMap::new();
    for (key, entry) in first.processes.into_iter().map(keyed) {
        match later.remove(&key) {
            Some(later) => {
                all.insert(key, joined(entry, later));
            }
            None if spared.contains(&key) => {}
            // Who was alive and is not found any more is dead.
            None => {
                all.insert(key, dead(entry));
            }
        }
    }
    forked += later.len() as u64;
    all.extend(later);
    let processes: Vec<_> = all.into_values().collect();
    Report {
        counts: counts(&processes, next.spared.len(), forked),
        processes,
        spared: next.spared,
        verdict: next.verdict,
        reasons: next.reasons,
        holders: next.holders,
        duration_ms: first.duration_ms.saturating_add(next.duration_ms),
        ..first
    }
}

/// `first`, and what `next` did to another target after that. Proven is what
/// both have proven.
pub fn followed(first: Report, next: Report) -> Report {
    let mut forked = first.counts.forked_during_reap;
    forked = forked.saturating_add(next.counts.forked_during_reap);
    let mut all: BTreeMap<_, _> = first.processes.into_iter().map(keyed).collect();
    for (key, entry) in next.processes.into_iter().map(keyed) {
        let entry = match all.remove(&key) {
            Some(earlier) => joined(earlier, entry),
            None => entry,
        };
        all.insert(key, entry);
    }
    let spared: BTreeMap<(Pid, u64), SparedEntry> = first
        .spared
        .into_iter()
        .chain(next.spared)
        .map(|one| ((one.pid, one.start_ticks), one))
        .filter(|(key, _)| !all.contains_key(key))
        .collect();
    let (verdict, mut reasons, more) = if severity(next.verdict) > severity(first.verdict) {
        (next.verdict, next.reasons, first.reasons)
    } else {
        (first.verdict, first.reasons, next.reasons)
    };
    let new = more.into_iter().filter(|reason| !reasons.contains(reason));
    let new: Vec<_> = new.collect();
    reasons.extend(new);
    let processes: Vec<_> = all.into_values().collect();
    Report {
        counts: counts(&processes, spared.len(), forked),
        processes,
        spared: spared.into_values().collect(),
        verdict,
        reasons,
        holders: next.holders,
        duration_ms: first.duration_ms.saturating_add(next.duration_ms),
        ..first
    }
}

fn severity(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Complete => 0,
        Verdict::Incomplete => 1,
        Verdict::Survivors => 2,
        Verdict::Refused => 3,
    }
}

fn keyed(entry: ProcessEntry) -> ((Pid, u64), ProcessEntry) {
    ((entry.pid, entry.start_ticks), entry)
}

fn joined(first: ProcessEntry, later: ProcessEntry) -> ProcessEntry {
    let mut entry = ProcessEntry {
        outcome: later.outcome,
        reason: later.reason,
        state: later.state,
        ..first
    };
    entry.signals.extend(later.signals);
    if entry.outcome == Outcome::Exited {
        entry.outcome = outcome_of_dead(&entry);
    }
    entry
}

fn dead(entry: ProcessEntry) -> ProcessEntry {
    if !matches!(entry.outcome, Outcome::Survived | Outcome::Skipped) {
        return entry;
    }
    ProcessEntry {
        outcome: outcome_of_dead(&entry),
        reason: None,
        state: None,
        ..entry
    }
}

fn outcome_of_dead(entry: &ProcessEntry) -> Outcome {
    let was_sent = |signal| entry.signals.iter().any(|sent| sent == signal);
    if was_sent("KILL") {
        Outcome::Killed
    } else if was_sent("TERM") {
        Outcome::Terminated
    } else {
        Outcome::Exited
    }
}

fn counts(processes: &[ProcessEntry], spared: usize, forked_during_reap: u64) -> Counts {
    let count = |outcome| {
        let such = processes.iter().filter(|entry| entry.outcome == outcome);
        such.count() as u64
    };
    Counts {
        exited: count(Outcome::Exited),
        terminated: count(Outcome::Terminated),
        killed: count(Outcome::Killed),
        survived: count(Outcome::Survived),
        skipped: count(Outcome::Skipped),
        spared: spared as u64,
        forked_during_reap,
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::{SCHEMA, SpareReason, TargetEntry};
    use super::*;
    use crate::lineage::SessionId;
    use crate::source::SourceKind;

    fn entry(pid: i64, outcome: Outcome, signals: &[&str]) -> ProcessEntry {
        ProcessEntry {
            pid: Pid::new(pid).unwrap(),
            start_ticks: 1,
            start_ns: None,
            comm: format!("p{pid}"),
            exe: String::new(),
            cmdline: Vec::new(),
            truncated: false,
            uid: None,
            evidence: Vec::new(),
            outcome,
            reason: None,
            state: None,
            signals: signals.iter().map(ToString::to_string).collect(),
        }
    }

    fn report(verdict: Verdict, processes: Vec<ProcessEntry>) -> Report {
        Report {
            schema: SCHEMA,
            reap_id: "x".to_owned(),
            target: TargetEntry::Session {
                id: SessionId::new(1).unwrap(),
                name: String::new(),
            },
            verdict,
            reasons: vec![format!("{verdict:?}")],
            source: SourceKind::Procfs,
            dry_run: false,
            grace_ms: 5000,
            duration_ms: 7,
            counts: counts(&processes, 0, 0),
            processes,
            spared: Vec::new(),
            holders: Vec::new(),
        }
    }

    #[test]
    fn who_was_signalled_twice_is_listed_once() {
        let first = report(
            Verdict::Survivors,
            vec![
                entry(1, Outcome::Survived, &["TERM"]),
                entry(2, Outcome::Survived, &["TERM", "CONT"]),
                entry(3, Outcome::Terminated, &["TERM"]),
                entry(4, Outcome::Survived, &["TERM"]),
            ],
        );
        let next = report(
            Verdict::Complete,
            vec![
                entry(1, Outcome::Killed, &["KILL"]),
                entry(4, Outcome::Exited, &[]),
                entry(5, Outcome::Killed, &["KILL"]),
            ],
        );
        let both = continued(first, next);
        assert_eq!(both.verdict, Verdict::Complete);
        assert_eq!(both.reasons, ["Complete"]);
        assert_eq!((both.grace_ms, both.duration_ms), (5000, 14));
        let told: Vec<_> = both
            .processes
            .iter()
            .map(|one| (one.pid.raw(), one.outcome, one.signals.join(" ")))
            .collect();
        assert_eq!(
            told,
            [
                (1, Outcome::Killed, "TERM KILL".to_owned()),
                (2, Outcome::Terminated, "TERM CONT".to_owned()),
                (3, Outcome::Terminated, "TERM".to_owned()),
                (4, Outcome::Terminated, "TERM".to_owned()),
                (5, Outcome::Killed, "KILL".to_owned()),
            ]
        );
        let counts = both.counts;
        assert_eq!((counts.killed, counts.terminated), (2, 3));
        assert_eq!(counts.forked_during_reap, 1);
    }

    #[test]
    fn who_turns_out_to_be_spared_is_not_listed_as_dead() {
        let first = report(Verdict::Incomplete, vec![entry(1, Outcome::Skipped, &[])]);
        let mut next = report(Verdict::Complete, Vec::new());
        let kept = entry(1, Outcome::Skipped, &[]);
        next.spared.push(crate::reap::SparedEntry {
            pid: kept.pid,
            start_ticks: 1,
            start_ns: None,
            comm: kept.comm,
            exe: String::new(),
            cmdline: Vec::new(),
            truncated: false,
            uid: None,
            evidence: Vec::new(),
            reason: crate::reap::SpareReason::Kept,
            detail: String::new(),
        });
        let both = continued(first, next);
        assert!(both.processes.is_empty());
        assert_eq!(both.counts.spared, 1);
    }

    fn spared(pid: i64) -> SparedEntry {
        SparedEntry {
            pid: Pid::new(pid).unwrap(),
            start_ticks: 1,
            start_ns: None,
            comm: String::new(),
            exe: String::new(),
            cmdline: vec![],
            truncated: false,
            uid: None,
            evidence: vec![],
            reason: SpareReason::Protected,
            detail: String::new(),
        }
    }

    #[test]
    fn two_targets_make_one_report_that_proves_what_both_do() {
        let mut first = report(
            Verdict::Complete,
            vec![
                entry(1, Outcome::Terminated, &["TERM"]),
                entry(2, Outcome::Skipped, &[]),
            ],
        );
        first.spared.push(spared(8));
        let mut next = report(
            Verdict::Survivors,
            vec![
                entry(2, Outcome::Killed, &["KILL"]),
                entry(3, Outcome::Survived, &["KILL"]),
            ],
        );
        next.spared.extend([spared(8), spared(1)]);
        let both = followed(first, next);
        let pids: Vec<_> = both.processes.iter().map(|one| one.pid.raw()).collect();
        assert_eq!(pids, [1, 2, 3]);
        assert_eq!(both.processes[1].outcome, Outcome::Killed);
        assert_eq!(both.spared.len(), 1);
        assert_eq!(both.counts, counts(&both.processes, 1, 0));
        assert_eq!(both.verdict, Verdict::Survivors);
        assert_eq!(both.reasons, ["Survivors", "Complete"]);
        assert_eq!(both.duration_ms, 14);
    }

    #[test]
    fn what_the_first_could_not_prove_the_next_does_not_either() {
        let first = report(Verdict::Incomplete, vec![]);
        let both = followed(first, report(Verdict::Complete, vec![]));
        assert_eq!(both.verdict, Verdict::Incomplete);
        assert_eq!(both.reasons, ["Incomplete", "Complete"]);
    }
}
