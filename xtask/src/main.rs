//! Chores of this repository: `cargo xtask --help`.

mod dist;
mod licences;
mod probe;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Parser, Subcommand};

/// Chores of the tracker repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build the program, and install all that a package ships below a folder.
    Dist {
        /// `/`, or the staging folder of a package.
        destdir: PathBuf,
    },
    /// Fail if a dependency may not be shipped under this project's licence.
    Licences,
    /// The committed object of the kernel probe.
    #[command(subcommand)]
    Probe(probe::Task),
}

fn main() -> anyhow::Result<()> {
    let Args { task } = Args::parse();
    let root = workspace()?;
    match task {
        Task::Dist { destdir } => dist::install(&root, &destdir),
        Task::Licences => licences::check(),
        Task::Probe(task) => probe::run(&root, &task),
    }
}

/// The workspace that this xtask was built from.
fn workspace() -> anyhow::Result<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_owned)
        .context("xtask does not lie in a workspace")
}
