//! The two lists of a report.

use std::time::Duration;

use super::book::{Known, Life};
use super::engine::Findings;
use super::frozen::is_frozen;
use super::options::Options;
use super::report::{Outcome, ProcessEntry, SparedEntry};
use super::target::{Spared, Target};
use crate::process::{Proc, Seen, Signal, escape};

/// So many of those who live still are described by `/proc`.
const DESCRIBED_LATE: usize = 1024;

/// Everybody whom the target owned, with what became of it, by pid.
pub(super) fn processes(
    findings: &mut Findings,
    target: &mut dyn Target,
    proc: &Proc,
    options: &Options,
) -> Vec<ProcessEntry> {
    let Findings {
        book, describer, ..
    } = findings;
    describer.allow(DESCRIBED_LATE);
    let mut entries = Vec::with_capacity(book.known().len());
    for known in book.listed() {
        let mut description = known
            .description
            .clone()
            .or_else(|| target.describe(known.id))
            .or_else(|| {
                let is_there = options.dry_run && known.life == Life::Alive;
                is_there.then(|| describer.read(proc, known.id))?
            })
            .unwrap_or_default();
        // A process may rename itself without anybody being told. This is its
        // name when it was last signalled.
        if !known.comm.is_empty() {
            description.comm.clone_from(&known.comm);
        }
        let (outcome, reason) = outcome(known, proc, options.dry_run, findings.cancelled);
        entries.push(ProcessEntry {
            pid: known.id.pid,
            start_ticks: proc.clock().to_shown(known.id.start_time).ticks(),
            start_ns: known.start_ns,
            comm: escape(&description.comm),
            exe: escape(&description.exe),
            cmdline: escape_all(&description.cmdline),
            truncated: description.truncated,
            uid: description.uid,
            evidence: known.evidence.clone(),
            outcome,
            reason,
            state: known.last.as_ref().map(|seen| seen.stat.state.letter()),
            signals: known.sent.iter().map(|one| one.name().to_owned()).collect(),
        });
    }
    entries.sort_by_key(|entry| (entry.pid, entry.start_ticks));
    entries
}

/// Everybody who was left alone, by pid.
pub(super) fn spared(
    findings: &mut Findings,
    target: &mut dyn Target,
    proc: &Proc,
) -> Vec<SparedEntry> {
    let Findings {
        book, describer, ..
    } = findings;
    describer.allow(DESCRIBED_LATE);
    let entry = |spared: &Spared| {
        let mut description = target
            .describe(spared.id)
            .or_else(|| describer.read(proc, spared.id))
            .unwrap_or_default();
        if let Ok(Some(seen)) = proc.same(spared.id) {
            description.comm = seen.stat.comm;
        }
        SparedEntry {
            pid: spared.id.pid,
            start_ticks: proc.clock().to_shown(spared.id.start_time).ticks(),
            start_ns: spared.start_ns,
            comm: escape(&description.comm),
            exe: escape(&description.exe),
            cmdline: escape_all(&description.cmdline),
            truncated: description.truncated,
            uid: description.uid,
            evidence: spared.evidence.clone(),
            reason: spared.reason,
            detail: spared.detail.clone(),
        }
    };
    book.spared().map(entry).collect()
}

/// Milliseconds, as far as they fit.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn outcome(
    known: &Known,
    proc: &Proc,
    dry_run: bool,
    cancelled: bool,
) -> (Outcome, Option<String>) {
    if known.life == Life::Dead {
        let outcome = if known.sent.contains(&Signal::Kill) {
            Outcome::Killed
        } else if known.sent.contains(&Signal::Term) {
            Outcome::Terminated
        } else {
            Outcome::Exited
        };
        return (outcome, None);
    }
    if dry_run {
        return (Outcome::Skipped, Some("dry run".to_owned()));
    }
    if let Some(trouble) = &known.trouble {
        return (Outcome::Survived, Some(trouble.clone()));
    }
    if known.sent.is_empty() && cancelled {
        let reason = "cancelled before it was signalled".to_owned();
        return (Outcome::Skipped, Some(reason));
    }
    let reason = match &known.last {
        Some(seen) => why_alive(proc, seen, known.sent.last().copied()),
        None => "its state could not be read".to_owned(),
    };
    (Outcome::Survived, Some(reason))
}

/// What keeps a process alive that was signalled.
fn why_alive(proc: &Proc, seen: &Seen, signal: Option<Signal>) -> String {
    let state = seen.stat.state;
    // Which of the two the letter means, the kernel does not tell.
    if state.letter() == 'D' && is_frozen(seen.id.pid) {
        return "its cgroup is frozen: SIGKILL takes effect when it is thawed".to_owned();
    }
    if state.letter() == 'D' {
        return match proc.wchan(seen.id.pid) {
            Some(function) => format!(
                "in uninterruptible sleep (D), in the kernel's {}",
                escape(&function)
            ),
            None => "in uninterruptible sleep (D)".to_owned(),
        };
    }
    let since = match signal {
        Some(signal) => format!("alive after SIG{}", signal.name()),
        None => "alive, and was not signalled".to_owned(),
    };
    if state.is_zombie() {
        return format!("{since}: its leader has exited, and another thread has not");
    }
    since
}

fn escape_all(arguments: &[Vec<u8>]) -> Vec<String> {
    arguments.iter().map(|argument| escape(argument)).collect()
}
