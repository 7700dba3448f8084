//! `cargo xtask probe`: makes the committed object of the kernel probe, and
//! tells whether it still is what its sources make.

mod build;
mod manifest;
mod sources;
mod toolchain;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand};

use manifest::{Manifest, sha256};
use toolchain::Toolchain;

/// `cargo xtask probe ...`
#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Build the probe and write the object and its manifest to tracker/probe/.
    Build,
    /// Fail unless the committed object belongs to the sources. Rebuilds it
    /// where the recorded toolchain is installed, and compares every byte.
    Check(Check),
}

/// Options of `check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Fail when the object cannot be rebuilt here.
    #[arg(long)]
    require_rebuild: bool,
}

/// Where the two committed files lie.
struct Committed {
    object: PathBuf,
    manifest: PathBuf,
}

impl Committed {
    fn of(root: &Path) -> Committed {
        let dir = root.join("tracker/probe");
        Committed {
            object: dir.join("tracker-probe.o"),
            manifest: dir.join("manifest.json"),
        }
    }
}

pub(crate) fn run(root: &Path, task: &Task) -> anyhow::Result<()> {
    match task {
        Task::Build => build_and_commit(root),
        Task::Check(options) => check(root, options),
    }
}

fn build_and_commit(root: &Path) -> anyhow::Result<()> {
    let toolchain = Toolchain::any()?;
    eprintln!("building with {}", toolchain.versions);
    let sources = sources::hash(root)?;
    let object = build::build(root, &toolchain)?;
    let manifest = Manifest::new(sources, &object, toolchain.versions);
    let committed = Committed::of(root);
    write(&committed.object, &object)?;
    write(&committed.manifest, manifest.to_json()?.as_bytes())?;
    eprintln!(
        "wrote {} ({} bytes)",
        committed.object.display(),
        object.len()
    );
    Ok(())
}

fn check(root: &Path, options: &Check) -> anyhow::Result<()> {
    let committed = Committed::of(root);
    let manifest = Manifest::from_json(&read(&committed.manifest)?)?;
    let object = read(&committed.object)?;
    ensure!(
        sha256(&object) == manifest.object_sha256,
        "{} is not the object that the manifest names: run `cargo xtask probe build`",
        committed.object.display()
    );
    ensure!(
        sources::hash(root)? == manifest.sources_sha256,
        "the probe's sources have changed since the object was built: run `cargo xtask probe build`"
    );
    match Toolchain::recorded(&manifest.toolchain) {
        Ok(toolchain) => {
            let rebuilt = build::build(root, &toolchain)?;
            ensure!(
                rebuilt == object,
                "a rebuild with {} gives another object (sha256 {})",
                toolchain.versions,
                sha256(&rebuilt)
            );
            eprintln!("the object belongs to the sources, and a rebuild gives the same bytes");
        }
        Err(why) if options.require_rebuild => bail!("cannot rebuild the object here: {why:#}"),
        Err(why) => {
            eprintln!("the object belongs to the sources; NOT rebuilt to compare: {why:#}");
        }
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}
