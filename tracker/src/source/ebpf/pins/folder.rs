//! The folder in bpffs.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::PinsError;

/// `BPF_FS_MAGIC` of `include/uapi/linux/magic.h`.
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;

/// Mounts bpffs where every distribution has it, if `dir` lies there and nobody
/// has done so yet.
pub(super) fn mount_bpffs_for(dir: &Path) -> Result<(), PinsError> {
    let existing = dir
        .ancestors()
        .find(|dir| dir.exists())
        .unwrap_or(Path::new("/"));
    if is_bpffs(existing)? {
        return Ok(());
    }
    let usual = Path::new("/sys/fs/bpf");
    if existing != usual {
        return Err(PinsError::NotBpffs(dir.to_owned()));
    }
    let flags = nix::mount::MsFlags::MS_NOSUID
        | nix::mount::MsFlags::MS_NODEV
        | nix::mount::MsFlags::MS_NOEXEC;
    nix::mount::mount(Some("bpf"), usual, Some("bpf"), flags, Some("mode=0700")).map_err(|errno| {
        PinsError::Io {
            call: "mount a bpffs on",
            path: usual.to_owned(),
            source: errno.into(),
        }
    })
}

fn is_bpffs(path: &Path) -> Result<bool, PinsError> {
    let found = rustix::fs::statfs(path).map_err(|errno| PinsError::Io {
        call: "statfs",
        path: path.to_owned(),
        source: errno.into(),
    })?;
    Ok(u64::try_from(found.f_type) == Ok(BPF_FS_MAGIC))
}

/// Makes a folder that nobody else can write to. One that is there and that
/// somebody else could have filled is refused.
pub(super) fn make_private(dir: &Path) -> Result<(), PinsError> {
    let failed = |call, source| PinsError::Io {
        call,
        path: dir.to_owned(),
        source,
    };
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(failed("make", error));
        }
        _ => {}
    }
    let there = match fs::symlink_metadata(dir) {
        Ok(there) => there,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("stat", error)),
    };
    let own = there.uid() == rustix::process::geteuid().as_raw();
    if there.is_dir() && own && there.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(PinsError::NotPrivate(dir.to_owned()))
}

/// What is in a folder.
pub(super) fn entries(dir: &Path) -> Result<Vec<PathBuf>, PinsError> {
    let failed = |source| PinsError::Io {
        call: "list",
        path: dir.to_owned(),
        source,
    };
    let entries = fs::read_dir(dir).map_err(failed)?;
    entries
        .map(|entry| Ok(entry.map_err(failed)?.path()))
        .collect()
}

/// Removes a pin, if it is there.
pub(super) fn remove(path: &Path) -> Result<(), PinsError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(PinsError::Io {
            call: "remove",
            path: path.to_owned(),
            source,
        }),
        _ => Ok(()),
    }
}
