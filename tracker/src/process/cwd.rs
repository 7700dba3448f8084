//! Where processes have their working directory.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::dir::Dir;
use super::identity::Pid;
use super::proc::{Proc, ProcError, Seen};

/// The working directories of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cwds {
    /// Those of its threads: one, unless a thread has parted from the others
    /// (`CLONE_FS` of `unshare(2)`). None when no thread is left.
    Found(Vec<Cwd>),
    /// They may not be read (`PTRACE_MODE_READ_FSCREDS` of `ptrace(2)`).
    Unreadable,
}

/// A working directory: what its link says. Nothing was asked of the file
/// system that it lies on, which may not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cwd {
    /// Whose: a path below `/proc`.
    task: String,
    /// The path, as the kernel prints it from the root of the reader.
    pub path: LinkedPath,
}

/// What a link of `/proc` says of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkedPath {
    /// The path that leads there; or that lies in another mount namespace, or
    /// below a mount that was taken out of the tree.
    There(PathBuf),
    /// The path that led there before it was removed; or a path that ends so.
    Deleted(PathBuf),
    /// It has more bytes than a page.
    TooLong,
}

const DELETED: &[u8] = b" (deleted)";

impl LinkedPath {
    pub(super) fn parse(link: Result<Vec<u8>, Errno>) -> Result<LinkedPath, Errno> {
        let link = match link {
            Ok(link) => link,
            Err(Errno::NAMETOOLONG) => return Ok(LinkedPath::TooLong),
            Err(errno) => return Err(errno),
        };
        let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
        Ok(match link.strip_suffix(DELETED) {
            Some(before) => LinkedPath::Deleted(path(before)),
            None => LinkedPath::There(path(&link)),
        })
    }

    /// The path, without the mark of a removed file.
    pub fn path(&self) -> Option<&Path> {
        match self {
            LinkedPath::There(path) | LinkedPath::Deleted(path) => Some(path),
            LinkedPath::TooLong => None,
        }
    }

    /// What it can mean: one that seems to be removed may really be called
    /// `x (deleted)`. Nothing when it is too long.
    pub fn readings(&self) -> Vec<PathBuf> {
        match self {
            LinkedPath::There(path) => vec![path.clone()],
            LinkedPath::Deleted(path) => vec![path.clone(), self.text().into()],
            LinkedPath::TooLong => Vec::new(),
        }
    }

    /// All that the link said.
    pub fn text(&self) -> OsString {
        match self {
            LinkedPath::There(path) => path.clone().into_os_string(),
            LinkedPath::Deleted(path) => {
                OsString::from_vec([path.as_os_str().as_bytes(), DELETED].concat())
            }
            LinkedPath::TooLong => "a path that is longer than a page".into(),
        }
    }
}

impl Proc {
    /// Where the threads of a process have their working directory.
    pub fn cwds(&self, seen: &Seen) -> Result<Cwds, ProcError> {
        let pid = seen.id.pid;
        // A leader that has exited has none, while its threads have.
        if seen.stat.threads <= 1 {
            return self.collect_cwds([pid.to_string()]);
        }
        let tasks = self.numbers(&format!("{pid}/task"))?;
        self.collect_cwds(tasks.iter().map(|task| format!("{pid}/task/{task}")))
    }

    fn collect_cwds(&self, tasks: impl IntoIterator<Item = String>) -> Result<Cwds, ProcError> {
        let mut found: Vec<Cwd> = Vec::new();
        for task in tasks {
            let name = format!("{task}/cwd");
            match LinkedPath::parse(self.link(&name)) {
                // Most threads share one.
                Ok(path) if found.iter().any(|cwd| cwd.path == path) => {}
                Ok(path) => found.push(Cwd { task, path }),
                Err(Errno::NOENT | Errno::SRCH) => {}
                // The kernel also says so of a thread that is gone by now.
                Err(Errno::ACCESS | Errno::PERM) => {
                    if self.read(&format!("{task}/stat"))?.is_some() {
                        return Ok(Cwds::Unreadable);
                    }
                }
                Err(errno) => return Err(self.error(&name, errno)),
            }
        }
        Ok(Cwds::Found(found))
    }

    /// Goes to a working directory; `None` when its thread is gone. This, and
    /// what follows it, can take for ever.
    pub fn enter(&self, cwd: &Cwd) -> Result<Option<Dir>, Errno> {
        let name = format!("{}/cwd", cwd.task);
        match Dir::at(self.as_fd(), Path::new(&name)) {
            Ok(dir) => Ok(Some(dir)),
            Err(Errno::NOENT | Errno::SRCH) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Whether the link of a working directory still says what it said.
    pub fn still_at(&self, cwd: &Cwd) -> bool {
        LinkedPath::parse(self.link(&format!("{}/cwd", cwd.task))) == Ok(cwd.path.clone())
    }

    /// The root directory of a process, under the same conditions as [`Proc::enter`].
    pub fn root(&self, pid: Pid) -> Result<LinkedPath, Errno> {
        LinkedPath::parse(self.link(&format!("{pid}/root")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    struct Sleep(Child);

    impl Sleep {
        fn in_dir(dir: &Path) -> Sleep {
            let mut command = Command::new("sleep");
            Sleep(
                command
                    .arg("600")
                    .current_dir(dir)
                    .stdout(Stdio::null())
                    .spawn()
                    .unwrap(),
            )
        }

        fn cwds(&self) -> Cwds {
            let proc = Proc::open().unwrap();
            let pid = Pid::new(i64::from(self.0.id())).unwrap();
            proc.cwds(&proc.seen(pid).unwrap().unwrap()).unwrap()
        }
    }

    impl Drop for Sleep {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn paths(cwds: &Cwds) -> Vec<LinkedPath> {
        let Cwds::Found(found) = cwds else {
            panic!("{cwds:?}")
        };
        found.iter().map(|cwd| cwd.path.clone()).collect()
    }

    #[test]
    fn a_removed_working_directory_is_marked_and_can_be_entered() {
        let dir = tempfile::tempdir().unwrap();
        let real = std::fs::canonicalize(dir.path()).unwrap().join("a");
        std::fs::create_dir(&real).unwrap();
        let id = Dir::open(&real).unwrap().id();
        let sleep = Sleep::in_dir(&real);
        assert_eq!(paths(&sleep.cwds()), [LinkedPath::There(real.clone())]);
        std::fs::remove_dir(&real).unwrap();
        let cwds = sleep.cwds();
        assert_eq!(paths(&cwds), [LinkedPath::Deleted(real)]);
        let Cwds::Found(found) = cwds else { panic!() };
        let entered = Proc::open().unwrap().enter(&found[0]).unwrap().unwrap();
        assert!(entered.id().is(id));
    }

    #[test]
    fn a_thread_that_parted_from_the_others_shows_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let real = std::fs::canonicalize(dir.path()).unwrap();
        let (told, ready) = std::sync::mpsc::channel();
        let (done, end) = std::sync::mpsc::channel::<()>();
        let own = real.clone();
        let thread = std::thread::spawn(move || {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_FS).unwrap();
            std::env::set_current_dir(&own).unwrap();
            told.send(()).unwrap();
            let _ = end.recv();
        });
        ready.recv().unwrap();
        let proc = Proc::open().unwrap();
        let seen = proc.seen(Pid::own()).unwrap().unwrap();
        let found = paths(&proc.cwds(&seen).unwrap());
        assert!(found.contains(&LinkedPath::There(real)), "{found:?}");
        assert!(found.len() >= 2, "{found:?}");
        drop(done);
        thread.join().unwrap();
    }

    #[test]
    fn a_link_is_split_from_its_mark_once() {
        let parse = |text: &[u8]| LinkedPath::parse(Ok(text.to_vec())).unwrap();
        assert_eq!(parse(b"/a"), LinkedPath::There("/a".into()));
        assert_eq!(parse(b"/a (deleted)"), LinkedPath::Deleted("/a".into()));
        assert_eq!(
            parse(b"/a (deleted) (deleted)"),
            LinkedPath::Deleted("/a (deleted)".into())
        );
        assert_eq!(parse(b"/a (deleted)").text(), "/a (deleted)");
        assert_eq!(
            LinkedPath::parse(Err(Errno::NAMETOOLONG)),
            Ok(LinkedPath::TooLong)
        );
        assert_eq!(LinkedPath::parse(Err(Errno::ACCESS)), Err(Errno::ACCESS));
    }

    #[test]
    fn who_is_dead_has_none() {
        let mut child = Command::new("true").spawn().unwrap();
        let proc = Proc::open().unwrap();
        let pid = Pid::new(i64::from(child.id())).unwrap();
        let seen = proc.seen(pid).unwrap().unwrap();
        while !proc.is_dead(seen.id).unwrap() {
            std::thread::yield_now();
        }
        assert_eq!(proc.cwds(&seen).unwrap(), Cwds::Found(vec![]));
        child.wait().unwrap();
    }
}
