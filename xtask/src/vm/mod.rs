//! `cargo xtask vm`: the kernel tests on another kernel.

mod cpio;
mod image;
mod kernel;
mod machine;
mod suites;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;

/// Options of `vm`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A series of which Debian has packages: 6.1 or 6.12.
    series: String,
    /// Run this suite only (repeatable): lib, or the name of a test file.
    #[arg(long)]
    only: Vec<String>,
    /// End the guest after so many seconds.
    #[arg(long, default_value_t = 480)]
    limit: u64,
    /// Succeed, loudly, where the kernel or the emulator cannot be had.
    #[arg(long)]
    if_possible: bool,
}

/// Boots a guest with that kernel, and runs the tests in it.
pub(crate) fn run(root: &Path, options: &Options) -> anyhow::Result<()> {
    let dir = root.join("target/vm");
    let fetched = image::check_tools().and_then(|()| kernel::fetch(&dir, &options.series));
    let kernel = match fetched {
        Ok(kernel) => kernel,
        Err(why) if options.if_possible => {
            println!("NOT TESTED ON LINUX {}: {why:#}", options.series);
            return Ok(());
        }
        Err(why) => return Err(why),
    };
    let (suites, binaries) = suites::build(root, &options.only)?;
    let initramfs = dir.join(format!("{}.cpio", options.series));
    image::write(&initramfs, &suites, &binaries)?;
    let size = fs::metadata(&initramfs).context("the initramfs")?.len() >> 20;
    println!("booting {} with {size} MiB", kernel.package);
    let begin = Instant::now();
    let log = dir.join(format!("{}.log", options.series));
    let limit = Duration::from_secs(options.limit);
    let outcome = machine::run(&kernel.image, &initramfs, &log, limit)?;
    ensure!(
        outcome.failed.is_empty(),
        "on {} failed: {} (see {})",
        kernel.package,
        outcome.failed.join(", "),
        log.display()
    );
    println!(
        "{} suites passed on {} in {} s",
        suites.len(),
        kernel.package,
        begin.elapsed().as_secs()
    );
    Ok(())
}
