//! `tracker why`: who owns a process, and what a reap would do with it.

use super::daemon::{Connect, failure};
use super::draw::Style;
use super::exit::{Exit, Failure};
use super::lineage::chain;
use super::output;
use super::process_arg::ProcessArg;
use crate::api::Verdict;
use crate::process::{Proc, escape};

/// Says which session owns a process, by which chain of evidence, and what a
/// reap of that session would do with it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The process: PID or PID@START
    #[arg(value_name = "PID")]
    process: ProcessArg,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let proc = Proc::open()?;
    let process = args.process.for_daemon(&proc);
    let why = args.connect.client()?.why(process).map_err(failure)?;
    if args.json {
        output::print_json(&why)?;
        return Ok(Exit::SUCCESS);
    }
    let mut lines = chain(Style::of_stdout(proc.clock()), &why.chain);
    lines.push(String::new());
    for (at, session) in why.sessions.iter().enumerate() {
        let place = if at == 0 { "owned by" } else { "inside  " };
        let name = escape(session.name.as_bytes());
        lines.push(format!(
            "{place} session {} '{name}', uid {}",
            session.id, session.owner_uid
        ));
    }
    lines.extend(
        why.evidence
            .iter()
            .map(|evidence| format!("because  {}", evidence.detail)),
    );
    let verdict = match why.verdict {
        Verdict::End => "would be ended",
        Verdict::Spare { .. } => "would be spared",
        Verdict::Nothing | Verdict::NotOwned => "would not be touched",
    };
    lines.push(format!("by a reap it {verdict}: {}", why.detail));
    output::print(lines.join("\n"))?;
    Ok(Exit::SUCCESS)
}
