//! The two lists of a report.

use std::collections::HashMap;
use std::time::Duration;

use super::book::{Known, Life};
use super::describe::{Describer, Description};
use super::engine::Findings;
use super::frozen::is_frozen;
use super::options::Options;
use super::report::{Outcome, ProcessEntry, SparedEntry};
use super::target::Target;
use crate::process::{Proc, ProcessId, Seen, Signal, escape};

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
    let mut late = HashMap::new();
    if options.dry_run {
        let unknown = |known: &&Known| known.description.is_none();
        let unknown = book.listed().filter(unknown).map(|known| known.id);
        late = describe_late(describer, target, unknown.collect());
    }
    let mut entries = Vec::with_capacity(book.known().len());
    for known in book.listed() {
        let mut description = known
            .description
            .clone()
            .or_else(|| late.remove(&known.id))
            .or_else(|| target.describe(known.id))
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
    let ids = book.spared().map(|spared| spared.id).collect();
    let mut described = describe_late(describer, target, ids);
    let entry = |spared: &super::target::Spared| {
        let mut description = described.remove(&spared.id).unwrap_or_default();
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

/// Describes processes that nobody is about to end.
fn describe_late(
    describer: &mut Describer,
    target: &mut dyn Target,
    ids: Vec<ProcessId>,
) -> HashMap<ProcessId, Description> {
    let mut found = HashMap::new();
    let mut unknown = Vec::new();
    for id in ids {
        match target.describe(id) {
            Some(description) => {
                found.insert(id, description);
            }
            None => unknown.push(id),
        }
    }
    describer.allow(DESCRIBED_LATE);
    describer.read(&unknown);
    for id in unknown {
        found.extend(describer.take(id).map(|description| (id, description)));
    }
    found
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
