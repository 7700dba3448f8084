//! What is proven, and why no more than that.

use std::time::Instant;

use super::book::{Book, Life};
use super::engine::Findings;
use super::entries;
use super::options::Options;
use super::report::{
    Counts, Outcome, ProcessEntry, Report, SCHEMA, SpareReason, SparedEntry, TargetEntry, Verdict,
};
use super::target::Target;
use crate::process::{Opened, PidFd, Proc, ProcessId, Seen};
use crate::source::SourceKind;

/// So many survivors are named in a reason. All are in the list.
const NAMED: usize = 5;

/// Looks a last time at those who are not known to be dead, and reports.
pub(super) fn conclude(
    findings: &mut Findings,
    target: &mut dyn Target,
    proc: &Proc,
    options: &Options,
    started: Instant,
) -> Report {
    let left = sweep(&mut findings.book, proc);
    let processes = entries::processes(findings, target, proc, options);
    let spared = entries::spared(findings, target, proc);
    let (verdict, reasons) = judge(findings, options, &processes, &left);
    Report {
        schema: SCHEMA,
        reap_id: options.reap_id.clone().unwrap_or_else(reap_id),
        target: target.entry(),
        verdict,
        reasons,
        source: target.source(),
        dry_run: options.dry_run,
        grace_ms: entries::millis(options.grace),
        counts: count(findings, &processes, &spared),
        processes,
        spared,
        holders: target.holders(),
        duration_ms: entries::millis(started.elapsed()),
    }
}

impl Report {
    /// Of a reap that was not begun.
    pub fn refused(target: TargetEntry, source: SourceKind, reason: String) -> Report {
        Report {
            schema: SCHEMA,
            reap_id: reap_id(),
            target,
            verdict: Verdict::Refused,
            reasons: vec![reason],
            source,
            dry_run: false,
            grace_ms: 0,
            duration_ms: 0,
            processes: Vec::new(),
            spared: Vec::new(),
            counts: Counts::default(),
            holders: Vec::new(),
        }
    }
}

/// Spared processes that are alive and keep the verdict from `complete`.
#[derive(Debug)]
struct Left {
    /// They may not be signalled.
    denied: usize,
    /// Nobody can tell whose they are.
    inconclusive: usize,
}

/// Finds out who is alive now.
fn sweep(book: &mut Book, proc: &Proc) -> Left {
    for at in 0..book.known().len() {
        let Some(known) = book.get(at) else { continue };
        if matches!(known.life, Life::Dead | Life::Withdrawn(_)) {
            continue;
        }
        match last_look(proc, known.id) {
            Last::Dead => book.set_life(at, Life::Dead),
            Last::Alive(seen) => {
                if let Some(known) = book.get_mut(at) {
                    known.last = seen;
                }
            }
        }
    }
    let alive = |reason| {
        book.spared()
            .filter(|spared| spared.reason == reason)
            .filter(|spared| matches!(last_look(proc, spared.id), Last::Alive(_)))
            .count()
    };
    Left {
        denied: alive(SpareReason::PermissionDenied),
        inconclusive: alive(SpareReason::Inconclusive),
    }
}

enum Last {
    Dead,
    /// With what was read, if it could be.
    Alive(Option<Seen>),
}

fn last_look(proc: &Proc, id: ProcessId) -> Last {
    let opened = PidFd::open(id.pid);
    match (proc.same(id), opened) {
        (Ok(None), _) | (_, Ok(Opened::Gone)) => Last::Dead,
        (_, Ok(Opened::Live(fd))) if fd.is_dead() => Last::Dead,
        (seen, _) => Last::Alive(seen.ok().flatten()),
    }
}

/// The verdict, and its reasons before everything else that is worth saying.
fn judge(
    findings: &Findings,
    options: &Options,
    processes: &[ProcessEntry],
    left: &Left,
) -> (Verdict, Vec<String>) {
    let alive = |outcome| {
        processes
            .iter()
            .filter(move |entry| entry.outcome == outcome)
    };
    let mut reasons = Vec::new();
    let survived = alive(Outcome::Survived).count();
    if survived > 0 {
        reasons.push(name_survivors(survived, alive(Outcome::Survived)));
    }
    if left.denied > 0 {
        let who = number(
            left.denied,
            "process that is alive",
            "processes that are alive",
        );
        reasons.push(format!("no permission to signal {who}"));
    }
    let survivors = !reasons.is_empty();
    if findings.cancelled {
        reasons.push("cancelled before it was over".to_owned());
    }
    if options.dry_run && alive(Outcome::Skipped).next().is_some() {
        reasons.push("dry run: nothing was signalled".to_owned());
    }
    if left.inconclusive > 0 {
        let who = number(left.inconclusive, "process", "processes");
        reasons.push(format!(
            "it cannot be told who owns {who} that was left alone"
        ));
    }
    reasons.extend(findings.failure.clone());
    reasons.extend(findings.gaps.iter().cloned());
    let verdict = if survivors {
        Verdict::Survivors
    } else if reasons.is_empty() {
        Verdict::Complete
    } else {
        Verdict::Incomplete
    };
    reasons.extend(findings.troubles.iter().cloned());
    reasons.extend(findings.notes.iter().cloned());
    let mut said = std::collections::HashSet::new();
    reasons.retain(|reason| said.insert(reason.clone()));
    (verdict, reasons)
}

fn name_survivors<'a>(count: usize, survivors: impl Iterator<Item = &'a ProcessEntry>) -> String {
    let named: Vec<_> = survivors
        .take(NAMED)
        .map(|entry| match entry.state {
            Some(state) => format!("{} ({}, state {state})", entry.pid, entry.comm),
            None => format!("{} ({})", entry.pid, entry.comm),
        })
        .collect();
    let more = match count.saturating_sub(named.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let who = number(count, "process is alive", "processes are alive");
    format!("{who}: {}{more}", named.join(", "))
}

fn number(count: usize, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    }
}

fn count(findings: &Findings, processes: &[ProcessEntry], spared: &[SparedEntry]) -> Counts {
    let mut counts = Counts {
        spared: spared.len() as u64,
        ..Counts::default()
    };
    for entry in processes {
        let sum = match entry.outcome {
            Outcome::Exited => &mut counts.exited,
            Outcome::Terminated => &mut counts.terminated,
            Outcome::Killed => &mut counts.killed,
            Outcome::Survived => &mut counts.survived,
            Outcome::Skipped => &mut counts.skipped,
        };
        *sum += 1;
    }
    let forked = findings.book.listed().filter(|known| known.forked);
    counts.forked_during_reap = forked.count() as u64;
    counts
}

/// A name that no other reap has.
fn reap_id() -> String {
    let mut bytes = [0; 8];
    if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).is_err() {
        // The time of boot in nanoseconds is the next best.
        bytes = crate::process::now_boot_ns().to_ne_bytes();
    }
    format!("{:016x}", u64::from_ne_bytes(bytes))
}
