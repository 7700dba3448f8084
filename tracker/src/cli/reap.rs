//! `tracker reap`: ends a process with its descendants.

use std::time::Duration;

use super::duration;
use super::exit::{Exit, Failure};
use super::output;
use super::process_arg::ProcessArg;
use crate::embedded::{ReapTarget, Tracker, TrackerError};
use crate::process::Cancel;
use crate::reap::{Options, TreeRequest, summary};
use crate::source::{Purpose, SourceChoice};

/// Ends a process and its descendants.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without a daemon this is a look at /proc: a descendant that was reparented before
is not found, so the verdict is `incomplete` (exit status 4) even when all that was
found is dead. START is field 22 of /proc/PID/stat; with it, a process that got a
reused pid is never signalled.

Exit status: 0 nothing in the target is alive, 1 error, 2 usage, 3 survivors,
4 incomplete, 5 refused.

Examples:
  tracker reap --pid 4711 --dry-run
  tracker reap --pid 4711@815 --grace 2s --json")]
pub(super) struct Args {
    /// The process
    #[arg(long, value_name = "PID[@START]")]
    pid: ProcessArg,
    /// End the descendants only
    #[arg(long)]
    exclude_root: bool,
    /// The time between SIGTERM and SIGKILL
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    grace: Duration,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let tracker = Tracker::open(SourceChoice::Procfs, Purpose::Look)?;
    let target = ReapTarget::Tree(TreeRequest {
        pid: args.pid.pid,
        start_time: args.pid.start_time,
        exclude_root: args.exclude_root,
    });
    let options = Options {
        grace: args.grace,
        dry_run: args.dry_run,
        ..Options::default()
    };
    let report = match tracker.reap(&target, &options, &Cancel::new()?) {
        Ok(report) => report,
        Err(TrackerError::Tree(error)) if error.is_refusal() => {
            return Err(Failure::new(Exit::REFUSED, error));
        }
        Err(error) => return Err(error.into()),
    };
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(summary::table(&report).trim_end())?;
    }
    Ok(Exit::of_verdict(report.verdict))
}
