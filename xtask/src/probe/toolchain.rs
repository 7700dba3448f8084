//! Compilers that can build for BPF: they need the sources of `core`, and a
//! linker with the same LLVM.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use super::manifest::Versions;

/// A compiler with what belongs to it.
#[derive(Debug)]
pub(crate) struct Toolchain {
    pub(crate) cargo: PathBuf,
    pub(crate) rustc: PathBuf,
    /// Sources of the standard library.
    pub(crate) library: PathBuf,
    pub(crate) linker: PathBuf,
    /// `llvm-strip` of the same LLVM.
    pub(crate) strip: PathBuf,
    pub(crate) versions: Versions,
}

impl Toolchain {
    /// The first one that is complete.
    pub(crate) fn any() -> anyhow::Result<Toolchain> {
        first(|_| Ok(()))
    }

    /// The one that a manifest names.
    pub(crate) fn recorded(versions: &Versions) -> anyhow::Result<Toolchain> {
        first(|found| {
            ensure!(
                found == versions,
                "it is {found}, the object was built with {versions}"
            );
            Ok(())
        })
    }
}

/// The first complete toolchain that `accept` takes. An error names what is
/// wrong with each of them.
fn first(accept: impl Fn(&Versions) -> anyhow::Result<()>) -> anyhow::Result<Toolchain> {
    let mut rejected = Vec::new();
    for (cargo, rustc) in candidates() {
        let found = complete(cargo, rustc.clone()).and_then(|toolchain| {
            accept(&toolchain.versions)?;
            Ok(toolchain)
        });
        match found {
            Ok(toolchain) => return Ok(toolchain),
            Err(why) => rejected.push(format!("\n  {}: {why:#}", rustc.display())),
        }
    }
    bail!(
        "no toolchain fits (docs/operations.md tells how to install one){}",
        rejected.concat()
    )
}

/// Distribution packages first (Debian's rustc-web with rust-web-src), then
/// rustup's nightly with the rust-src component.
fn candidates() -> Vec<(PathBuf, PathBuf)> {
    let mut found = vec![("/usr/bin/cargo".into(), "/usr/bin/rustc".into())];
    let which = |tool| {
        let path = output(Command::new("rustup").args(["which", "--toolchain", "nightly", tool]));
        path.ok().map(|path| PathBuf::from(path.trim()))
    };
    if let (Some(cargo), Some(rustc)) = (which("cargo"), which("rustc")) {
        found.push((cargo, rustc));
    }
    found
}

fn complete(cargo: PathBuf, rustc: PathBuf) -> anyhow::Result<Toolchain> {
    let verbose = output(Command::new(&rustc).arg("-vV"))?;
    let sysroot = output(Command::new(&rustc).args(["--print", "sysroot"]))?;
    let library = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library");
    // The real path, because the compiler records that one: Debian's is a link.
    let library = library
        .canonicalize()
        .with_context(|| format!("no sources of core in {}", library.display()))?;
    let linker = in_path("bpf-linker").context("bpf-linker is not installed")?;
    let versions = versions(&verbose, &output(Command::new(&linker).arg("--version"))?)?;
    let major = versions.llvm.split('.').next().unwrap_or_default();
    if let Some(linked) = linked_llvm(&linker) {
        // It would "succeed", with broken type information.
        ensure!(
            linked == major,
            "bpf-linker uses LLVM {linked}, the compiler LLVM {major}"
        );
    }
    let strip = [format!("/usr/lib/llvm-{major}/bin/llvm-strip").into()]
        .into_iter()
        .chain(in_path(&format!("llvm-strip-{major}")))
        .chain(in_path("llvm-strip"))
        .find(|path: &PathBuf| path.exists())
        .context("llvm-strip is not installed")?;
    Ok(Toolchain {
        cargo,
        rustc,
        library,
        linker,
        strip,
        versions,
    })
}

/// From `rustc -vV` and `bpf-linker --version`.
fn versions(rustc: &str, linker: &str) -> anyhow::Result<Versions> {
    let llvm = rustc
        .lines()
        .find_map(|line| line.strip_prefix("LLVM version: "))
        .context("rustc does not tell its LLVM version")?;
    Ok(Versions {
        rustc: rustc.lines().next().unwrap_or_default().to_owned(),
        llvm: llvm.to_owned(),
        bpf_linker: linker.trim().to_owned(),
    })
}

/// The major version of the LLVM library that a program loads; nothing for
/// one that has it built in.
fn linked_llvm(program: &Path) -> Option<String> {
    parse_linked_llvm(&output(Command::new("ldd").arg(program)).ok()?)
}

fn parse_linked_llvm(ldd: &str) -> Option<String> {
    let name = ldd.split("libLLVM").nth(1)?;
    let digits: String = name
        .chars()
        .skip_while(|char| !char.is_ascii_digit())
        .take_while(char::is_ascii_digit)
        .collect();
    (!digits.is_empty()).then_some(digits)
}

fn in_path(program: &str) -> Option<PathBuf> {
    let cargo_bin = super::build::cargo_home().map(|home| home.join("bin"));
    env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .chain(cargo_bin)
        .map(|dir| dir.join(program))
        .find(|path| path.is_file())
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().to_owned();
    let output = super::build::without_cargo(command)
        .output()
        .with_context(|| format!("cannot run {}", display(&program)))?;
    ensure!(
        output.status.success(),
        "{} failed: {}",
        display(&program),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?)
}

fn display(program: &OsStr) -> impl std::fmt::Display {
    program.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_the_tools_print() {
        let rustc = "rustc 1.96.0 (ac68faa20 2026-05-25)\nrelease: 1.96.0\nLLVM version: 22.1.8\n";
        let versions = versions(rustc, "bpf-linker 0.13.0\n").unwrap();
        assert_eq!(
            versions.to_string(),
            "rustc 1.96.0 (ac68faa20 2026-05-25) (LLVM 22.1.8), bpf-linker 0.13.0"
        );
    }

    #[test]
    fn the_linkers_llvm_is_read_from_the_name_of_its_library() {
        let ldd = "\tlibLLVM.so.22.1 => /usr/lib/llvm-22/lib/libLLVM.so.22.1 (0x0)\n\tlibc.so.6\n";
        assert_eq!(parse_linked_llvm(ldd).as_deref(), Some("22"));
        assert_eq!(
            parse_linked_llvm("libLLVM-15.so.1 => x").as_deref(),
            Some("15")
        );
        assert_eq!(parse_linked_llvm("\tlibc.so.6 => x"), None);
    }
}
