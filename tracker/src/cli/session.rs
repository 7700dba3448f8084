//! `tracker session`: sessions of the daemon.

use std::path::PathBuf;
use std::time::Duration;

use super::daemon::{Connect, failure, parent};
use super::duration;
use super::exit::{Exit, Failure};
use super::output;
use super::process_arg::ProcessArg;
use crate::api;
use crate::process::{Proc, escape};
use crate::reap::summary;

/// Opens, shows and ends sessions. A session owns all that its members create,
/// however they detach.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Open a session for a process that is running; prints its id
    #[command(after_help = "\
Example, in a script whose leftovers are to go:
  id=$(tracker session open --self --name build --workdir \"$WORKTREE\")
  trap 'tracker session close \"$id\" --grace 3s' EXIT")]
    Open(Open),
    /// Show the open sessions
    List(List),
    /// Show one session
    Show(Show),
    /// End what a session owns, and the session
    #[command(after_help = "\
Who is left in the session's --workdir, and is nobody else's, is ended when the session's
own processes are dead. Exit status: 0 nothing of it is alive, 1 error, 2 usage,
3 survivors (the session stays open, and the daemon tries again by itself: see
`tracker reaps`), 4 incomplete, 5 refused. The daemon goes on when this is interrupted.")]
    Close(Close),
}

#[derive(Debug, clap::Args)]
#[group(id = "whom", required = true, multiple = false)]
struct Whom {
    /// The process
    #[arg(long, value_name = "PID[@START]", group = "whom")]
    pid: Option<ProcessArg>,
    /// The process that started this command
    #[arg(long = "self", group = "whom")]
    own: bool,
}

#[derive(Debug, clap::Args)]
struct Open {
    #[command(flatten)]
    whom: Whom,
    /// What to call it
    #[arg(long)]
    name: Option<String>,
    /// The directory that it works in and that goes away after it: whoever has its
    /// working directory there when the session is closed, and is nobody else's, is
    /// ended too
    #[arg(long, value_name = "DIR")]
    workdir: Option<PathBuf>,
    /// Spare what matches, and its descendants: a name, a path, a pattern, or PID@START
    #[arg(long, value_name = "PATTERN")]
    keep: Vec<String>,
    /// Print the session as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, clap::Args)]
struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, clap::Args)]
struct Show {
    /// Its id or name
    session: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, clap::Args)]
struct Close {
    /// Its id or name
    session: String,
    /// The time between SIGTERM and SIGKILL
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    grace: Duration,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.action {
        Action::Open(args) => open(args),
        Action::List(args) => list(args),
        Action::Show(args) => show(args),
        Action::Close(args) => close(args),
    }
}

fn open(args: &Open) -> Result<Exit, Failure> {
    let pid = match args.whom.pid {
        Some(pid) => pid.for_daemon(&Proc::open()?),
        None => parent()?,
    };
    let request = api::OpenSession {
        name: args.name.clone(),
        pid,
        keep: args.keep.clone(),
        workdir: args.workdir.as_deref().map(Into::into),
    };
    let session = args
        .connect
        .client()?
        .open_session(&request)
        .map_err(failure)?;
    if args.json {
        output::print_json(&session)?;
    } else {
        output::print(session.id)?;
    }
    Ok(Exit::SUCCESS)
}

fn list(args: &List) -> Result<Exit, Failure> {
    let list = args.connect.client()?.sessions().map_err(failure)?;
    if args.json {
        output::print_json(&list)?;
        return Ok(Exit::SUCCESS);
    }
    if list.sessions.is_empty() {
        output::print("no session is open")?;
        return Ok(Exit::SUCCESS);
    }
    let mut lines = vec![format!(
        "{:12}  {:>5}  {:>6}  {:7}  NAME",
        "ID", "ALIVE", "UID", "STATE"
    )];
    for session in &list.sessions {
        lines.push(format!(
            "{:12}  {:>5}  {:>6}  {:7}  {}",
            session.id,
            session.alive,
            session.owner_uid,
            state(session),
            escape(session.name.as_bytes())
        ));
    }
    output::print(lines.join("\n"))?;
    Ok(Exit::SUCCESS)
}

fn show(args: &Show) -> Result<Exit, Failure> {
    let session = args
        .connect
        .client()?
        .session(&args.session)
        .map_err(failure)?;
    if args.json {
        output::print_json(&session)?;
        return Ok(Exit::SUCCESS);
    }
    let roots: Vec<_> = session
        .roots
        .iter()
        .map(|root| format!("{}@{}", root.pid, root.start_ticks))
        .collect();
    let mut lines = vec![
        format!("session  {}", session.id),
        format!("name     {}", escape(session.name.as_bytes())),
        format!("state    {}", state(&session)),
        format!("alive    {}", session.alive),
        format!("roots    {}", roots.join(" ")),
        format!("owner    uid {}", session.owner_uid),
    ];
    lines.extend(session.parent.map(|parent| format!("inside   {parent}")));
    if let Some(workdir) = session.workdir {
        let path = PathBuf::from(workdir);
        let path = escape(path.as_os_str().as_encoded_bytes());
        lines.push(format!("workdir  {path}"));
    }
    if !session.keep.is_empty() {
        lines.push(format!(
            "keeps    {}",
            escape(session.keep.join(" ").as_bytes())
        ));
    }
    output::print(lines.join("\n"))?;
    Ok(Exit::SUCCESS)
}

fn close(args: &Close) -> Result<Exit, Failure> {
    let grace_ms = u64::try_from(args.grace.as_millis()).unwrap_or(u64::MAX);
    let request = api::CloseSession {
        grace_ms,
        dry_run: args.dry_run,
    };
    let client = args.connect.client()?;
    let report = client
        .close_session(&args.session, &request)
        .map_err(failure)?;
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(summary::table(&report).trim_end())?;
    }
    Ok(Exit::of_verdict(report.verdict))
}

fn state(session: &api::SessionInfo) -> &'static str {
    match session.state {
        crate::session::SessionState::Open => "open",
        crate::session::SessionState::Closing => "closing",
    }
}
