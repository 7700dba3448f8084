//! Where the report goes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cli::output;
use crate::reap::Report;

/// What `--report` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// `-`
    Stdout,
    /// Anything else. Absolute: the command cannot change what it means.
    File(PathBuf),
}

impl Destination {
    /// Checks what can be checked before the command runs.
    pub(super) fn new(path: &Path) -> Result<Destination> {
        if path == Path::new("-") {
            return Ok(Destination::Stdout);
        }
        let path = std::path::absolute(path)
            .with_context(|| format!("cannot write the report to {}", path.display()))?;
        if path.is_dir() {
            bail!(
                "cannot write the report to {}: it is a directory",
                path.display()
            );
        }
        match path.parent() {
            Some(parent) if parent.is_dir() => Ok(Destination::File(path)),
            _ => bail!(
                "cannot write the report to {}: its directory does not exist",
                path.display()
            ),
        }
    }

    /// Writes the report as JSON.
    pub(super) fn write(&self, report: &Report) -> Result<()> {
        match self {
            Destination::Stdout => match output::print_json(report) {
                Err(error) if error.is_broken_pipe() => Ok(()),
                answer => Ok(answer?),
            },
            Destination::File(path) => write_file(path, report)
                .with_context(|| format!("cannot write the report to {}", path.display())),
        }
    }
}

/// A reader finds the old file or the whole new one. What is not a file, like
/// a pipe or `/dev/fd/3`, is written to as it is.
fn write_file(path: &Path, report: &Report) -> io::Result<()> {
    let target = match fs::canonicalize(path) {
        Ok(target) if !target.is_file() => {
            return write_to(OpenOptions::new().write(true).open(path)?, report);
        }
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error),
    };
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".tracker-{}", std::process::id()));
    let temporary = target.with_file_name(name);
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&temporary)?;
    let done = write_to(file, report).and_then(|()| fs::rename(&temporary, &target));
    if done.is_err() {
        // The reason why it could not be written is worth more than this one.
        let _ = fs::remove_file(&temporary);
    }
    done
}

fn write_to(file: File, report: &Report) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    serde_json::to_writer_pretty(&mut out, report)?;
    out.write_all(b"\n")?;
    out.flush()
}
