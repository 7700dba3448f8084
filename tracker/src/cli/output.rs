//! What goes to stdout, and the one line that goes to stderr.

use std::fmt::Display;
use std::io::{self, Write};

use serde::Serialize;

/// Prints text to stdout, with a line feed.
pub(super) fn print(text: impl Display) -> Result<(), PrintError> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(PrintError)
}

/// Prints a document to stdout that is text already.
pub(super) fn print_bytes(text: &[u8]) -> Result<(), PrintError> {
    let mut out = io::stdout().lock();
    out.write_all(text)
        .and_then(|()| out.flush())
        .map_err(PrintError)
}

/// Prints a document to stdout as indented JSON, with a line feed.
pub(super) fn print_json(value: &impl Serialize) -> Result<(), PrintError> {
    let text = serde_json::to_string_pretty(value).map_err(|error| PrintError(error.into()))?;
    print(text)
}

/// Says on stderr why something went wrong.
pub(super) fn complain(text: &str) {
    tell(&format!("tracker: {text}"));
}

/// Says one line on stderr. What was typed by hand or named by the kernel may
/// be in it, so control characters are not passed on.
pub(super) fn tell(text: &str) {
    let mut line: String = text
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect();
    line.push('\n');
    // In one piece, for others may write there too. Nobody is left to tell when
    // it cannot be written.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Stdout could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to stdout: {0}")]
pub(super) struct PrintError(#[source] io::Error);

impl PrintError {
    /// Whether its reader went away.
    pub(super) fn is_broken_pipe(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}
