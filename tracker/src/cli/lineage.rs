//! `tracker lineage`: who created a process.

use super::daemon::Question;
use super::draw::Style;
use super::exit::{Exit, Failure};
use super::output;
use crate::api::Ancestor;
use crate::client::blocking;
use crate::process::Proc;

/// Shows who created a process, who created that one, and so on to the root,
/// dead ones too. /proc shows whom an orphan was handed to instead.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    question: Question,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let proc = Proc::open()?;
    let lineage = args.question.ask(&proc, blocking::Client::lineage)?;
    if args.question.json {
        output::print_json(&lineage)?;
        return Ok(Exit::SUCCESS);
    }
    let mut lines = chain(Style::of_stdout(proc.clock()), &lineage.chain);
    if !lineage.reached_root {
        lines.push("who created that one is not known".to_owned());
    }
    output::print(lines.join("\n"))?;
    Ok(Exit::SUCCESS)
}

/// One line an ancestor.
pub(super) fn chain(style: Style, chain: &[Ancestor]) -> Vec<String> {
    let mut lines = Vec::new();
    for step in chain {
        if step.skipped_before > 0 {
            lines.push(format!(
                "  ... {} dead ancestors that are forgotten ...",
                step.skipped_before
            ));
        }
        lines.push(style.line("", &step.process, &style.id(step.process.id)));
    }
    lines
}
