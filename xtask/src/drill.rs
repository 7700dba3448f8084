//! `cargo xtask drill`: the tests of `tracker/tests/drills` at full size.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};

/// Options of `drill`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    name: Drill,
    /// How much of it, instead of the usual: signals, members, or seconds.
    size: Option<u64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Drill {
    /// 100,000 signals to the dead whose pids others have, with 4096 pids in all.
    PidWrap,
    /// 30,000 members, listed and ended.
    Members,
    /// Forks for 120 seconds: flat memory, and a map that holds the living.
    Forks,
}

impl Drill {
    /// The test, and its usual size.
    fn test(self) -> (&'static str, u64) {
        match self {
            Drill::PidWrap => (
                "nobody_is_hit_for_having_the_pid_of_a_dead_process",
                100_000,
            ),
            Drill::Members => ("a_crowd_is_listed_and_ended_with_few_descriptors", 30_000),
            Drill::Forks => ("memory_is_flat_and_the_map_holds_the_living", 120),
        }
    }
}

/// Runs one. It changes settings of the whole machine meanwhile.
pub(crate) fn run(root: &Path, options: &Options) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let (test, usual) = options.name.test();
    for build in [
        ["build", "--package=tracker", "--bins"],
        ["build", "--package=tracker-tests", "--bins"],
    ] {
        let status = Command::new(&cargo)
            .args(build)
            .args(["--quiet", "--locked"])
            .current_dir(root)
            .status()
            .context("cargo")?;
        ensure!(status.success(), "cargo build ended with {status}");
    }
    let status = Command::new(cargo)
        .args([
            "test",
            "--quiet",
            "--locked",
            "--package=tracker",
            "--test=drills",
        ])
        .args([test, "--", "--include-ignored", "--nocapture"])
        .env("TRACKER_DRILL", options.size.unwrap_or(usual).to_string())
        .env("TRACKER_REQUIRE_EBPF", "1")
        .current_dir(root)
        .status()
        .context("cargo")?;
    ensure!(status.success(), "the drill failed");
    Ok(())
}
