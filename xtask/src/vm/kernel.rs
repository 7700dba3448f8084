//! Debian's kernel packages: fetched and unpacked, never installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// An unpacked kernel.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// The package that it came from.
    pub(crate) package: String,
    /// What a boot loader loads.
    pub(crate) image: PathBuf,
}

/// The newest kernel of a series such as `6.1`, or nothing if apt offers none
/// or cannot fetch it. It is kept below `dir`.
pub(crate) fn fetch(dir: &Path, series: &str) -> anyhow::Result<Kernel> {
    let package = newest(series)?;
    let place = dir.join(&package);
    if let Ok(kernel) = unpacked(&package, &place) {
        return Ok(kernel);
    }
    fs::create_dir_all(&place).with_context(|| place.display().to_string())?;
    run(Command::new("apt-get")
        .args(["download", "-qq", "-o", "APT::Sandbox::User=root"])
        .arg(&package)
        .current_dir(&place))?;
    let archive = only(&place, |name| name.starts_with(&package))?;
    run(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&place))?;
    // Half a gigabyte of modules: nothing that is tested is one.
    let modules = [place.join("lib"), place.join("usr")];
    for unneeded in modules.iter().filter(|path| path.exists()) {
        fs::remove_dir_all(unneeded).with_context(|| unneeded.display().to_string())?;
    }
    fs::remove_file(&archive).with_context(|| archive.display().to_string())?;
    unpacked(&package, &place)
}

fn unpacked(package: &str, place: &Path) -> anyhow::Result<Kernel> {
    Ok(Kernel {
        package: package.to_owned(),
        image: only(&place.join("boot"), |name| name.starts_with("vmlinuz-"))?,
    })
}

/// The name of the newest package of a series; asks the archive when what apt
/// knows has none.
fn newest(series: &str) -> anyhow::Result<String> {
    if let Ok(known) = known(series) {
        return Ok(known);
    }
    run(Command::new("apt-get").args(["update", "-qq"]))?;
    known(series)
}

fn known(series: &str) -> anyhow::Result<String> {
    let output = Command::new("apt-cache")
        .args(["search", "--names-only", "^linux-image-[0-9].*-amd64$"])
        .output()
        .context("apt-cache (this needs Debian)")?;
    let list = String::from_utf8_lossy(&output.stdout);
    pick(&list, series)
        .with_context(|| format!("apt offers no linux-image-{series}.*-amd64 (bookworm has them)"))
}

/// From the answer of `apt-cache search`.
fn pick(list: &str, series: &str) -> Option<String> {
    let names = list.lines().filter_map(|line| line.split(' ').next());
    names
        .filter(|name| {
            let version = name.strip_prefix("linux-image-");
            let rest = version.and_then(|version| version.strip_prefix(series));
            // `6.1` has no part in `6.12`, and a name without a full version
            // is one of a package that only depends on others.
            rest.is_some_and(|rest| rest.starts_with('.'))
                && !["cloud", "rt", "unsigned"]
                    .iter()
                    .any(|flavour| name.split('-').any(|part| part == *flavour))
        })
        .max_by_key(|name| numbers(name))
        .map(str::to_owned)
}

/// For an order in which 57 comes after 9.
fn numbers(name: &str) -> Vec<u64> {
    name.split(|char: char| !char.is_ascii_digit())
        .filter_map(|part| part.parse().ok())
        .collect()
}

/// The only file of a folder whose name is so.
fn only(dir: &Path, is_it: impl Fn(&str) -> bool) -> anyhow::Result<PathBuf> {
    let entries = fs::read_dir(dir).with_context(|| dir.display().to_string())?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(&is_it)
        })
        .collect();
    ensure!(
        found.len() == 1,
        "{}: {} files fit",
        dir.display(),
        found.len()
    );
    found.pop().context("a file")
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| program.clone())?;
    ensure!(status.success(), "{program} ended with {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_plain_package_of_the_series_is_taken() {
        let list = "linux-image-6.1.0-9-amd64 - Linux\n\
                    linux-image-6.1.0-57-amd64 - Linux\n\
                    linux-image-6.1.0-58-cloud-amd64 - Linux\n\
                    linux-image-6.1.0-58-rt-amd64 - Linux\n\
                    linux-image-6.12-amd64 - meta\n\
                    linux-image-6.12.9+deb12-amd64 - Linux\n\
                    linux-image-6.12.117+deb12-amd64 - Linux\n";
        let six_one = Some("linux-image-6.1.0-57-amd64".to_owned());
        assert_eq!(pick(list, "6.1"), six_one);
        let six_twelve = Some("linux-image-6.12.117+deb12-amd64".to_owned());
        assert_eq!(pick(list, "6.12"), six_twelve);
        assert_eq!(pick(list, "5.10"), None);
    }
}
