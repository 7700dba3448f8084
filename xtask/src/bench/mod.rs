//! `cargo xtask bench`: what tracking costs, and how fast a teardown is.
#![expect(
    clippy::indexing_slicing,
    reason = "a JSON value answers null for what is not there"
)]

mod daemon;
mod helper;
mod kill;
mod memory;
mod query;
mod report;
mod run;
mod spawn;
mod stats;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use clap::Args;

use helper::Helper;

/// Options of `bench`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Measure these only: spawn, probe, losses, stopped, kill, straggler,
    /// query, run, build, idle, forks. Then, and with --quick, nothing is written.
    rows: Vec<String>,
    /// Few and short runs: to see that it works.
    #[arg(long)]
    quick: bool,
    /// Measure this program instead of building one.
    #[arg(long)]
    tracker: Option<PathBuf>,
}

/// A line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    what: String,
    target: &'static str,
    measured: String,
    met: Option<bool>,
    peers: String,
}

/// Measures something.
type Measure = fn(&Bench) -> anyhow::Result<Vec<Row>>;

const ROWS: [(&str, Measure); 11] = [
    ("spawn", spawn::overhead),
    ("probe", spawn::probe_time),
    ("losses", spawn::losses),
    ("stopped", spawn::stopped),
    ("kill", kill::crowds),
    ("straggler", kill::straggler),
    ("query", query::questions),
    ("run", run::nothing),
    ("build", run::build),
    ("idle", memory::idle),
    ("forks", memory::many_forks),
];

/// What all of them need.
#[derive(Debug)]
pub(crate) struct Bench {
    /// The program, as it is released.
    tracker: PathBuf,
    helper: Helper,
    /// For what they write.
    dir: PathBuf,
    quick: bool,
}

impl Bench {
    /// One value for a whole run, another for a quick one.
    fn pick<T>(&self, whole: T, quick: T) -> T {
        if self.quick { quick } else { whole }
    }

    /// `tracker run` with these flags; the command comes next.
    fn run(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(&self.tracker);
        command.arg("run").args(flags).arg("--");
        command
    }
}

/// Measures what is asked for, and writes the document if that is all.
pub(crate) fn run(root: &Path, options: &Options) -> anyhow::Result<()> {
    let names = ROWS.map(|(name, _)| name);
    for row in &options.rows {
        ensure!(
            names.contains(&row.as_str()),
            "there is no row {row}: {}",
            names.join(", ")
        );
    }
    let place = Place::new()?;
    let bench = Bench {
        tracker: match &options.tracker {
            // What is measured runs elsewhere.
            Some(tracker) => {
                fs::canonicalize(tracker).with_context(|| tracker.display().to_string())?
            }
            None => crate::dist::build(root)?,
        },
        helper: Helper::build(root, &place.0)?,
        dir: place.0.clone(),
        quick: options.quick,
    };
    let before = report::load();
    let mut rows = Vec::new();
    for (name, measure) in ROWS {
        if !options.rows.is_empty() && options.rows.iter().all(|row| row != name) {
            continue;
        }
        let measured = measure(&bench).with_context(|| format!("measuring {name}"))?;
        for row in &measured {
            println!("{}", report::line(row));
        }
        rows.extend(measured);
    }
    if options.quick || !options.rows.is_empty() {
        return Ok(());
    }
    let mut text = report::document(&rows);
    let after = report::load();
    let _ = writeln!(text, "\nLoad average before: {before}; after: {after}.");
    let path = root.join("docs/performance.md");
    fs::write(&path, text).with_context(|| path.display().to_string())
}

/// A directory of this run, removed when dropped.
struct Place(PathBuf);

impl Place {
    fn new() -> anyhow::Result<Place> {
        let dir = std::env::temp_dir().join(format!("tracker-bench-{}", std::process::id()));
        fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
        Ok(Place(dir))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether there is a program of this name.
fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

/// Sends a signal to a process that this one has started.
fn signal(name: &str, pid: u32) -> anyhow::Result<()> {
    let status = Command::new("/bin/kill")
        .args(["-s", name, &pid.to_string()])
        .status()
        .context("kill")?;
    ensure!(status.success(), "kill ended with {status}");
    Ok(())
}
