//! A report for people: one line, or a table.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::report::{
    HeldBy, HeldEntry, HolderEntry, Outcome, ProcessEntry, Report, SpareReason, Verdict,
};

/// So many different names are told before it says "and 3 more".
const NAMES: usize = 4;
/// So many survivors are told with their pids.
const SURVIVORS: usize = 4;
/// The longest reason, in characters. Names are short by themselves.
const REASON: usize = 160;
/// Powers of a thousand.
const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
/// The longest command line of a table, in characters.
const COMMAND: usize = 72;

/// The line that is left on stderr, without a line feed. `None` when nobody
/// was left behind and nothing is in doubt.
pub fn line(report: &Report) -> Option<String> {
    let ended: Vec<_> = report
        .processes
        .iter()
        .filter(|one| was_ended(one))
        .collect();
    let of = |outcome| {
        report
            .processes
            .iter()
            .filter(move |one| one.outcome == outcome)
    };
    let alive: Vec<_> = of(Outcome::Survived).collect();
    let skipped: Vec<_> = of(Outcome::Skipped).collect();
    let mut parts = Vec::new();
    if !ended.is_empty() {
        parts.push(tell_ended(&ended));
    }
    if !alive.is_empty() {
        let is = if alive.len() == 1 { "is" } else { "are" };
        parts.push(format!(
            "{} {is} still alive: {}",
            alive.len(),
            survivors(&alive)
        ));
    }
    if !skipped.is_empty() {
        parts.push(format!(
            "left alone {}: {}",
            number(skipped.len(), ""),
            names(&skipped)
        ));
    }
    // Who could not be signalled and died nevertheless is nobody's problem.
    if report.verdict == Verdict::Survivors {
        parts.extend(tell_denied(report));
    }
    if report.verdict == Verdict::Complete && parts.is_empty() {
        return None;
    }
    if parts.is_empty() {
        parts.push("found nobody left behind".to_owned());
    }
    let mut line = format!("tracker: {}", parts.join("; "));
    let _ = write!(
        line,
        " [{}, {} ms]",
        verdict(report.verdict),
        report.duration_ms
    );
    // Who is alive was told already.
    let in_doubt = matches!(report.verdict, Verdict::Incomplete | Verdict::Refused);
    if let Some(reason) = report.reasons.first().filter(|_| in_doubt) {
        let _ = write!(line, ": {}", bounded(reason, REASON));
    }
    Some(line)
}

/// What became of how many, for a log: one line.
pub fn counts(report: &Report) -> String {
    let counts = &report.counts;
    let mut line = format!("{}, in {} ms", verdict(report.verdict), report.duration_ms);
    let outcomes = [
        (counts.exited, Outcome::Exited),
        (counts.terminated, Outcome::Terminated),
        (counts.killed, Outcome::Killed),
        (counts.survived, Outcome::Survived),
        (counts.skipped, Outcome::Skipped),
    ];
    for (count, of) in outcomes {
        if count > 0 {
            let _ = write!(line, ", {count} {}", outcome(of));
        }
    }
    let mut reasons = BTreeMap::new();
    for spared in &report.spared {
        *reasons.entry(spared.reason).or_insert(0_u32) += 1;
    }
    for (reason, count) in reasons {
        let _ = write!(line, ", {count} spared ({})", spare_reason(reason));
    }
    line
}

/// All of it, in lines that end with a line feed.
pub fn table(report: &Report) -> String {
    let counts = &report.counts;
    let mut text = format!(
        "{}: {} ended, {} alive, {} spared, in {} ms\n",
        verdict(report.verdict),
        counts.exited + counts.terminated + counts.killed,
        counts.survived + counts.skipped,
        counts.spared,
        report.duration_ms
    );
    for reason in &report.reasons {
        let _ = writeln!(text, "  {}", bounded(reason, REASON));
    }
    let mut rows = Vec::new();
    for one in &report.processes {
        let mut outcome = outcome(one.outcome).to_owned();
        if !one.signals.is_empty() {
            let _ = write!(outcome, " ({})", one.signals.join(" "));
        }
        let reason = one.reason.clone().unwrap_or_default();
        rows.push([
            one.pid.to_string(),
            outcome,
            command(&one.comm, &one.cmdline),
            reason,
        ]);
    }
    for one in &report.spared {
        let command = command(&one.comm, &one.cmdline);
        let detail = format!("{}: {}", spare_reason(one.reason), one.detail);
        rows.push([one.pid.to_string(), "spared".to_owned(), command, detail]);
    }
    let widths = [0, 1, 2].map(|at| {
        let width = |row: &[String; 4]| row.get(at).map_or(0, |cell| cell.chars().count());
        rows.iter().map(width).max().unwrap_or(0)
    });
    let [first, second, third] = widths;
    for [pid, outcome, command, reason] in &rows {
        let row = format!("{pid:>first$}  {outcome:second$}  {command:third$}  {reason}");
        text.push_str(bounded(&row, usize::MAX).trim_end());
        text.push('\n');
    }
    for holder in &report.holders {
        text.push_str(&tell_holder(holder));
    }
    text
}

/// `4711 (tail) still uses 2 files: /w/log (deleted, 200.0 MB), /w/x`.
fn tell_holder(holder: &HolderEntry) -> String {
    let who = match holder.pid {
        Some(pid) if holder.comm.is_empty() => format!("the mount namespace of {pid}"),
        Some(pid) => format!("{pid} ({})", bounded(&holder.comm, REASON)),
        None => "this mount namespace".to_owned(),
    };
    let told = |file: &HeldEntry| {
        let mut marks = Vec::new();
        marks.extend((file.kind == HeldBy::Mount).then(|| "mounted".to_owned()));
        marks.extend(file.deleted.then(|| "deleted".to_owned()));
        marks.extend(file.size.map(size));
        let path = bounded(&file.path, REASON);
        if marks.is_empty() {
            return path;
        }
        format!("{path} ({})", marks.join(", "))
    };
    let mut files: Vec<_> = holder.files.iter().take(NAMES).map(told).collect();
    let more = holder.files.len().saturating_sub(NAMES) as u64 + holder.more;
    if more > 0 {
        files.push(format!("and {more} more"));
    }
    format!("{who} still uses: {}\n", files.join(", "))
}

/// Bytes for people.
fn size(bytes: u64) -> String {
    let mut unit = 0;
    let mut scale = 1;
    while bytes / scale >= 1000 && unit < UNITS.len() - 1 {
        unit += 1;
        scale *= 1000;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    if unit == 0 {
        return format!("{bytes} {name}");
    }
    let tenths = bytes / (scale / 10);
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

fn was_ended(one: &ProcessEntry) -> bool {
    matches!(one.outcome, Outcome::Terminated | Outcome::Killed)
}

fn tell_ended(ended: &[&ProcessEntry]) -> String {
    let killed = ended
        .iter()
        .filter(|one| one.outcome == Outcome::Killed)
        .count();
    let by_force = match killed {
        0 => String::new(),
        killed => format!(" ({killed} by SIGKILL)"),
    };
    let (who, were) = (
        number(ended.len(), " that"),
        if ended.len() == 1 { "was" } else { "were" },
    );
    format!("ended {who} {were} left behind{by_force}: {}", names(ended))
}

fn tell_denied(report: &Report) -> Option<String> {
    let denied = |reason: &SpareReason| *reason == SpareReason::PermissionDenied;
    let mut spared = report.spared.iter().filter(|one| denied(&one.reason));
    let first = spared.next()?;
    let more = match spared.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "may not signal {} (pid {}){more}",
        bounded(&first.comm, REASON),
        first.pid
    ))
}

/// `1 process that`, `3 processes that`.
fn number(count: usize, rest: &str) -> String {
    match count {
        1 => format!("1 process{rest}"),
        count => format!("{count} processes{rest}"),
    }
}

/// `sleep ×3, redis-server`, the most frequent first; a single one with its
/// command line and its pid. Whoever is ended right after its fork still has
/// its creator's name, which alone tells nothing.
fn names(processes: &[&ProcessEntry]) -> String {
    if let [one] = processes {
        return format!("{} (pid {})", command(&one.comm, &one.cmdline), one.pid);
    }
    let mut counted: Vec<(String, usize)> = Vec::new();
    let mut sorted: Vec<_> = processes.iter().map(|one| name(one)).collect();
    sorted.sort_unstable();
    for name in sorted {
        match counted.last_mut() {
            Some((last, count)) if *last == name => *count += 1,
            _ => counted.push((name, 1)),
        }
    }
    counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let rest: usize = counted.iter().skip(NAMES).map(|(_, count)| count).sum();
    let mut told: Vec<_> = counted.into_iter().take(NAMES).map(times).collect();
    if rest > 0 {
        told.push(format!("and {rest} more"));
    }
    told.join(", ")
}

fn times((name, count): (String, usize)) -> String {
    if count == 1 {
        name
    } else {
        format!("{name} ×{count}")
    }
}

fn survivors(alive: &[&ProcessEntry]) -> String {
    let told = |one: &&ProcessEntry| match one.state {
        Some(state) => format!("{} (pid {}, state {state})", name(one), one.pid),
        None => format!("{} (pid {})", name(one), one.pid),
    };
    let mut told: Vec<_> = alive.iter().take(SURVIVORS).map(told).collect();
    if alive.len() > SURVIVORS {
        told.push(format!("and {} more", alive.len() - SURVIVORS));
    }
    told.join(", ")
}

fn name(one: &ProcessEntry) -> String {
    if one.comm.is_empty() {
        "?".to_owned()
    } else {
        bounded(&one.comm, REASON)
    }
}

/// The command line, or the name where that is all there is.
fn command(comm: &str, cmdline: &[String]) -> String {
    if cmdline.is_empty() {
        return format!("[{}]", bounded(comm, COMMAND));
    }
    bounded(&cmdline.join(" "), COMMAND)
}

/// Cuts a text. What a report holds is escaped; one from elsewhere might not be.
fn bounded(text: &str, most: usize) -> String {
    let printable = |char: char| if char.is_control() { ' ' } else { char };
    let mut chars = text.chars().map(printable);
    let mut kept: String = chars.by_ref().take(most).collect();
    if chars.next().is_some() {
        kept.push('…');
    }
    kept
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Complete => "complete",
        Verdict::Survivors => "survivors",
        Verdict::Incomplete => "incomplete",
        Verdict::Refused => "refused",
    }
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Exited => "exited",
        Outcome::Terminated => "terminated",
        Outcome::Killed => "killed",
        Outcome::Survived => "survived",
        Outcome::Skipped => "skipped",
    }
}

fn spare_reason(reason: SpareReason) -> &'static str {
    match reason {
        SpareReason::Kept => "kept",
        SpareReason::OtherSession => "of another session",
        SpareReason::Protected => "protected",
        SpareReason::Inconclusive => "inconclusive",
        SpareReason::IdentityChanged => "reused pid",
        SpareReason::Left => "left",
        SpareReason::PermissionDenied => "permission denied",
    }
}

#[cfg(test)]
mod tests;
