//! Reading `/proc`. A process that is gone is a value here, not an error.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;

use super::identity::{Pid, ProcessId};
use super::stat::{ParseStatError, Stat};
use super::time::Clock;

/// More than the longest `stat`: 52 fields of up to 20 digits, and a name.
const STAT_MAX: usize = 1536;

/// An open `/proc`.
#[derive(Debug)]
pub struct Proc {
    dir: OwnedFd,
    path: PathBuf,
    clock: Clock,
}

/// A process that was there when its files were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Who it is. The start time is that of the initial time namespace, so
    /// [`Stat::start_time`] differs from it inside another one.
    pub id: ProcessId,
    /// What `stat` said.
    pub stat: Stat,
}

impl Proc {
    /// Opens `/proc`.
    pub fn open() -> Result<Proc, ProcError> {
        Proc::at(Path::new("/proc"))
    }

    /// Opens a directory that looks like `/proc`.
    pub fn at(path: &Path) -> Result<Proc, ProcError> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let dir = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| ProcError::Io {
            path: path.to_owned(),
            source: errno.into(),
        })?;
        let mut proc = Proc {
            dir,
            path: path.to_owned(),
            clock: Clock::default(),
        };
        // A kernel without time namespaces has no such file.
        proc.clock = Clock::parse(
            &proc
                .read("self/timens_offsets")
                .unwrap_or_default()
                .unwrap_or_default(),
        );
        Ok(proc)
    }

    /// The clock of this `/proc`.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// All thread group ids that one walk of the directory shows. A walk that
    /// runs while processes come and go can miss one that was there throughout,
    /// when the kernel's cursor passes a pid that dies: callers that must not
    /// miss any walk twice.
    pub fn pids(&self) -> Result<Vec<Pid>, ProcError> {
        let entries = Dir::read_from(&self.dir).map_err(|errno| self.error("", errno))?;
        let mut pids = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|errno| self.error("", errno))?;
            let name = entry.file_name().to_str().unwrap_or_default();
            if let Ok(pid) = name.parse() {
                pids.push(pid);
            }
        }
        Ok(pids)
    }

    /// Who has this pid now; `None` when nobody has.
    pub fn seen(&self, pid: Pid) -> Result<Option<Seen>, ProcError> {
        let name = format!("{pid}/stat");
        let mut buffer = [0; STAT_MAX];
        let Some(text) = self.read_once(&name, &mut buffer)? else {
            return Ok(None);
        };
        let stat = Stat::parse(text).map_err(|source| ProcError::Parse {
            path: self.path.join(&name),
            source,
        })?;
        let id = ProcessId::new(stat.pid, self.clock.to_initial(stat.start_time));
        Ok(Some(Seen { id, stat }))
    }

    /// `id` as it is now; `None` when it is gone or another process has its pid.
    pub fn same(&self, id: ProcessId) -> Result<Option<Seen>, ProcError> {
        Ok(self.seen(id.pid)?.filter(|seen| seen.id == id))
    }

    /// Whether no thread of `id` is left. A zombie that nobody waits for is dead.
    pub fn is_dead(&self, id: ProcessId) -> Result<bool, ProcError> {
        Ok(self.same(id)?.is_none_or(|seen| seen.stat.is_dead()))
    }

    /// Everybody, by two walks, so that a process which lives throughout is in it.
    pub fn scan(&self) -> Result<Vec<Seen>, ProcError> {
        let mut pids = self.pids()?;
        pids.extend(self.pids()?);
        pids.sort_unstable();
        pids.dedup();
        let mut all = Vec::with_capacity(pids.len());
        for pid in pids {
            all.extend(self.seen(pid)?);
        }
        Ok(all)
    }

    /// The arguments of a process, each as bytes; `None` when it is gone, empty
    /// for kernel threads and zombies. The caller checks the identity around it.
    ///
    /// They are also empty when the kernel does not answer soon. It reads them
    /// from the memory of the process, which may lie on a file system that
    /// hangs, or be locked for seconds by a process that forks in a loop. Of
    /// the files that are read here, only this one can wait for the process.
    pub fn cmdline(&self, pid: Pid) -> Result<Option<Vec<Vec<u8>>>, ProcError> {
        let name = format!("{pid}/cmdline");
        let Some(file) = self.open_file(&name)? else {
            return Ok(None);
        };
        match super::patient::read_to_end(file.into()) {
            Ok(text) => Ok(Some(split_cmdline(&text.unwrap_or_default()))),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => Ok(None),
            Err(source) => Err(ProcError::Io {
                path: self.path.join(name),
                source,
            }),
        }
    }

    /// The path of the program; `None` when it is gone, has none, or may not be read.
    pub fn exe(&self, pid: Pid) -> Option<Vec<u8>> {
        rustix::fs::readlinkat(&self.dir, format!("{pid}/exe"), Vec::new())
            .ok()
            .map(std::ffi::CString::into_bytes)
    }

    /// The kernel function in which the leader sleeps; `None` when it is gone,
    /// runs, or may not be looked at.
    pub fn wchan(&self, pid: Pid) -> Option<Vec<u8>> {
        self.read(&format!("{pid}/wchan"))
            .ok()
            .flatten()
            .filter(|name| !name.is_empty() && name != b"0")
    }

    /// The real uid, from `status`: the owner of the directory is root for a
    /// process that is not dumpable.
    pub fn uid(&self, pid: Pid) -> Result<Option<u32>, ProcError> {
        Ok(self
            .read(&format!("{pid}/status"))?
            .and_then(|text| parse_uid(&text)))
    }

    /// The pids of a process in this `/proc`'s pid namespace and in those inside
    /// of it that the process is in, the innermost last. Empty where the kernel
    /// does not tell (`NSpid` of `proc_pid_status(5)`).
    pub fn namespace_pids(&self, pid: Pid) -> Result<Option<Vec<Pid>>, ProcError> {
        Ok(self
            .read(&format!("{pid}/status"))?
            .map(|text| parse_namespace_pids(&text)))
    }

    /// What a link below this `/proc` says.
    pub(super) fn link(&self, name: &str) -> Result<Vec<u8>, Errno> {
        Ok(rustix::fs::readlinkat(&self.dir, name, Vec::new())?.into_bytes())
    }

    /// The numbers among the names in a directory; none when the process is gone.
    pub(super) fn numbers(&self, name: &str) -> Result<Vec<u32>, ProcError> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let gone = |errno| matches!(errno, Errno::NOENT | Errno::SRCH);
        let dir = match rustix::fs::openat(&self.dir, name, flags, Mode::empty()) {
            Err(errno) if gone(errno) => return Ok(Vec::new()),
            dir => dir.map_err(|errno| self.error(name, errno))?,
        };
        let mut numbers = Vec::new();
        for entry in Dir::new(dir).map_err(|errno| self.error(name, errno))? {
            match entry {
                Ok(entry) => numbers.extend(
                    entry
                        .file_name()
                        .to_str()
                        .ok()
                        .and_then(|name| name.parse::<u32>().ok()),
                ),
                Err(errno) if gone(errno) => break,
                Err(errno) => return Err(self.error(name, errno)),
            }
        }
        Ok(numbers)
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Reads a file below this `/proc`; `None` when the process is gone.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, ProcError> {
        let Some(file) = self.open_file(name)? else {
            return Ok(None);
        };
        let mut text = Vec::with_capacity(512);
        match std::fs::File::from(file).read_to_end(&mut text) {
            Ok(_) => Ok(Some(text)),
            // The process went between the open and the read.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => Ok(None),
            Err(source) => Err(ProcError::Io {
                path: self.path.join(name),
                source,
            }),
        }
    }

    /// The same with one system call, for a file that the kernel hands out
    /// whole when it fits. It is what happens before each signal.
    fn read_once<'a>(
        &self,
        name: &str,
        buffer: &'a mut [u8],
    ) -> Result<Option<&'a [u8]>, ProcError> {
        let Some(file) = self.open_file(name)? else {
            return Ok(None);
        };
        match rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut *buffer)) {
            Ok(length) => Ok(buffer.get(..length)),
            Err(Errno::SRCH) => Ok(None),
            Err(errno) => Err(self.error(name, errno)),
        }
    }

    fn open_file(&self, name: &str) -> Result<Option<OwnedFd>, ProcError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        match rustix::fs::openat(self.dir.as_fd(), name, flags, Mode::empty()) {
            Ok(file) => Ok(Some(file)),
            Err(Errno::NOENT | Errno::SRCH) => Ok(None),
            Err(errno) => Err(self.error(name, errno)),
        }
    }

    pub(super) fn error(&self, name: &str, errno: Errno) -> ProcError {
        ProcError::Io {
            path: self.path.join(name),
            source: errno.into(),
        }
    }
}

/// Arguments end with NUL; an argument can be empty.
fn split_cmdline(text: &[u8]) -> Vec<Vec<u8>> {
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    if text.is_empty() {
        return Vec::new();
    }
    text.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}

fn parse_uid(status: &[u8]) -> Option<u32> {
    words(status, b"Uid:").next()?.parse().ok()
}

fn parse_namespace_pids(status: &[u8]) -> Vec<Pid> {
    let pids = words(status, b"NSpid:").map(|word| word.parse().ok());
    pids.collect::<Option<_>>().unwrap_or_default()
}

/// The words of the line of `status` that begins with `name`. The name of the
/// process, which could forge a line, has its line feeds escaped by the kernel.
pub(super) fn words<'a>(status: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = &'a str> {
    let mut lines = status.split(|byte| *byte == b'\n');
    let line = lines.find_map(|line| line.strip_prefix(name));
    let line = std::str::from_utf8(line.unwrap_or_default()).unwrap_or_default();
    line.split_ascii_whitespace()
}

/// `/proc` could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ProcError {
    /// The kernel refused.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// What was read.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The content is not what the manual page says.
    #[error("cannot parse {}: {source}", path.display())]
    Parse {
        /// What was read.
        path: PathBuf,
        /// What is wrong with it.
        source: ParseStatError,
    },
}

impl ProcError {
    /// Whether it is a lack of permission.
    pub fn is_denied(&self) -> bool {
        matches!(self.errno(), Some(Errno::ACCESS | Errno::PERM))
    }

    pub(super) fn is_invalid(&self) -> bool {
        self.errno() == Some(Errno::INVAL)
    }

    fn errno(&self) -> Option<Errno> {
        match self {
            ProcError::Io { source, .. } => Errno::from_io_error(source),
            ProcError::Parse { .. } => None,
        }
    }

    /// Whether a descriptor that is closed could help.
    pub fn is_out_of_descriptors(&self) -> bool {
        matches!(self.errno(), Some(Errno::MFILE | Errno::NFILE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_itself_is_in_a_scan() {
        let proc = Proc::open().unwrap();
        let own = proc.seen(Pid::own()).unwrap().unwrap();
        assert!(proc.scan().unwrap().iter().any(|seen| seen.id == own.id));
        assert!(!proc.is_dead(own.id).unwrap());
        assert_eq!(
            proc.uid(Pid::own()).unwrap(),
            Some(rustix::process::getuid().as_raw())
        );
        assert!(!proc.cmdline(Pid::own()).unwrap().unwrap().is_empty());
    }

    #[test]
    fn a_pid_that_nobody_has_is_gone_and_no_error() {
        let proc = Proc::open().unwrap();
        let nobody = Pid::new(i64::from(i32::MAX)).unwrap();
        assert_eq!(proc.seen(nobody).unwrap(), None);
        assert_eq!(proc.uid(nobody).unwrap(), None);
        assert_eq!(proc.exe(nobody), None);
    }

    #[test]
    fn another_start_time_is_another_process() {
        let proc = Proc::open().unwrap();
        let own = proc.seen(Pid::own()).unwrap().unwrap().id;
        let later = super::super::StartTime::from_ticks(own.start_time.ticks() + 1);
        assert!(proc.is_dead(ProcessId::new(own.pid, later)).unwrap());
    }

    #[test]
    fn empty_arguments_are_kept() {
        assert_eq!(
            split_cmdline(b"a\0\0b\0"),
            [b"a".to_vec(), vec![], b"b".to_vec()]
        );
        assert_eq!(split_cmdline(b""), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn the_real_uid_is_the_first() {
        assert_eq!(parse_uid(b"Name:\tx\nUid:\t1000\t0\t0\t0\n"), Some(1000));
        assert_eq!(parse_uid(b"Name:\tx\n"), None);
    }

    #[test]
    fn the_innermost_pid_is_the_last() {
        let pids = parse_namespace_pids(b"Name:\tx\nNSpid:\t4711\t1\nNSpgid:\t9\n");
        assert_eq!(pids, [Pid::new(4711).unwrap(), Pid::INIT]);
        assert_eq!(parse_namespace_pids(b"NSpid:\t7\t0\n"), []);
    }
}
