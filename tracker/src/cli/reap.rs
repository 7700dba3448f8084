//! `tracker reap`: ends a process with its descendants, what a session owns,
//! or whoever has its working directory in a directory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::daemon::{Connect, failure, is_without_daemon};
use super::duration;
use super::exit::{Exit, Failure};
use super::output;
use super::process_arg::ProcessArg;
use crate::api;
use crate::client::ClientError;
use crate::process::{Cancel, Proc};
use crate::reap::{DirError, DirRequest, Options, Report, TreeRequest, summary};
use crate::source::{Purpose, SourceChoice};
use crate::standalone::{ReapTarget, Standalone, StandaloneError};

/// Ends a process and its descendants, what a session owns, or whoever works in
/// a directory.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A session stays open; `tracker session close` ends it as well. With a daemon, the
descendants of a process are those that it created. Without one this is a look at
/proc: a descendant that was reparented before is not found, so the verdict is
`incomplete` (exit status 4) even when all that was found is dead. START is field 22
of /proc/PID/stat; with it, a process that got a reused pid is never signalled.

--dir ends whoever has its working directory in a removed directory, or with --live in
one that is about to be removed. Look-alike names, other directories that are made or
mounted at the same path, and processes that leave in time are left alone. With a
daemon, so are those of other sessions, and the reap is recorded and tried again until
nobody is left (`tracker reaps`). On a host that has none, it is tried once, and nobody
knows of other sessions; while the daemon of a host is down, nothing is done.

Exit status: 0 nothing in the target is alive, 1 error, 2 usage, 3 survivors,
4 incomplete, 5 refused.

Examples:
  tracker reap --pid 4711 --dry-run
  tracker reap --pid 4711@815 --grace 2s --json
  tracker reap --session build-7 --exclude-root
  tracker reap --dir /build/job-7 --live && rm -rf /build/job-7")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(super) struct Args {
    #[command(flatten)]
    target: Target,
    /// Spare the process itself, or the session's roots
    #[arg(long, conflicts_with = "dir")]
    exclude_root: bool,
    /// The directory is there, and about to be removed
    #[arg(long, requires = "dir")]
    live: bool,
    /// End also who uses files in the directory
    #[arg(long, requires = "dir")]
    open_files: bool,
    /// The time between SIGTERM and SIGKILL
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    grace: Duration,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// With --pid or --dir: do not ask the daemon
    #[arg(long, conflicts_with = "session")]
    standalone: bool,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Target {
    /// The process
    #[arg(long, value_name = "PID[@START]")]
    pid: Option<ProcessArg>,
    /// The session, by id or name
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// The directory: an absolute path
    #[arg(long, value_name = "PATH")]
    dir: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let report = report(args)?;
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(summary::table(&report).trim_end())?;
    }
    Ok(Exit::of_verdict(report.verdict))
}

fn report(args: &Args) -> Result<Report, Failure> {
    if let Some(path) = &args.target.dir {
        return directory(args, path);
    }
    let target = match (&args.target.session, args.target.pid) {
        (Some(session), _) => api::ReapTarget::Session {
            session: session.clone(),
        },
        (None, Some(pid)) => api::ReapTarget::Process {
            pid: pid.for_daemon(&Proc::open()?),
        },
        (None, None) => {
            return Err(anyhow::anyhow!("name a process, a session or a directory").into());
        }
    };
    match args.target.pid {
        Some(pid) if args.standalone => alone(args, &args.tree(pid)),
        pid => match (by_daemon(args, target), pid) {
            (Ok(report), _) => Ok(report),
            (Err(error), Some(pid)) if is_without_daemon(&error)? => alone(args, &args.tree(pid)),
            (Err(error), _) => Err(failure(error)),
        },
    }
}

/// The daemon knows whose the processes are, and tries again what fails.
fn directory(args: &Args, path: &Path) -> Result<Report, Failure> {
    if !args.standalone && path.is_absolute() {
        let target = api::ReapTarget::Directory {
            path: path.into(),
            live: args.live,
            open_files: args.open_files,
        };
        match by_daemon(args, target) {
            Err(error) if is_without_daemon(&error)? => {}
            answer => return answer.map_err(failure),
        }
    }
    let mut request = DirRequest::find(path).map_err(dir_failure)?;
    request.live = args.live;
    request.open_files = args.open_files;
    alone(args, &ReapTarget::Directory(request))
}

fn by_daemon(args: &Args, target: api::ReapTarget) -> Result<Report, ClientError> {
    let request = api::ReapRequest {
        target,
        grace_ms: u64::try_from(args.grace.as_millis()).unwrap_or(u64::MAX),
        dry_run: args.dry_run,
        exclude_root: args.exclude_root,
    };
    args.connect.client()?.reap(&request)
}

impl Args {
    fn tree(&self, pid: ProcessArg) -> ReapTarget {
        ReapTarget::Tree(TreeRequest {
            pid: pid.pid,
            start_time: pid.start_time,
            exclude_root: self.exclude_root,
        })
    }
}

fn alone(args: &Args, target: &ReapTarget) -> Result<Report, Failure> {
    let tracker = Standalone::open(SourceChoice::Procfs, Purpose::Look)?;
    let options = Options {
        grace: args.grace,
        dry_run: args.dry_run,
        ..Options::default()
    };
    match tracker.reap(target, &options, &Cancel::new()?) {
        Ok(report) => Ok(report),
        Err(StandaloneError::Tree(error)) if error.is_refusal() => {
            Err(Failure::new(Exit::REFUSED, error))
        }
        Err(StandaloneError::Dir(error)) => Err(dir_failure(error)),
        Err(error) => Err(error.into()),
    }
}

fn dir_failure(error: DirError) -> Failure {
    let exit = if error.is_refusal() {
        Exit::REFUSED
    } else {
        Exit::ERROR
    };
    Failure::new(exit, error)
}
