//! `tracker tree`: processes, and who created them.

use std::collections::{BTreeMap, HashSet};

use super::daemon::{Connect, failure, shown};
use super::draw::Style;
use super::exit::{Exit, Failure};
use super::output;
use super::process_arg::ProcessArg;
use crate::api::{Process, Tree, TreeQuery};
use crate::client::ClientError;
use crate::lineage::SessionId;
use crate::process::{Pid, Proc, ProcessId, Seen, escape};
use crate::source::SourceKind;

/// Shows processes below those who created them: of a session, below a
/// process, or of the whole host. Without a daemon, a process with its
/// descendants, as the parent links of /proc have them now; who was reparented is
/// not among them.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A session by id or name, or a process: PID or PID@START
    #[arg(value_name = "SESSION|PID")]
    what: Option<String>,
    /// The dead as well, as far as they are remembered
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let proc = Proc::open()?;
    let process = args.what.as_deref().map(process).transpose()?.flatten();
    let query = TreeQuery {
        session: args.what.clone().filter(|_| process.is_none()),
        pid: process.map(|process| process.for_daemon(&proc).to_string()),
        all: args.all,
    };
    let client = args.connect.client()?;
    let without_daemon = |error| match (error, process) {
        (ClientError::NoDaemon { .. }, Some(process)) if !args.all => {
            by_parents(&proc, process.resolve(&proc)?)
        }
        (error, _) => Err(failure(error)),
    };
    if args.json {
        match client.tree_text(&query) {
            // Megabytes, on a large host, that are not to be read and written again.
            Ok(text) => output::print_bytes(&text)?,
            Err(error) => output::print_json(&without_daemon(error)?)?,
        }
        return Ok(Exit::SUCCESS);
    }
    let tree = client.tree(&query).or_else(without_daemon)?;
    let style = Style::of_stdout(proc.clock());
    output::print(style.forest(&tree.processes).trim_end())?;
    Ok(Exit::SUCCESS)
}

/// The process that is meant, if it is one and not a session.
fn process(what: &str) -> Result<Option<ProcessArg>, Failure> {
    let digits = what.split('@').next().unwrap_or_default();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // The id of a session may have no letter.
    if !is_number || what.parse::<SessionId>().is_ok() {
        return Ok(None);
    }
    what.parse::<ProcessArg>().map(Some).map_err(|error| {
        let why = anyhow::anyhow!("'{}' is no process: {error}", escape(what.as_bytes()));
        Failure::new(Exit::USAGE, why)
    })
}

/// A process and its descendants by the parent links of `/proc`.
fn by_parents(proc: &Proc, root: ProcessId) -> Result<Tree, Failure> {
    let mut children: BTreeMap<Pid, Vec<Seen>> = BTreeMap::new();
    let mut first = None;
    for seen in proc.scan()? {
        if seen.id == root {
            first = Some(seen);
        } else if let Some(parent) = seen.stat.parent {
            children.entry(parent).or_default().push(seen);
        }
    }
    let Some(first) = first else {
        let id = shown(proc.clock(), root.pid, root.start_time.ticks());
        return Err(anyhow::anyhow!("process {id} is gone").into());
    };
    let mut processes = Vec::new();
    let mut visited = HashSet::new();
    let mut pending = vec![(first, None)];
    while let Some((seen, below)) = pending.pop() {
        // A pid that was reused during the scan must not make a circle.
        if !visited.insert(seen.id.pid) {
            continue;
        }
        // Somebody who is older than the holder of this pid is not its child.
        let is_younger = |child: &Seen| child.id.start_time >= seen.id.start_time;
        let found = children
            .remove(&seen.id.pid)
            .unwrap_or_default()
            .into_iter();
        pending.extend(found.filter(is_younger).map(|child| (child, Some(seen.id))));
        processes.push(shape(proc, &seen, below)?);
    }
    processes.sort_unstable_by_key(|process| (process.id.start_ticks, process.id.pid));
    Ok(Tree {
        source: SourceKind::Procfs,
        processes,
    })
}

fn shape(proc: &Proc, seen: &Seen, below: Option<ProcessId>) -> Result<Process, Failure> {
    let pid = seen.id.pid;
    let cmdline = proc.cmdline(pid)?;
    let words = |argv: Vec<Vec<u8>>| argv.iter().map(|argument| escape(argument)).collect();
    Ok(Process {
        id: seen.id.into(),
        // A parent need not be the creator.
        creator: None,
        skipped_ancestors: 0,
        below: below.map(Into::into),
        session: None,
        kept: false,
        comm: escape(&seen.stat.comm),
        exe: proc.exe(pid).as_deref().map(escape),
        cmdline: cmdline.map(words),
        truncated: false,
        uid: proc.uid(pid)?,
        fork_ns: seen
            .id
            .start_time
            .ticks()
            .saturating_mul(tracker_ebpf::NS_PER_TICK),
        exec_ns: None,
        exit: None,
    })
}
