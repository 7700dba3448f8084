//! Installs into a staging folder what a package ships.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// Where completions of a shell lie, and under which name.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/tracker"),
    ("zsh", "usr/share/zsh/site-functions/_tracker"),
    ("fish", "usr/share/fish/vendor_completions.d/tracker.fish"),
];

/// Builds the program and puts it, its units, its manual page, its completions
/// and its documentation below `dest`.
pub(crate) fn install(root: &Path, dest: &Path) -> anyhow::Result<()> {
    let program = build(root)?;
    put(dest, "usr/bin/tracker", &fs::read(&program)?, 0o755)?;
    for unit in ["tracker.service", "tracker.socket"] {
        let text = read(&root.join("dist").join(unit))?;
        put(
            dest,
            &format!("usr/lib/systemd/system/{unit}"),
            &text,
            0o644,
        )?;
    }
    put(
        dest,
        "usr/share/man/man1/tracker.1",
        &ask(&program, &["man"])?,
        0o644,
    )?;
    for (shell, path) in COMPLETIONS {
        put(dest, path, &ask(&program, &["completions", shell])?, 0o644)?;
    }
    for entry in fs::read_dir(root.join("docs")).context("docs")? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .context("a name")?;
        put(
            dest,
            &format!("usr/share/doc/tracker/{name}"),
            &read(&path)?,
            0o644,
        )?;
    }
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let text = read(&root.join(licence))?;
        put(
            dest,
            &format!("usr/share/doc/tracker/{licence}"),
            &text,
            0o644,
        )?;
    }
    Ok(())
}

/// Builds the program as it is released; answers where it is.
pub(crate) fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--release",
            "--locked",
            "--package",
            "tracker",
        ])
        .current_dir(root)
        .status()
        .context("cargo")?;
    ensure!(status.success(), "cargo build ended with {status}");
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    Ok(target
        .unwrap_or_else(|| root.join("target"))
        .join("release/tracker"))
}

fn ask(program: &Path, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .context("tracker")?;
    ensure!(
        output.status.success(),
        "tracker {arguments:?} ended with {}",
        output.status
    );
    Ok(output.stdout)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}

fn put(dest: &Path, name: &str, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let path = dest.join(name);
    let what = || path.display().to_string();
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(what)?;
    }
    // A program that runs cannot be written over, but replaced.
    let new = dest.join(format!("{name}.new"));
    fs::write(&new, bytes).with_context(what)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(mode)).with_context(what)?;
    fs::rename(&new, &path).with_context(what)?;
    println!("{}", path.display());
    Ok(())
}
