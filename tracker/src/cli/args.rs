//! The arguments, and what is said of those that make no sense.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use super::exit::Exit;
use super::{
    completions, doctor, events, keep, lineage, output, reap, reaps, run, serve, session, status,
    tree, why,
};

/// Find and end every process that a command left behind.
#[derive(Debug, Parser)]
#[command(
    name = "tracker",
    version,
    disable_help_subcommand = true,
    infer_long_args = false
)]
pub(super) struct Cli {
    /// Log what is done to stderr; twice for more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,

    #[command(subcommand)]
    pub(super) command: Command,
}

/// One variant a command, one file a command.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a command, and end what it leaves behind
    Run(run::Args),
    /// Serve sessions, queries and reaps: the daemon
    Serve(serve::Args),
    /// Open, show and end sessions of the daemon
    Session(session::Args),
    /// End a process with its descendants, what a session owns, or who works in a directory
    Reap(reap::Args),
    /// Show the last reaps, under way, waiting and over, or the report of one
    Reaps(reaps::Args),
    /// Show processes below those who created them
    Tree(tree::Args),
    /// Show who created a process, up to the root
    Lineage(lineage::Args),
    /// Say who owns a process, and what a reap would do with it
    Why(why::Args),
    /// Show what happens to processes
    Events(events::Args),
    /// Spare a process in every reap
    Keep(keep::Args),
    /// Show how the daemon is
    Status(status::Args),
    /// Say what this host supports, and which source is taken
    Doctor(doctor::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Print the manual page
    Man,
}

/// The definition, for completions and the manual page.
pub(super) fn definition() -> clap::Command {
    Cli::command()
}

/// The command that `args` ask for, if they ask for one.
pub(super) fn parse(args: &[OsString]) -> Result<Cli, NoCommand> {
    Cli::try_parse_from(args).map_err(|error| NoCommand {
        error,
        subcommand: subcommand(args),
    })
}

/// The arguments ask for help, or make no sense.
#[derive(Debug)]
pub(super) struct NoCommand {
    error: clap::Error,
    subcommand: Option<String>,
}

impl NoCommand {
    /// Prints it. Help goes to stdout, an error is one line on stderr.
    pub(super) fn show(&self) -> Exit {
        match self.error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                // Whoever closed stdout does not want the rest.
                let _ = self.error.print();
                Exit::SUCCESS
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                let _ = self.error.print();
                Exit::USAGE
            }
            _ => {
                output::complain(&self.line());
                self.exit()
            }
        }
    }

    /// `run` must not be confused with what it runs: 2 may be the command's own
    /// status, while 125 says that it was not started, as `env(1)` does.
    fn exit(&self) -> Exit {
        if self.subcommand.as_deref() == Some("run") {
            Exit::NOT_STARTED
        } else {
            Exit::USAGE
        }
    }

    /// clap's paragraphs as one line: the error and its tip, without the usage.
    fn line(&self) -> String {
        let text = self.error.to_string();
        let error = text.split("\n\n").next().unwrap_or_default();
        let mut line = one_line(error.strip_prefix("error: ").unwrap_or(error));
        for tip in text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("tip: "))
        {
            line.push_str("; ");
            line.push_str(&one_line(tip));
        }
        let command = match &self.subcommand {
            Some(name) => format!("tracker {name}"),
            None => "tracker".to_owned(),
        };
        format!("{line} (try '{command} --help')")
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Which command was meant: the first word that is the name of one.
fn subcommand(args: &[OsString]) -> Option<String> {
    let first = args
        .iter()
        .skip(1)
        .find(|arg| !arg.as_encoded_bytes().starts_with(b"-"))?;
    let definition = definition();
    definition
        .get_subcommands()
        .map(clap::Command::get_name)
        .find(|name| first == *name)
        .map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_words(words: &[&str]) -> Result<Cli, NoCommand> {
        let args: Vec<OsString> = std::iter::once("tracker")
            .chain(words.iter().copied())
            .map(OsString::from)
            .collect();
        parse(&args)
    }

    #[test]
    fn the_definition_is_sound() {
        definition().debug_assert();
    }

    #[test]
    fn an_error_is_one_line_that_names_the_next_step() {
        let error = parse_words(&["completions", "--banana"]).unwrap_err();
        let line = error.line();
        assert!(line.contains("--banana"), "{line}");
        assert!(
            line.ends_with("(try 'tracker completions --help')"),
            "{line}"
        );
        assert!(!line.contains('\n'), "{line}");
    }

    #[test]
    fn bad_usage_of_run_is_not_taken_for_a_status_of_the_command() {
        for words in [
            &["run"][..],
            &["run", "--banana", "--", "true"],
            &["run", "--grace", "banana", "--", "true"],
            &["-v", "run", "--source", "x", "true"],
        ] {
            assert_eq!(parse_words(words).unwrap_err().exit(), Exit::NOT_STARTED);
        }
        let error = parse_words(&["run", "--grace", "banana", "--", "true"]).unwrap_err();
        assert!(error.line().contains("5s, 250ms"), "{}", error.line());
    }

    #[test]
    fn flags_behind_the_command_are_its_own() {
        let parsed = parse_words(&["run", "--no-reap", "ls", "-v", "--grace", "--"]).unwrap();
        assert_eq!(parsed.verbose, 0);
        let Command::Run(args) = parsed.command else {
            panic!("{parsed:?}");
        };
        assert_eq!(args.command, ["ls", "-v", "--grace", "--"]);
    }

    #[test]
    fn an_unknown_command_is_bad_usage() {
        assert_eq!(parse_words(&["banana"]).unwrap_err().exit(), Exit::USAGE);
    }
}
