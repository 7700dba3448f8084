//! `tracker events`: what happens, and what happened, to processes.

use super::daemon::{Connect, failure};
use super::draw::Style;
use super::exit::{Exit, Failure};
use super::output;
use crate::api::{Event, EventKind, EventsQuery, Process, TreeQuery};
use crate::client::Streamed;
use crate::process::Proc;

/// Shows what happened to processes, as far as it is remembered, or what
/// happens from now on. The first column is the time since boot in seconds.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Those of this session, by id or name, and of those inside it
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Show what happens from now on, until interrupted
    #[arg(short, long)]
    follow: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let client = args.connect.client()?;
    let style = Style::of_stdout(Proc::open()?.clock());
    let show = |event: &Event| -> Result<(), Failure> {
        if args.json {
            output::print(serde_json::to_string(event)?)?;
        } else {
            output::print(line(style, event))?;
        }
        Ok(())
    };
    if !args.follow {
        let query = TreeQuery {
            session: args.session.clone(),
            pid: None,
            all: true,
        };
        let tree = client.tree(&query).map_err(failure)?;
        let mut events: Vec<Event> = tree.processes.iter().flat_map(remembered).collect();
        events.sort_by_key(|event| event.time_ns);
        events.iter().try_for_each(show)?;
        return Ok(Exit::SUCCESS);
    }
    let query = EventsQuery {
        session: args.session.clone(),
    };
    for streamed in client.events(&query).map_err(failure)? {
        match streamed.map_err(failure)? {
            Streamed::Event(event) => show(&event)?,
            Streamed::Missed(count) => output::complain(&format!("{count} events were missed")),
        }
    }
    Err(anyhow::anyhow!("the daemon has ended").into())
}

/// What a process's entry says of its past.
fn remembered(process: &Process) -> Vec<Event> {
    let event = |kind, time_ns| Event {
        kind,
        time_ns,
        id: process.id,
        session: process.session,
        creator: None,
        comm: None,
        exe: None,
        cmdline: None,
        exit: None,
    };
    let mut events = vec![Event {
        creator: process.creator,
        ..event(EventKind::Fork, process.fork_ns)
    }];
    events.extend(process.exec_ns.map(|time_ns| Event {
        comm: Some(process.comm.clone()),
        exe: process.exe.clone(),
        cmdline: process.cmdline.clone(),
        ..event(EventKind::Exec, time_ns)
    }));
    events.extend(process.exit.map(|exit| Event {
        exit: Some(exit),
        ..event(EventKind::Exit, exit.time_ns)
    }));
    events
}

fn line(style: Style, event: &Event) -> String {
    let seconds = event.time_ns / 1_000_000_000;
    let micros = event.time_ns / 1_000 % 1_000_000;
    let session = event
        .session
        .map_or_else(|| "-".to_owned(), |session| session.to_string());
    let (kind, detail) = match event.kind {
        EventKind::Fork => {
            let by = event
                .creator
                .map(|creator| format!("by {}", style.id(creator)));
            ("fork", by.unwrap_or_default())
        }
        EventKind::Exec => ("exec", event.cmdline.clone().unwrap_or_default().join(" ")),
        EventKind::Exit => {
            let how = event.exit.map(|exit| match (exit.code, exit.signal) {
                (Some(code), _) => format!("exit {code}"),
                (_, Some(signal)) => format!("signal {signal}"),
                (None, None) => "dead".to_owned(),
            });
            ("exit", how.unwrap_or_default())
        }
    };
    format!(
        "{seconds}.{micros:06}  {kind}  {:20}  {session:12}  {detail}",
        style.id(event.id)
    )
}
