//! `tracker tree`: a process and its descendants.

use std::collections::{BTreeMap, HashSet};

use anyhow::{Result, anyhow};
use serde::Serialize;
use termtree::Tree;

use super::exit::{Exit, Failure};
use super::output;
use super::process_arg::ProcessArg;
use crate::process::{Pid, Proc, ProcessId, Seen, StartTime, escape};

/// Shows a process and its descendants, as the parent links of /proc have them
/// now. A descendant that was reparented is not among them.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The process: PID or PID@START
    #[arg(value_name = "PID")]
    process: ProcessArg,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Document {
    schema: u32,
    source: &'static str,
    processes: Vec<Entry>,
}

#[derive(Debug, Serialize)]
struct Entry {
    pid: Pid,
    start_ticks: u64,
    parent_pid: Option<Pid>,
    depth: usize,
    state: char,
    comm: String,
    exe: String,
    cmdline: Vec<String>,
    uid: Option<u32>,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let proc = Proc::open()?;
    let root = args.process.resolve(&proc)?;
    let entries = walk(&proc, root)?;
    if args.json {
        output::print_json(&Document {
            schema: 1,
            source: "procfs",
            processes: entries,
        })?;
        return Ok(Exit::SUCCESS);
    }
    let mut entries = entries.into_iter().peekable();
    let first = entries
        .next()
        .ok_or_else(|| anyhow!("process {root} is gone"))?;
    let mut tree = Tree::new(label(&first));
    grow(&mut tree, first.depth, &mut entries);
    output::print(tree.to_string().trim_end())?;
    Ok(Exit::SUCCESS)
}

/// The root and its descendants, parents before their children.
fn walk(proc: &Proc, root: ProcessId) -> Result<Vec<Entry>> {
    let mut children: BTreeMap<Pid, Vec<Seen>> = BTreeMap::new();
    let mut first = None;
    for seen in proc.scan()? {
        if seen.id == root {
            first = Some(seen);
        } else if let Some(parent) = seen.stat.parent {
            children.entry(parent).or_default().push(seen);
        }
    }
    let mut entries = Vec::new();
    let mut visited = HashSet::new();
    let mut pending: Vec<(Seen, usize)> = first.map(|seen| (seen, 0)).into_iter().collect();
    while let Some((seen, depth)) = pending.pop() {
        // A pid that was reused during the scan must not make a circle.
        if !visited.insert(seen.id.pid) {
            continue;
        }
        for child in children
            .remove(&seen.id.pid)
            .unwrap_or_default()
            .into_iter()
            .rev()
        {
            // Somebody who is older than the holder of this pid is not its child.
            if child.id.start_time >= seen.id.start_time {
                pending.push((child, depth + 1));
            }
        }
        entries.push(entry(proc, &seen, depth)?);
    }
    Ok(entries)
}

fn entry(proc: &Proc, seen: &Seen, depth: usize) -> Result<Entry> {
    let pid = seen.id.pid;
    let cmdline = proc.cmdline(pid)?.unwrap_or_default();
    Ok(Entry {
        pid,
        start_ticks: shown(proc, seen.id.start_time),
        parent_pid: seen.stat.parent,
        depth,
        state: seen.stat.state.letter(),
        comm: escape(&seen.stat.comm),
        exe: escape(&proc.exe(pid).unwrap_or_default()),
        cmdline: cmdline.iter().map(|argument| escape(argument)).collect(),
        uid: proc.uid(pid)?,
    })
}

fn shown(proc: &Proc, start_time: StartTime) -> u64 {
    proc.clock().to_shown(start_time).ticks()
}

fn label(entry: &Entry) -> String {
    let words = if entry.cmdline.is_empty() {
        format!("[{}]", entry.comm)
    } else {
        entry.cmdline.join(" ")
    };
    let zombie = if entry.state == 'Z' { " (zombie)" } else { "" };
    format!("{} {words}{zombie}", entry.pid)
}

/// Takes what lies below `depth` from `entries`, which come in depth-first order.
fn grow(
    tree: &mut Tree<String>,
    depth: usize,
    entries: &mut std::iter::Peekable<impl Iterator<Item = Entry>>,
) {
    while let Some(entry) = entries.next_if(|next| next.depth > depth) {
        let mut child = Tree::new(label(&entry));
        grow(&mut child, entry.depth, entries);
        tree.push(child);
    }
}
