//! The command line: parse, run one command, turn its result into an exit
//! status and at most one line of error.

mod args;
mod completions;
mod daemon;
mod doctor;
mod draw;
mod duration;
mod events;
mod exit;
mod keep;
mod lineage;
mod man;
mod output;
mod process_arg;
mod reap;
mod reaps;
mod run;
mod serve;
mod session;
mod status;
mod tree;
mod why;

use std::io::IsTerminal;
use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

use args::Command;
use exit::{Exit, Failure};

/// Runs the program on its arguments.
pub fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    let exit = match args::parse(&args) {
        Ok(cli) => {
            log_to_stderr(cli.verbose, matches!(cli.command, Command::Serve(_)));
            finish(dispatch(cli.command))
        }
        Err(no_command) => no_command.show(),
    };
    exit.into()
}

fn dispatch(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Session(args) => session::run(&args),
        Command::Lineage(args) => lineage::run(&args),
        Command::Why(args) => why::run(&args),
        Command::Keep(args) => keep::run(&args),
        Command::Events(args) => events::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Reap(args) => reap::run(&args),
        Command::Reaps(args) => reaps::run(&args),
        Command::Tree(args) => tree::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Man => man::run(),
    }
}

/// A reader that went away (`tracker events | head`) is no error: whoever
/// closed the pipe has seen all that it wanted.
fn finish(result: Result<Exit, Failure>) -> Exit {
    result.unwrap_or_else(|failure| {
        if failure.is_broken_pipe() {
            return Exit::SUCCESS;
        }
        output::complain(&failure.to_string());
        failure.exit
    })
}

/// Diagnostics, off unless `-v` or `TRACKER_LOG` (a filter of the `tracing`
/// crates) asks for them: the stderr of `tracker run` is the command's. That
/// of the daemon is a log.
fn log_to_stderr(verbose: u8, is_daemon: bool) {
    let level = match verbose + u8::from(is_daemon) {
        0 => "off",
        1 => "tracker=info",
        2 => "tracker=debug",
        _ => "trace",
    };
    let filter = EnvFilter::builder()
        .with_env_var("TRACKER_LOG")
        .with_default_directive(tracing_subscriber::filter::LevelFilter::OFF.into())
        .try_from_env()
        .unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .init();
}
