//! The mounts of a mount namespace: `proc_pid_mountinfo(5)`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::dir::Device;
use super::identity::Pid;
use super::proc::{Proc, ProcError};

/// Mounts, as one process sees them. Parsed here because the `procfs` crate
/// wants UTF-8 and leaves the escapes of a path as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountTable {
    mounts: Vec<Mount>,
}

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Names it while it is there; see [`super::Dir::mount_id`].
    pub id: u64,
    /// The device of its file system.
    pub device: Device,
    /// Which directory of the file system it shows. Ends with `//deleted` when
    /// that directory is removed.
    pub root: PathBuf,
    /// Where it is, from the root directory of the process.
    pub point: PathBuf,
}

impl MountTable {
    /// From the content of the file. Lines that are not understood are left out.
    pub fn parse(text: &[u8]) -> MountTable {
        let lines = text.split(|byte| *byte == b'\n');
        MountTable {
            mounts: lines.filter_map(Mount::parse).collect(),
        }
    }

    /// All mounts, in the kernel's order: one that hides another comes later.
    pub fn iter(&self) -> impl Iterator<Item = &Mount> {
        self.mounts.iter()
    }

    /// The mount with this id.
    pub fn by_id(&self, id: u64) -> Option<&Mount> {
        self.iter().find(|mount| mount.id == id)
    }

    /// The mount that a path leads into.
    pub fn holding(&self, path: &Path) -> Option<&Mount> {
        self.iter()
            .filter(|mount| path.starts_with(&mount.point))
            // The last of those that are equally near.
            .max_by_key(|mount| mount.point.components().count())
    }
}

impl Mount {
    fn parse(line: &[u8]) -> Option<Mount> {
        let mut fields = line.split(|byte| *byte == b' ');
        let id = text(fields.next()?)?.parse().ok()?;
        let (major, minor) = text(fields.nth(1)?)?.split_once(':')?;
        Some(Mount {
            id,
            device: Device {
                major: major.parse().ok()?,
                minor: minor.parse().ok()?,
            },
            root: unescape(fields.next()?),
            point: unescape(fields.next()?),
        })
    }

    /// A path in this mount as a path in its file system.
    pub fn in_file_system(&self, path: &Path) -> Option<PathBuf> {
        Some(self.root.join(path.strip_prefix(&self.point).ok()?))
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Space, tab, line feed, backslash and `#` are written as `\040`.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        let octal = after.get(..3).filter(|_| *first == b'\\');
        let octal = octal
            .and_then(text)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(octal.unwrap_or(*first));
        rest = match octal {
            Some(_) => after.get(3..).unwrap_or_default(),
            None => after,
        };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

impl Proc {
    /// The mounts that a process sees; `None` when it is gone, or may not be
    /// looked at.
    pub fn mounts(&self, pid: Pid) -> Result<Option<MountTable>, ProcError> {
        match self.read(&format!("{pid}/mountinfo")) {
            Ok(text) => Ok(text.map(|text| MountTable::parse(&text))),
            // One that exits has left its namespaces already: EINVAL.
            Err(error) if error.is_denied() || error.is_invalid() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The inode number that names a process's mount namespace; `None` when it
    /// is gone, or may not be looked at.
    pub fn mount_namespace(&self, pid: Pid) -> Option<u64> {
        let link = self.link(&format!("{pid}/ns/mnt")).ok()?;
        let number = link.strip_prefix(b"mnt:[")?.strip_suffix(b"]")?;
        text(number)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Dir;
    use super::*;

    #[test]
    fn the_last_of_the_nearest_mounts_holds_a_path() {
        let table = MountTable::parse(
            b"1 0 8:1 / / rw - ext4 /dev/a rw\n\
              2 1 8:1 /data/x /w rw shared:3 - ext4 /dev/a rw\n\
              3 1 0:40 / /w rw - tmpfs none rw\n\
              garbage\n\
              4 1 0:41 / /w-2 rw - tmpfs none rw\n",
        );
        let held = |path: &str| table.holding(Path::new(path)).unwrap().id;
        assert_eq!(held("/w/a"), 3);
        assert_eq!(held("/w"), 3);
        assert_eq!(held("/wa"), 1);
        assert_eq!(held("/w-2/a"), 4);
        let bind = table.by_id(2).unwrap();
        assert_eq!(
            bind.in_file_system(Path::new("/w/a/b")),
            Some("/data/x/a/b".into())
        );
        assert_eq!(bind.in_file_system(Path::new("/v")), None);
    }

    #[test]
    fn an_escaped_path_is_read_back() {
        let line = br"1 0 8:1 / /a\040b\134\012\011c\ rw - ext4 /dev/a rw";
        let point = Mount::parse(line).unwrap().point;
        assert_eq!(point, Path::new("/a b\\\n\tc\\"));
    }

    #[test]
    fn the_kernel_tells_the_mount_of_a_directory() {
        let proc = Proc::open().unwrap();
        let table = proc.mounts(Pid::own()).unwrap().unwrap();
        let dir = Dir::open(Path::new("/proc")).unwrap();
        let mount = table.by_id(dir.mount_id()).unwrap();
        assert_eq!(mount.point, Path::new("/proc"));
        assert_eq!(mount.device, dir.id().device);
        assert!(proc.mount_namespace(Pid::own()).is_some());
    }
}
