//! `tracker reaps`: what was reaped, and what the daemon still tries to.

use std::fmt::Write;
use std::time::Duration;

use super::daemon::{Connect, failure};
use super::exit::{Exit, Failure};
use super::output;
use crate::api::{Reap, ReapsQuery};
use crate::lineage::SessionId;
use crate::process::escape;
use crate::reap::summary;
use crate::store::{ReapState, unix_ms};

/// Show the last reaps, under way, waiting and over, or the report of one
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A reap that leaves somebody alive is waiting: the daemon tries again, after one second,
then two, then four, up to a minute, also when it was restarted.

Examples:
  tracker reaps
  tracker reaps 6f2b9c01d4e7a3b0
  tracker reaps 6f2b9c01d4e7a3b0 --cancel")]
pub(super) struct Args {
    /// Show all of this one, with its report
    reap: Option<String>,
    /// Give it up: an attempt that is under way sends no further signal, and there is
    /// none after it
    #[arg(long, requires = "reap")]
    cancel: bool,
    /// Only those of this session
    #[arg(long, value_name = "ID", conflicts_with = "reap")]
    session: Option<SessionId>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.reap {
        Some(id) => one(args, id),
        None => list(args),
    }
}

fn one(args: &Args, id: &str) -> Result<Exit, Failure> {
    let client = args.connect.client()?;
    let reap = if args.cancel {
        client.give_up_reap(id)
    } else {
        client.one_reap(id)
    };
    let reap = reap.map_err(failure)?;
    if args.json {
        output::print_json(&reap)?;
        return Ok(Exit::SUCCESS);
    }
    let mut text = line(&reap, unix_ms());
    if let Some(report) = &reap.report {
        text.push('\n');
        text.push_str(summary::table(report).trim_end());
    }
    output::print(text)?;
    Ok(Exit::SUCCESS)
}

fn list(args: &Args) -> Result<Exit, Failure> {
    let query = ReapsQuery {
        session: args.session,
    };
    let list = args.connect.client()?.reaps(&query).map_err(failure)?;
    if args.json {
        output::print_json(&list)?;
        return Ok(Exit::SUCCESS);
    }
    if list.reaps.is_empty() {
        output::print("no reap is remembered")?;
        return Ok(Exit::SUCCESS);
    }
    let now = unix_ms();
    let lines: Vec<_> = list.reaps.iter().map(|reap| line(reap, now)).collect();
    output::print(lines.join("\n"))?;
    Ok(Exit::SUCCESS)
}

/// "6f2b9c01d4e7a3b0  waiting  3m ago  directory /w/job-7, attempt 3, next in 4s".
fn line(reap: &Reap, now_ms: i64) -> String {
    // Escaped by the daemon.
    let what = match (&reap.session, &reap.directory) {
        (Some(session), Some(directory)) => format!("session {session} in {directory}"),
        (Some(session), None) => format!("session {session}"),
        (None, Some(directory)) => format!("directory {directory}"),
        (None, None) => "a process".to_owned(),
    };
    let mut line = format!(
        "{}  {:11}  {:>8}  {what}",
        escape(reap.id.as_bytes()),
        state(reap.state),
        format!("{} ago", span(now_ms.saturating_sub(reap.requested_ms))),
    );
    if reap.attempts > 1 || reap.state == ReapState::Waiting {
        let _ = write!(line, ", attempt {}", reap.attempts);
    }
    if let Some(due_ms) = reap.due_ms {
        let _ = write!(line, ", next in {}", span(due_ms.saturating_sub(now_ms)));
    }
    if let Some(error) = &reap.error {
        let _ = write!(line, ": {}", escape(error.as_bytes()));
    }
    line
}

fn state(state: ReapState) -> &'static str {
    match state {
        ReapState::Running => "running",
        ReapState::Waiting => "waiting",
        ReapState::Done => "done",
        ReapState::Failed => "failed",
        ReapState::Interrupted => "interrupted",
    }
}

/// Milliseconds in the largest unit that they fill.
fn span(ms: i64) -> String {
    let seconds = Duration::from_millis(u64::try_from(ms).unwrap_or(0)).as_secs();
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7199 => format!("{}m", seconds / 60),
        7200..=172_799 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reap() -> Reap {
        Reap {
            id: "6f2b9c01d4e7a3b0".to_owned(),
            state: ReapState::Done,
            session: Some("00000000002a".to_owned()),
            directory: None,
            owner_uid: 0,
            attempts: 1,
            requested_ms: 1_000_000,
            finished_ms: None,
            due_ms: None,
            report: None,
            error: None,
        }
    }

    #[test]
    fn a_line_says_what_how_long_ago_and_what_comes_next() {
        assert_eq!(
            line(&reap(), 1_090_000),
            "6f2b9c01d4e7a3b0  done          90s ago  session 00000000002a"
        );
        let waiting = Reap {
            state: ReapState::Waiting,
            directory: Some("/w/job\\n7".to_owned()),
            session: None,
            attempts: 3,
            due_ms: Some(1_600_000),
            error: Some("the file system\nof /w does not answer".to_owned()),
            ..reap()
        };
        assert_eq!(
            line(&waiting, 1_596_000),
            "6f2b9c01d4e7a3b0  waiting        9m ago  directory /w/job\\n7, attempt 3, next in 4s: \
             the file system\\nof /w does not answer"
        );
    }

    #[test]
    fn a_clock_that_was_set_back_makes_no_negative_span() {
        assert_eq!((span(-5), span(119_999)), ("0s".into(), "119s".into()));
        assert_eq!(
            (span(7_200_000), span(172_800_000)),
            ("2h".into(), "2d".into())
        );
    }
}
