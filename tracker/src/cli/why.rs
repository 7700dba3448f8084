//! `tracker why`: who owns a process, and what a reap would do with it.

use super::daemon::Question;
use super::draw::Style;
use super::exit::{Exit, Failure};
use super::lineage::chain;
use super::output;
use crate::api::Verdict;
use crate::client::blocking;
use crate::process::{Proc, escape};

/// Says which session owns a process, by which chain of evidence, and what a
/// reap of that session would do with it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    question: Question,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let proc = Proc::open()?;
    let why = args.question.ask(&proc, blocking::Client::why)?;
    if args.question.json {
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
