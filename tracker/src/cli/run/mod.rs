//! `tracker run`: runs a command, and ends what it leaves behind.

mod backend;
mod closing;
mod daemon;
mod forwarding;
mod jobs;
mod report;
mod status;
mod supervise;
mod teardown;
mod terminal;

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::Resource;

use super::duration;
use super::exit::{Exit, Failure};
use super::output;
use crate::lineage::SessionId;
use crate::process::launch::{Gated, Inherited, Launch, SignalStream, Signals};
use crate::process::{Proc, Workdir, escape};
use crate::reap::{Options, Report, summary};
use crate::session::{KeepRule, OpenSession, Root};
use crate::source::{Purpose, SourceChoice, Standby};
use crate::standalone::Standalone;
use backend::Backend;
use daemon::DaemonSession;
use report::Destination;
use status::Ended;
use supervise::Supervisor;

/// Tells the command, and whatever it starts, which session it is in.
const VARIABLE: &str = "TRACKER_SESSION";
/// Digits of a session id.
const ID_LEN: usize = 12;
/// How often the source is asked for what happened.
const PUMP_INTERVAL: Duration = Duration::from_millis(100);
/// For ever: the thread for what blocks may be impossible to start again.
const KEEP_ALIVE: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
/// The source is asked for at most this part of the time.
const PUMP_SHARE: u32 = 10;

/// Run a command, and end what it leaves behind
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The command gets what tracker got: terminal, process group, descriptors, signal mask
and dispositions, working directory, environment, and TRACKER_SESSION besides. When
it ends, its descendants get SIGTERM, after the grace SIGKILL, wherever they went.

Signals that tracker gets are passed on to the command, but for those that the terminal
sends to both (Ctrl-C) and those that the command or its descendants send. While what is
left is being ended, SIGINT, SIGTERM, SIGHUP or SIGQUIT cuts the grace short (SIGKILL at
once), and one more gives up: what is alive then is named.

Exit status: that of the command; 128 + n when signal n ended it;
  127 command not found, 126 it cannot be executed, 125 tracker could not start it;
  and when the command ended with 0:
  121 something is alive, or that nothing is cannot be proven, or there is no report,
  120 with --fail-on-leak: something was left behind.

Examples:
  tracker run -- make test
  tracker run --grace 0 --fail-on-leak -- ./ci.sh
  tracker run --workdir /build/job-7 -- make && rm -rf /build/job-7
  tracker run --keep postgres --report reap.json -- ./start-services")]
pub(super) struct Args {
    /// Name of the session [default: that of the command]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The time between SIGTERM and SIGKILL
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    grace: Duration,
    /// Leave alone what matches, and its descendants: the name of a program, its
    /// path, or a pattern like 'redis-*'; can be repeated
    #[arg(long, value_name = "PATTERN")]
    keep: Vec<KeepRule>,
    /// The directory that the command works in and that goes away after it: whoever
    /// has its working directory there then, and is nobody else's, is ended too
    #[arg(long, value_name = "DIR")]
    workdir: Option<PathBuf>,
    /// Exit with 120 when something was left behind
    #[arg(long)]
    fail_on_leak: bool,
    /// Only say what was left behind, and leave it alone
    #[arg(long)]
    no_reap: bool,
    /// Write the report to a file as JSON; - for stdout
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// How to track; auto takes the best that works
    #[arg(long, value_name = "SOURCE", default_value = "auto")]
    source: SourceChoice,
    /// Do not ask the daemon of the host, even if there is one
    #[arg(long)]
    standalone: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let not_started = |failure: Failure| failure.with_exit(Exit::NOT_STARTED);
    let destination = args.report.as_deref().map(Destination::new).transpose();
    let destination = destination.map_err(|error| not_started(error.into()))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(1)
        .thread_keep_alive(KEEP_ALIVE)
        .build()
        .map_err(|error| not_started(error.into()))?;
    let _entered = runtime.enter();
    let started = start(args).map_err(not_started)?;
    runtime.block_on(attend(args, started, destination))
}

/// A command that runs, and whatever watches it.
struct Started {
    supervisor: Supervisor,
    tracker: Backend,
    session: SessionId,
    workdir: Option<Workdir>,
}

/// Starts the command, tracked from its first instruction.
fn start(args: &Args) -> Result<Started, Failure> {
    let proc = Proc::open()?;
    let workdir = args.workdir.as_deref();
    let workdir = workdir.map(|path| Workdir::find(&proc, path)).transpose()?;
    let signals = Signals::take_over()?;
    let may_ask = !args.standalone && args.source == SourceChoice::Auto;
    let standby = may_ask.then(|| Standby::new(&proc)).transpose()?;
    // Forked early, when there is nothing yet that it could get a copy of.
    let gated = fork(args, &proc)?;
    raise_open_files();
    let signals = SignalStream::new(signals)?;
    let (tracker, session) = track(args, &gated, workdir.as_ref(), standby)?;
    // The one thread for what blocks, and that is the teardown too: it has to be
    // there before the command can use up the pids of a cgroup that it shares
    // with tracker.
    drop(tokio::task::spawn_blocking(|| ()));
    let child = gated.release(&session.to_string())?;
    let supervisor = Supervisor::new(signals, child, tracker.clone(), proc);
    Ok(Started {
        supervisor,
        tracker,
        session,
        workdir,
    })
}

/// Lets the daemon track the command if it may, and this process otherwise.
fn track(
    args: &Args,
    gated: &Gated,
    workdir: Option<&Workdir>,
    standby: Option<Standby>,
) -> Result<(Backend, SessionId), Failure> {
    let name = args.session_name();
    if let Some(standby) = standby {
        let request = daemon::Request {
            name: name.clone(),
            root: gated.id(),
            keep: args.keep.clone(),
            workdir: workdir.cloned(),
        };
        if let Some(session) = DaemonSession::open(request, standby) {
            let id = session.id();
            return Ok((Backend::Daemon(session), id));
        }
    }
    let tracker = Standalone::open(args.source, Purpose::Run)?;
    let session = tracker.open_session(OpenSession {
        name,
        root: Root::Fresh(gated.id()),
        owner_uid: rustix::process::getuid().as_raw(),
        keep: args.keep.clone(),
        workdir: workdir.cloned(),
    })?;
    Ok((Backend::Own(tracker), session))
}

fn fork(args: &Args, proc: &Proc) -> Result<Gated, Failure> {
    let (program, arguments) = args.command.split_first().context("no command")?;
    let launch = Launch {
        program: program.clone(),
        args: arguments.to_vec(),
        variable: VARIABLE,
        value_len: ID_LEN,
        inherited: Inherited::at_start(),
    };
    Ok(launch.fork(proc)?)
}

/// Lets tracker have as many descriptors as it may: a reap is quicker with one
/// for each process. The command was forked before, and keeps its limit.
fn raise_open_files() {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without them it takes longer, and is done all the same.
    let _ = rustix::process::setrlimit(Resource::Nofile, limit);
}

/// Waits for the command, and ends what it leaves behind.
async fn attend(
    args: &Args,
    mut started: Started,
    destination: Option<Destination>,
) -> Result<Exit, Failure> {
    let ended = tokio::select! {
        ended = started.supervisor.until_end() => ended?,
        never = pump(&started.tracker) => match never {},
    };
    if let Ended::NotExecuted(error) = &ended {
        output::complain(&error.to_string());
    }
    let options = Options {
        grace: args.grace,
        dry_run: args.no_reap,
        ..Options::default()
    };
    let Started {
        supervisor,
        tracker,
        session,
        workdir,
    } = &mut started;
    let workdir = workdir.as_ref();
    let report = teardown::tear_down(supervisor, tracker, *session, workdir, options).await;
    let report = report.map_err(|error| output::complain(&Failure::from(error).to_string()));
    let report = report
        .ok()
        .filter(|report| tell(report, destination.as_ref()));
    Ok(status::exit(&ended, report.as_ref(), args.fail_on_leak))
}

/// Takes in what happened, from time to time. A source that cannot be asked
/// now may be asked later; what it missed it will say in the report.
async fn pump(tracker: &Backend) -> Infallible {
    loop {
        tokio::time::sleep(PUMP_INTERVAL).await;
        let tracker = tracker.clone();
        let before = Instant::now();
        let pumped = tokio::task::spawn_blocking(move || tracker.pump()).await;
        if let Ok(Err(error)) = pumped {
            tracing::info!(%error, "the source cannot be asked");
        }
        // Thousands of processes make a snapshot of /proc slow.
        let rest = before.elapsed() * PUMP_SHARE;
        tokio::time::sleep(rest.saturating_sub(PUMP_INTERVAL)).await;
    }
}

/// Says what was left behind. False when the report did not get to where it
/// was to go.
fn tell(report: &Report, destination: Option<&Destination>) -> bool {
    if let Some(line) = summary::line(report) {
        output::tell(&line);
    }
    let Some(destination) = destination else {
        return true;
    };
    match destination.write(report) {
        Ok(()) => true,
        Err(error) => {
            output::complain(&Failure::from(error).to_string());
            false
        }
    }
}

impl Args {
    fn session_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| {
            let program = self.command.first().map(Path::new);
            let name = program.and_then(Path::file_name).unwrap_or_default();
            escape(name.as_encoded_bytes())
        })
    }
}
