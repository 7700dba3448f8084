//! Running `tracker`, with a deadline.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use serde_json::Value;

use crate::proc::{self, Who};
use crate::report::Report;
use crate::scene::Scene;
use crate::shared_daemon::SharedDaemon;
use crate::source::Source;
use crate::wait::PATIENCE;

/// A `tracker` that is going to be started.
#[derive(Debug)]
pub struct Tracker<'a> {
    scene: &'a Scene,
    command: Command,
    files: Files,
    /// What it reaps, a daemon reaps.
    by_daemon: bool,
}

/// Output goes to files: a descendant that outlives tracker would hold a pipe
/// open, and the test would wait for that instead of judging it.
#[derive(Clone, Debug)]
struct Files {
    stdout: PathBuf,
    stderr: PathBuf,
    report: PathBuf,
}

impl<'a> Tracker<'a> {
    pub(crate) fn new(scene: &'a Scene, arguments: &[&str]) -> Tracker<'a> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = |kind| scene.dir().join(format!("{kind}-{count}"));
        let mut command = scene.command(crate::tracker_binary());
        command.args(arguments).env("T", crate::tracker_binary());
        Tracker {
            scene,
            command,
            by_daemon: false,
            files: Files {
                stdout: file("stdout"),
                stderr: file("stderr"),
                report: file("report"),
            },
        }
    }

    pub(crate) fn run(scene: &'a Scene, source: Source, flags: &str) -> Tracker<'a> {
        let mut tracker = Tracker::new(scene, &["run", "--source", source.flag(), "--report"]);
        tracker.by_daemon = source == Source::Daemon;
        tracker.command.arg(&tracker.files.report);
        tracker.command.args(flags.split_whitespace());
        tracker.command.arg("--");
        tracker
    }

    /// Another argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Tracker<'a> {
        self.command.arg(argument);
        self
    }

    /// Other arguments.
    #[must_use]
    pub fn args(mut self, arguments: &[&str]) -> Tracker<'a> {
        self.command.args(arguments);
        self
    }

    /// The tracked command is a shell's script.
    #[must_use]
    pub fn sh(self, script: &str) -> Tracker<'a> {
        self.args(&["sh", "-c", script])
    }

    /// The tracked command is a victim, with arguments separated by spaces.
    #[must_use]
    pub fn victim(mut self, arguments: &str) -> Tracker<'a> {
        self.command.arg(crate::victim_binary());
        self.command.args(arguments.split_whitespace());
        self
    }

    /// Changes how tracker is started.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Command)) -> Tracker<'a> {
        change(&mut self.command);
        self
    }

    /// Lets another program start tracker: these words, then tracker's own.
    /// Forgets changes by [`Tracker::with`].
    #[must_use]
    pub fn through(mut self, words: &[&str]) -> Tracker<'a> {
        let mut command = self.scene.command(words[0]);
        command
            .args(&words[1..])
            .arg(self.command.get_program())
            .args(self.command.get_args())
            .env("T", crate::tracker_binary());
        self.command = command;
        self
    }

    /// Lets it run as nobody, who may not reach the target directory: a copy
    /// of tracker is executed, in the scene's directory.
    #[must_use]
    pub fn as_nobody(self) -> Tracker<'a> {
        let copy = self.scene.copy(crate::tracker_binary(), "tracker", 0o755);
        let setpriv = "setpriv --reuid=65534 --regid=65534 --clear-groups";
        let mut words: Vec<&str> = setpriv.split(' ').collect();
        let shell = ["sh", "-c", "shift; exec \"$0\" \"$@\""];
        words.extend(shell);
        words.push(copy.to_str().expect("a path of ours"));
        self.through(&words)
    }

    /// Starts it.
    #[track_caller]
    pub fn start(mut self) -> Running {
        let create = |path| File::create(path).expect("a file for output");
        let child = self
            .command
            .stdout(create(&self.files.stdout))
            .stderr(create(&self.files.stderr))
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {:?}: {error}", self.command));
        Running {
            who: Who::with_pid(child.id()),
            command: format!("{:?}", self.command),
            child,
            files: self.files,
            by_daemon: self.by_daemon,
        }
    }

    /// Starts it with a pipe as its standard output, for a test about pipes.
    /// The answer is the read end.
    #[track_caller]
    pub fn start_piped(mut self) -> (Running, std::process::ChildStdout) {
        let stderr = File::create(&self.files.stderr).expect("a file for output");
        let mut child = self
            .command
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {:?}: {error}", self.command));
        let stdout = child.stdout.take().expect("a pipe was asked for");
        let running = Running {
            who: Who::with_pid(child.id()),
            command: format!("{:?}", self.command),
            child,
            files: self.files,
            by_daemon: self.by_daemon,
        };
        (running, stdout)
    }

    /// Starts it and waits for its end.
    #[track_caller]
    pub fn finish(self) -> Ended {
        self.start().finish()
    }
}

/// A `tracker` that was started. The scene ends it when the test fails.
#[derive(Debug)]
pub struct Running {
    child: Child,
    who: Who,
    command: String,
    files: Files,
    by_daemon: bool,
}

impl Running {
    /// Who it is: tracker, or what it was started through.
    pub fn who(&self) -> Who {
        self.who
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child to ask for").is_none()
    }

    /// Waits for its end. One that hangs fails the test.
    #[track_caller]
    pub fn finish(mut self) -> Ended {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child to wait for") {
                break status;
            }
            if Instant::now() > end {
                let state = describe(self.who.pid);
                let _ = self.child.kill();
                let _ = self.child.wait();
                let stderr = fs::read_to_string(&self.files.stderr).unwrap_or_default();
                panic!("{} hangs\n{state}\nstderr: {stderr}", self.command);
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        };
        let read = |path| {
            let bytes = fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Ended {
            status,
            stdout: read(&self.files.stdout),
            stderr: read(&self.files.stderr),
            report: fs::read(&self.files.report).ok(),
            command: self.command,
            by_daemon: self.by_daemon,
        }
    }
}

/// What a hanging process is doing.
fn describe(pid: i32) -> String {
    let read = |file| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let children = proc::children(pid);
    format!(
        "wchan: {}\nstack: {}\nchildren: {children:#?}",
        read("wchan"),
        read("stack")
    )
}

/// A `tracker` that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// How.
    pub status: ExitStatus,
    /// What it wrote, and what the tracked command wrote.
    pub stdout: String,
    /// Likewise.
    pub stderr: String,
    report: Option<Vec<u8>>,
    command: String,
    by_daemon: bool,
}

impl Ended {
    /// Fails the test unless it exited with this status.
    #[track_caller]
    pub fn assert_code(&self, code: i32) -> &Ended {
        assert_eq!(
            (self.status.code(), self.status.signal()),
            (Some(code), None),
            "{}\nstdout: {}\nstderr: {}\nreport: {}",
            self.command,
            self.stdout,
            self.stderr,
            String::from_utf8_lossy(self.report.as_deref().unwrap_or_default()),
        );
        self
    }

    /// The report that `run` wrote. If a daemon was to reap, it has to know of it.
    #[track_caller]
    pub fn report(&self) -> Report {
        let Some(text) = &self.report else {
            panic!("{} left no report; stderr: {}", self.command, self.stderr)
        };
        let report = Report::parse(text);
        if self.by_daemon && report.0["dry_run"] == false {
            SharedDaemon::get().assert_reaped(&report);
        }
        report
    }

    /// Checks what a teardown that has ended `roles` says, and that it is so:
    /// exit status 0, from this source, all dead, proven, one entry each.
    #[track_caller]
    pub fn assert_ended(&self, scene: &mut Scene, source: Source, roles: &[&str]) -> Report {
        self.assert_code(0);
        let report = self.report();
        report.assert_complete();
        assert_eq!(report.0["source"], source.name(), "{report}");
        for who in roles.iter().flat_map(|role| scene.await_cast(role, 1)) {
            let entry = report.entry(who);
            assert!(
                matches!(entry.outcome(), "terminated" | "killed"),
                "{who} was {}: {report}",
                entry.outcome()
            );
            assert!(
                entry.evidence().contains("lineage: "),
                "no lineage of {who}: {report}"
            );
        }
        scene.assert_all_dead();
        report
    }

    /// The one line that tracker wrote on standard error.
    #[track_caller]
    pub fn assert_one_line(&self) -> &str {
        let line = self.stderr.trim_end_matches('\n');
        assert!(
            !line.is_empty() && !line.contains('\n') && self.stderr.ends_with('\n'),
            "{} should have said one line, and said: {:?}",
            self.command,
            self.stderr
        );
        line
    }

    /// The report on standard output.
    #[track_caller]
    pub fn printed_report(&self) -> Report {
        Report::parse(self.stdout.as_bytes())
    }

    /// The JSON on standard output.
    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_str(&self.stdout) {
            Ok(value) => value,
            Err(error) => panic!(
                "{} did not print JSON: {error}\nstdout: {}\nstderr: {}",
                self.command, self.stdout, self.stderr
            ),
        }
    }
}
