//! Builds the object, so that every folder and machine gets the same bytes.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::toolchain::Toolchain;

const TARGET: &str = "bpfel-unknown-none";

/// Builds the probe; answers the stripped object.
pub(crate) fn build(root: &Path, toolchain: &Toolchain) -> anyhow::Result<Vec<u8>> {
    let target_dir = root.join("target/probe");
    let mut cargo = Command::new(&toolchain.cargo);
    without_cargo(&mut cargo)
        .current_dir(root)
        .args(["build", "--quiet", "--release", "--locked"])
        .args(["--package", "tracker-ebpf", "--bin", "tracker-probe"])
        .args(["--features", "probe", "--target", TARGET])
        .args(["-Z", "build-std=core", "--target-dir"])
        .arg(&target_dir)
        .env("RUSTC", &toolchain.rustc)
        // Building core is unstable, also with a release compiler.
        .env("RUSTC_BOOTSTRAP", "1")
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            flags(root, toolchain)?.join("\x1f"),
        )
        // The workspace's profile is for programs. Type information needs full
        // debug information, and one unit a stable order.
        .env("CARGO_PROFILE_RELEASE_DEBUG", "2")
        .env("CARGO_PROFILE_RELEASE_LTO", "false")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort");
    run(&mut cargo)?;
    let built = target_dir.join(TARGET).join("release/tracker-probe");
    let stripped = target_dir.join("tracker-probe.o");
    // DWARF goes, BTF stays.
    run(Command::new(&toolchain.strip)
        .arg("--strip-debug")
        .arg("-o")
        .arg(&stripped)
        .arg(&built))?;
    fs::read(&stripped).with_context(|| format!("cannot read {}", stripped.display()))
}

fn flags(root: &Path, toolchain: &Toolchain) -> anyhow::Result<Vec<String>> {
    let linker = toolchain.linker.display();
    let registry = cargo_home()
        .context("neither CARGO_HOME nor HOME is set")?
        .join("registry/src");
    let mut flags = vec![
        format!("-Clinker={linker}"),
        "-Clink-arg=--btf".into(),
        "-Cdebuginfo=2".into(),
        // Atomic operations that return a value, and 32-bit registers: Linux 5.12.
        "-Ctarget-cpu=v3".into(),
    ];
    for (path, name) in [
        (root, "tracker"),
        (&*registry, "registry"),
        (&*toolchain.library, "library"),
    ] {
        flags.push(format!("--remap-path-prefix={}={name}", path.display()));
    }
    Ok(flags)
}

/// Where cargo keeps its registry.
pub(crate) fn cargo_home() -> Option<PathBuf> {
    env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")))
}

/// Takes away what the cargo that runs this xtask put into the environment:
/// its toolchain and its flags are not those of the probe.
pub(crate) fn without_cargo(command: &mut Command) -> &mut Command {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let foreign = text.starts_with("CARGO") && text != "CARGO_HOME"
            || text.starts_with("RUSTC")
            || text.starts_with("RUSTFLAGS")
            || text == "RUSTUP_TOOLCHAIN";
        if foreign {
            command.env_remove(&name);
        }
    }
    command
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("cannot run {program}"))?;
    ensure!(status.success(), "{program} failed: {status}");
    Ok(())
}
