//! `tracker completions`.

use super::args;
use super::exit::{Exit, Failure};
use super::output;

/// Arguments of `tracker completions`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which shell
    shell: clap_complete::Shell,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::definition(), "tracker", &mut script);
    output::print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(Exit::SUCCESS)
}
