//! What a process keeps in use of file systems besides its working directory.

use rustix::fs::{AtFlags, FileType, StatxFlags};
use rustix::io::Errno;

use super::cwd::LinkedPath;
use super::dir::born_ns;
use super::identity::Pid;
use super::proc::{Proc, ProcError, Seen};

/// Something with a path that a process keeps in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// How.
    pub kind: HeldKind,
    /// Its path.
    pub path: LinkedPath,
    /// The link that leads there: a path below `/proc`.
    link: String,
}

/// How something is kept in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeldKind {
    /// By a file descriptor.
    File,
    /// Mapped into memory; the program itself is, too.
    Map,
    /// As the root directory.
    Root,
}

/// What is known of a file in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldFile {
    /// Bytes; `None` when it is not a regular file.
    pub size: Option<u64>,
    /// The mount through which it was opened, as in the first field of `mountinfo`.
    pub mount_id: u64,
    /// When it was made: nanoseconds since 1970. `None` where the file system
    /// does not remember.
    pub born_ns: Option<i64>,
}

impl Proc {
    /// The open files of a process that have a path, and its root directory;
    /// `None` when they may not be read.
    pub fn open_files(&self, seen: &Seen) -> Result<Option<Vec<Held>>, ProcError> {
        let pid = seen.id.pid;
        // A leader that has exited has closed what its threads have open.
        let mut tasks = vec![pid.to_string()];
        if seen.stat.state.is_zombie() {
            let threads = self.numbers(&format!("{pid}/task"))?;
            tasks = threads
                .iter()
                .map(|thread| format!("{pid}/task/{thread}"))
                .collect();
        }
        let mut found = Vec::new();
        for task in tasks {
            let files = match self.numbers(&format!("{task}/fd")) {
                Err(error) if error.is_denied() => return Ok(None),
                files => files?,
            };
            let files = files
                .iter()
                .map(|file| (HeldKind::File, format!("{task}/fd/{file}")));
            let root = (HeldKind::Root, format!("{task}/root"));
            for (kind, link) in files.chain([root]) {
                match LinkedPath::parse(self.link(&link)) {
                    Ok(path) if has_path(&path) => found.push(Held { kind, path, link }),
                    // A socket, a pipe; or closed since.
                    Ok(_) | Err(Errno::NOENT | Errno::SRCH | Errno::ACCESS) => {}
                    Err(errno) => return Err(self.error(&link, errno)),
                }
            }
        }
        Ok(Some(found))
    }

    /// The mapped files of a process; none when they may not be read. Can take
    /// for ever: it waits for the lock of the process's memory.
    pub fn mapped_files(&self, pid: Pid) -> Result<Vec<Held>, ProcError> {
        let text = match self.read(&format!("{pid}/maps")) {
            Err(error) if error.is_denied() => return Ok(Vec::new()),
            text => text?.unwrap_or_default(),
        };
        let mut found: Vec<Held> = Vec::new();
        for (range, path) in text.split(|byte| *byte == b'\n').filter_map(parse_map) {
            // The parts of one file follow each other.
            if found.last().is_some_and(|last| last.path == path) {
                continue;
            }
            let link = format!("{pid}/map_files/{range}");
            found.push(Held {
                kind: HeldKind::Map,
                path,
                link,
            });
        }
        Ok(found)
    }

    /// Looks at a file in use; `None` when it is not any more. Can take for ever.
    pub fn look_at(&self, held: &Held) -> Result<Option<HeldFile>, Errno> {
        let what = StatxFlags::TYPE | StatxFlags::SIZE | StatxFlags::MNT_ID | StatxFlags::BTIME;
        let stat = match rustix::fs::statx(self.as_fd(), &held.link, AtFlags::STATX_DONT_SYNC, what)
        {
            Ok(stat) => stat,
            Err(Errno::NOENT | Errno::SRCH) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let regular = FileType::from_raw_mode(stat.stx_mode.into()) == FileType::RegularFile;
        Ok(Some(HeldFile {
            size: regular.then_some(stat.stx_size),
            mount_id: stat.stx_mnt_id,
            born_ns: born_ns(&stat),
        }))
    }
}

fn has_path(path: &LinkedPath) -> bool {
    path.path().is_some_and(std::path::Path::is_absolute)
}

/// A line of `proc_pid_maps(5)`: the name of the range in `map_files`, and the path.
fn parse_map(line: &[u8]) -> Option<(String, LinkedPath)> {
    let slash = line.iter().position(|byte| *byte == b'/')?;
    let (numbers, path) = line.split_at_checked(slash)?;
    let range = numbers.split(|byte| *byte == b' ').next()?;
    let (start, end) = std::str::from_utf8(range).ok()?.split_once('-')?;
    // There the numbers have no leading zeros.
    let number = |text| u64::from_str_radix(text, 16).ok();
    let range = format!("{:x}-{:x}", number(start)?, number(end)?);
    // A line feed is the only byte that is escaped, and may have been one as it is.
    let path = LinkedPath::parse(Ok(path.to_vec())).ok()?;
    Some((range, path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn own() -> (Proc, Seen) {
        let proc = Proc::open().unwrap();
        let seen = proc.seen(Pid::own()).unwrap().unwrap();
        (proc, seen)
    }

    #[test]
    fn a_deleted_file_that_is_open_is_found_with_its_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = std::fs::canonicalize(dir.path()).unwrap().join("a b");
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(b"12345").unwrap();
        std::fs::remove_file(&path).unwrap();
        let (proc, seen) = own();
        let found = proc.open_files(&seen).unwrap().unwrap();
        let wanted = LinkedPath::Deleted(path);
        let held = found.iter().find(|held| held.path == wanted).unwrap();
        assert_eq!(held.kind, HeldKind::File);
        assert_eq!(proc.look_at(held).unwrap().unwrap().size, Some(5));
        drop(file);
        assert_eq!(proc.look_at(held).unwrap(), None);
        assert!(found.iter().any(|held| held.kind == HeldKind::Root));
    }

    #[test]
    fn the_program_itself_is_mapped() {
        let (proc, _) = own();
        let program = LinkedPath::There(std::env::current_exe().unwrap());
        let found = proc.mapped_files(Pid::own()).unwrap();
        assert!(
            found
                .iter()
                .any(|held| held.path == program && held.kind == HeldKind::Map)
        );
    }

    #[test]
    fn a_line_of_maps_tells_the_range_and_the_path() {
        let line = b"00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/a b (deleted)";
        let path = LinkedPath::Deleted("/usr/bin/a b".into());
        assert_eq!(parse_map(line), Some(("400000-452000".to_owned(), path)));
        let heap = b"00e03000-00e24000 rw-p 00000000 00:00 0           [heap]";
        assert_eq!(parse_map(heap), None);
    }
}
