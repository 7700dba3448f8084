//! Chores of this repository: `cargo xtask --help`.

mod bench;
mod dist;
mod drill;
mod licences;
mod probe;
mod vm;

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
    /// Measure what tracking costs, and how fast a teardown is; writes docs/performance.md.
    Bench(bench::Options),
    /// Build the program, and install all that a package ships below a folder.
    Dist {
        /// `/`, or the staging folder of a package.
        destdir: PathBuf,
    },
    /// Do what only shows in great numbers; changes settings of the machine meanwhile.
    Drill(drill::Options),
    /// Fail if a dependency may not be shipped under this project's licence.
    Licences,
    /// The committed object of the kernel probe.
    #[command(subcommand)]
    Probe(probe::Task),
    /// Run the kernel tests on another kernel, in an emulator.
    Vm(vm::Options),
}

fn main() -> anyhow::Result<()> {
    let Args { task } = Args::parse();
    let root = workspace()?;
    match task {
        Task::Bench(options) => bench::run(&root, &options),
        Task::Dist { destdir } => dist::install(&root, &destdir),
        Task::Drill(options) => drill::run(&root, &options),
        Task::Licences => licences::check(),
        Task::Probe(task) => probe::run(&root, &task),
        Task::Vm(options) => vm::run(&root, &options),
    }
}

/// The workspace that this xtask was built from.
fn workspace() -> anyhow::Result<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_owned)
        .context("xtask does not lie in a workspace")
}
