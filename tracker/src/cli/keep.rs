//! `tracker keep`: spares a process.

use super::daemon::{Connect, failure};
use super::exit::{Exit, Failure};
use super::output;
use super::process_arg::ProcessArg;
use crate::api;
use crate::process::Proc;

/// Spares a process and its descendants in every reap, for as long as they live.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The process: PID or PID@START
    #[arg(value_name = "PID")]
    process: ProcessArg,
    /// Print the process as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let request = api::Keep {
        pid: args.process.for_daemon(&Proc::open()?),
    };
    let process = args.connect.client()?.keep(&request).map_err(failure)?;
    if args.json {
        output::print_json(&process)?;
    }
    Ok(Exit::SUCCESS)
}
