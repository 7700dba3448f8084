//! A marked stage for one test.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::lifeline::Lifeline;
use crate::proc::{self, Stat, Who};
use crate::shared_daemon::SharedDaemon;
use crate::tracked::Tracker;
use crate::wait::{PATIENCE, until};
use crate::{Source, copy_program, stage};

/// The variable that marks whoever was started on a scene.
const MARK: &str = "TRACKER_TEST_MARK";

/// Everybody who was started on it carries its mark, at least one of: the
/// environment, the command line, the working directory, an open lifeline.
/// Dropping it ends them all.
#[derive(Debug)]
pub struct Scene {
    mark: String,
    dir: TempDir,
    lifeline: Lifeline,
    own_program: Option<PathBuf>,
    /// Where `tracker` looks for a daemon.
    socket: PathBuf,
}

impl Scene {
    /// An empty one, without a daemon.
    pub fn new() -> Scene {
        // Short, so that the path of a socket in it fits.
        let dir = tempfile::Builder::new()
            .prefix("tt-")
            .rand_bytes(12)
            .tempdir()
            .expect("a directory");
        // Members run as other users, too.
        open_to_all(dir.path(), 0o777);
        for file in [stage::CAST, stage::ON] {
            let path = dir.path().join(file);
            fs::write(&path, "").expect("a new file");
            open_to_all(&path, 0o666);
        }
        // No test talks to a daemon of this host.
        let socket = dir.path().join("no.sock");
        let mark = dir.path().file_name().expect("its name").to_string_lossy();
        Scene {
            mark: mark.into_owned(),
            lifeline: Lifeline::new(),
            own_program: fs::read_link("/proc/self/exe").ok(),
            socket,
            dir,
        }
    }

    /// An empty one, on which `tracker` finds the daemon that `source` stands
    /// for, if it stands for one.
    #[track_caller]
    pub fn on(source: Source) -> Scene {
        let mut scene = Scene::new();
        if source == Source::Daemon {
            SharedDaemon::get().socket().clone_into(&mut scene.socket);
        }
        scene
    }

    /// A directory of its own, writable by everybody, removed at the end.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The lifeline, of which [`Scene::command`] hands out the write end.
    pub fn lifeline(&self) -> &Lifeline {
        &self.lifeline
    }

    /// A command that is marked, and runs in [`Scene::dir`] without an input.
    /// Scripts find the victim program in `$V` and the directory in `$DIR`.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env(MARK, &self.mark)
            .env(stage::DIR, self.dir())
            .env("DIR", self.dir())
            .env("V", crate::victim_binary())
            .env("TRACKER_SOCKET", &self.socket)
            .current_dir(self.dir())
            .stdin(Stdio::null());
        self.lifeline.hand_to(&mut command);
        command
    }

    /// The victim program, as a [`Scene::command`].
    pub fn victim(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(crate::victim_binary());
        command.args(arguments);
        command
    }

    /// `tracker` with these arguments, as a [`Scene::command`].
    pub fn tracker(&self, arguments: &[&str]) -> Tracker<'_> {
        Tracker::new(self, arguments)
    }

    /// `tracker run` with this source, a report in JSON, and these flags,
    /// which are separated by spaces.
    pub fn run(&self, source: Source, flags: &str) -> Tracker<'_> {
        Tracker::run(self, source, flags)
    }

    /// Who carries the mark and has a living thread.
    pub fn alive(&self) -> Vec<Stat> {
        proc::everybody()
            .filter(|stat| !stat.is_zombie())
            .filter(|stat| {
                let threads = proc::threads(stat.who.pid);
                threads.iter().any(|thread| self.is_marked(thread))
            })
            .collect()
    }

    fn is_marked(&self, thread: &Path) -> bool {
        // A child of this test or of a parallel one that has not executed
        // anything yet holds every descriptor of this process.
        let program = fs::read_link(thread.join("exe")).ok();
        if program.is_some() && program == self.own_program {
            return false;
        }
        let mark = self.mark.as_bytes();
        let lifeline = format!("pipe:[{}]", self.lifeline.inode());
        proc::file_contains(&thread.join("environ"), mark)
            || proc::file_contains(&thread.join("cmdline"), mark)
            || fs::read_link(thread.join("cwd"))
                .is_ok_and(|cwd| proc::contains(cwd.as_os_str().as_bytes(), mark))
            || proc::any_link_is(&thread.join("fd"), &lifeline)
    }

    /// The only living process of the scene that has this name.
    #[track_caller]
    pub fn named(&self, comm: &str) -> Who {
        let mut found = self.alive();
        found.retain(|stat| stat.comm == comm.as_bytes());
        match found.as_slice() {
            [one] => one.who,
            other => panic!("one process named {comm} was expected, not {other:?}"),
        }
    }

    /// Waits until the scene has exactly one living process of this name.
    #[track_caller]
    pub fn await_named(&self, comm: &str) -> Who {
        until(&format!("a process named {comm}"), || {
            let mut found = self.alive();
            found.retain(|stat| stat.comm == comm.as_bytes());
            (found.len() == 1).then(|| found[0].who)
        })
    }

    /// Victims that announced themselves in this role, in their order.
    pub fn cast(&self, role: &str) -> Vec<Who> {
        stage::cast_in(self.dir(), role)
    }

    /// The one victim in this role.
    #[track_caller]
    pub fn who(&self, role: &str) -> Who {
        match self.cast(role).as_slice() {
            [one] => *one,
            other => panic!("one {role} was expected, not {other:?}"),
        }
    }

    /// Waits until so many victims have announced themselves in this role.
    #[track_caller]
    pub fn await_cast(&self, role: &str, count: usize) -> Vec<Who> {
        until(&format!("{count} in the role {role}"), || {
            let cast = self.cast(role);
            (cast.len() >= count).then_some(cast)
        })
    }

    /// Creates a file in [`Scene::dir`], which a script may be waiting for.
    pub fn touch(&self, name: &str) {
        fs::write(self.dir().join(name), "").expect("a new file");
    }

    /// Copies a file into [`Scene::dir`].
    pub fn copy(&self, from: &Path, name: &str, mode: u32) -> PathBuf {
        let to = self.dir().join(name);
        copy_program(from, &to);
        open_to_all(&to, mode);
        to
    }

    /// Fails the test unless everybody who was started on the scene is dead
    /// *now*. Nothing can be started on it any more.
    #[track_caller]
    pub fn assert_all_dead(&mut self) {
        let alive = self.alive();
        assert!(alive.is_empty(), "left alive: {alive:#?}");
        // The patience is for children of parallel tests that have forked and
        // not executed yet: they hold the pipe for a moment.
        assert!(
            self.lifeline.all_dead(PATIENCE),
            "somebody who is not marked holds the lifeline"
        );
    }

    /// Ends everybody, as dropping does.
    pub fn clear(&self) {
        // Victims that multiply stop when this file is gone.
        let _ = fs::remove_file(self.dir().join(stage::ON));
        let end = Instant::now() + PATIENCE;
        loop {
            let alive = self.alive();
            if alive.is_empty() {
                return;
            }
            if Instant::now() > end {
                eprintln!("cannot be ended: {alive:#?}");
                return;
            }
            // Who is stopped does not fork while its fellows are ended.
            for signal in [Signal::STOP, Signal::KILL] {
                for stat in &alive {
                    stat.who.signal(signal);
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Default for Scene {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Sets a mode whatever the umask is.
fn open_to_all(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
}
