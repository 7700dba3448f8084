//! A directory itself, as opposed to its name.

use std::ffi::OsString;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// The device that a file system lies on, or stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Device {
    /// Its major number; 0 for a file system without a block device.
    pub major: u32,
    /// Its minor number.
    pub minor: u32,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// Which directory it is, whatever it is called and wherever it is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirId {
    /// The device of `stat(2)`. On btrfs it is that of the subvolume, which is
    /// not the one that `mountinfo` shows.
    pub device: Device,
    /// Its inode number. File systems give it to the next directory when this
    /// one is gone: ext4 does so at once.
    pub inode: u64,
    /// When it was made: nanoseconds since 1970. `None` where the file system
    /// does not remember.
    pub born_ns: Option<i64>,
}

impl DirId {
    /// Whether both are the same directory.
    pub fn is(self, other: DirId) -> bool {
        let born = match (self.born_ns, other.born_ns) {
            (Some(one), Some(other)) => one == other,
            // A file server that does not tell every time.
            _ => true,
        };
        born && self.inode == other.inode && self.device == other.device
    }
}

/// A directory that was reached, without having been opened for reading: its
/// file system is asked for as little as possible, and is not kept from being
/// unmounted for longer than this value lives.
///
/// Network file systems, and those in user space, may take for ever to answer.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    stat: Statx,
}

impl Dir {
    /// Goes to a path, through symbolic links.
    pub fn open(path: &Path) -> Result<Dir, Errno> {
        Dir::at(CWD, path)
    }

    /// Goes to a path below an open directory.
    pub(super) fn at(below: BorrowedFd<'_>, path: &Path) -> Result<Dir, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(below, path, flags, Mode::empty())?;
        // What is cached is enough, and does not wait for a server.
        let how = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let what = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
        let stat = rustix::fs::statx(&fd, "", how, what)?;
        Ok(Dir { fd, stat })
    }

    /// The directory around it, also when this one is removed, and across
    /// mount points; `None` for the root, or for the root of a mount that was
    /// taken out of the tree.
    pub fn parent(&self) -> Result<Option<Dir>, Errno> {
        let parent = Dir::at(self.fd.as_fd(), Path::new(".."))?;
        let same = parent.id().is(self.id()) && parent.mount_id() == self.mount_id();
        Ok((!same).then_some(parent))
    }

    /// Which one it is.
    pub fn id(&self) -> DirId {
        let stat = &self.stat;
        DirId {
            device: Device {
                major: stat.stx_dev_major,
                minor: stat.stx_dev_minor,
            },
            inode: stat.stx_ino,
            born_ns: born_ns(stat),
        }
    }

    /// The mount through which it was reached, as in the first field of `mountinfo`.
    pub fn mount_id(&self) -> u64 {
        self.stat.stx_mnt_id
    }

    /// Its permission bits, and its owner.
    pub fn mode(&self) -> (u32, u32) {
        (u32::from(self.stat.stx_mode) & 0o7777, self.stat.stx_uid)
    }

    /// Its path in this process's view, without symbolic links.
    pub fn path(&self) -> Result<PathBuf, Errno> {
        let link = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        let path = rustix::fs::readlink(link, Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(path.into_bytes())))
    }
}

/// When a file was made, if its file system remembers.
pub(super) fn born_ns(stat: &Statx) -> Option<i64> {
    (stat.stx_mask & StatxFlags::BTIME.bits() != 0).then(|| {
        let seconds = stat.stx_btime.tv_sec.saturating_mul(1_000_000_000);
        seconds.saturating_add(i64::from(stat.stx_btime.tv_nsec))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_directory_still_has_the_one_around_it() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        let inner = Dir::open(&inner).unwrap();
        let outer = Dir::open(dir.path()).unwrap();
        std::fs::remove_dir_all(dir.path().join("a")).unwrap();
        let around = inner.parent().unwrap().unwrap().parent().unwrap().unwrap();
        assert!(around.id().is(outer.id()));
        assert!(!inner.id().is(outer.id()));
    }

    #[test]
    fn a_directory_made_in_the_place_of_another_is_not_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::create_dir(&path).unwrap();
        let old = Dir::open(&path).unwrap();
        std::fs::remove_dir(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(!Dir::open(&path).unwrap().id().is(old.id()));
    }

    #[test]
    fn a_reused_inode_is_told_by_the_time_of_birth() {
        let device = Device { major: 8, minor: 1 };
        let id = |born_ns| DirId {
            device,
            inode: 5,
            born_ns,
        };
        assert!(id(Some(1)).is(id(Some(1))));
        assert!(!id(Some(1)).is(id(Some(2))));
        assert!(id(None).is(id(Some(2))));
    }

    #[test]
    fn the_root_is_in_nothing() {
        let mut dir = Dir::open(Path::new("/proc/self")).unwrap();
        while let Some(parent) = dir.parent().unwrap() {
            dir = parent;
        }
        assert_eq!(dir.path().unwrap(), Path::new("/"));
    }

    #[test]
    fn a_path_has_no_symbolic_links_in_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("a")).unwrap();
        std::os::unix::fs::symlink("a", dir.path().join("l")).unwrap();
        let real = std::fs::canonicalize(dir.path()).unwrap().join("a");
        let linked = Dir::open(&dir.path().join("l")).unwrap();
        assert_eq!(linked.path().unwrap(), real);
    }
}
