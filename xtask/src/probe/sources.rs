//! The hash of everything that the object is made from. Modification times
//! would not do: a checkout sets them anew.

use std::fs;
use std::path::Path;

use anyhow::Context;
use sha2::{Digest, Sha256};

/// Crates of these names are compiled into the object or write code of it.
const CRATES: [&str; 2] = ["aya-", "tracker-ebpf"];

/// Of the probe's files, and of the versions of its crates in `Cargo.lock`.
pub(crate) fn hash(root: &Path) -> anyhow::Result<String> {
    let mut files = Vec::new();
    let probe = root.join("tracker-ebpf");
    list(&probe.join("src"), &mut files)?;
    files.push(probe.join("Cargo.toml"));
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(&file);
        add(&mut hash, name.as_os_str().as_encoded_bytes());
        add(&mut hash, &super::read(&file)?);
    }
    let lock = root.join("Cargo.lock");
    let lock =
        fs::read_to_string(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    for package in locked(&lock) {
        add(&mut hash, package.as_bytes());
    }
    Ok(super::manifest::hex(&hash.finalize()))
}

/// The length first, so that two different lists never make the same bytes.
fn add(hash: &mut Sha256, part: &[u8]) {
    hash.update(part.len().to_le_bytes());
    hash.update(part);
}

fn list(dir: &Path, files: &mut Vec<std::path::PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            list(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// `name version checksum` of the crates that matter. The order of the file is
/// by name, and cargo keeps it so.
fn locked(lock: &str) -> Vec<String> {
    lock.split("[[package]]")
        .filter_map(|package| {
            let value = |key: &str| {
                package
                    .lines()
                    .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))
                    .map(|value| value.trim_matches('"'))
            };
            let name = value("name")?;
            let ours = CRATES.iter().any(|prefix| name.starts_with(prefix));
            ours.then(|| {
                let version = value("version").unwrap_or_default();
                let checksum = value("checksum").unwrap_or_default();
                format!("{name} {version} {checksum}")
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_crates_of_the_probe_count() {
        let lock = "version = 4\n\n[[package]]\nname = \"anyhow\"\nversion = \"1.0.0\"\n\n\
                    [[package]]\nname = \"aya-ebpf\"\nversion = \"0.2.1\"\nchecksum = \"ea\"\n";
        assert_eq!(locked(lock), ["aya-ebpf 0.2.1 ea"]);
    }

    #[test]
    fn a_changed_byte_and_a_renamed_file_change_the_hash() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("tracker-ebpf/src")).unwrap();
        fs::write(root.join("tracker-ebpf/Cargo.toml"), "").unwrap();
        fs::write(root.join("Cargo.lock"), "").unwrap();
        fs::write(root.join("tracker-ebpf/src/a.rs"), "x").unwrap();
        let first = hash(root).unwrap();
        assert_eq!(hash(root).unwrap(), first);
        fs::write(root.join("tracker-ebpf/src/a.rs"), "y").unwrap();
        let second = hash(root).unwrap();
        fs::rename(
            root.join("tracker-ebpf/src/a.rs"),
            root.join("tracker-ebpf/src/b.rs"),
        )
        .unwrap();
        let third = hash(root).unwrap();
        assert!(first != second && second != third);
    }
}
