//! A daemon of a test's own: its socket and its state lie on the scene.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::proc::Who;
use crate::scene::Scene;
use crate::source::Source;
use crate::tracked::Tracker;
use crate::wait::{PATIENCE, until};

/// A running `tracker serve`. Ended when it is dropped.
#[derive(Debug)]
pub struct Daemon<'a> {
    scene: &'a Scene,
    source: Source,
    child: Child,
    who: Who,
    /// Another one has taken over.
    replaced: bool,
}

/// What the daemon answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Value,
}

impl<'a> Daemon<'a> {
    /// Starts one, and waits until it answers.
    #[track_caller]
    pub fn start(scene: &'a Scene, source: Source) -> Daemon<'a> {
        Daemon::start_with(scene, source, &[])
    }

    /// Starts one with more arguments. A restart forgets them.
    #[track_caller]
    pub fn start_with(scene: &'a Scene, source: Source, arguments: &[&str]) -> Daemon<'a> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(scene.dir().join("daemon.log"));
        // Not of the scene: what ends the scene's members must not end it, and
        // it must not hold their lifeline.
        let mut command = Command::new(crate::tracker_binary());
        command
            .args(["serve", "--source", source.name(), "--socket"])
            .arg(socket(scene))
            .arg("--state-dir")
            .arg(scene.dir().join("state"))
            .arg("--pin-dir")
            .arg(pin_dir(scene))
            .args(arguments)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.expect("a log file"));
        let child = command.spawn().expect("the daemon starts");
        let who = Who::with_pid(child.id());
        let mut daemon = Daemon {
            scene,
            source,
            child,
            who,
            replaced: false,
        };
        until("an answer of the daemon", || {
            let ended = daemon.child.try_wait().expect("a child to ask for");
            assert!(
                ended.is_none(),
                "the daemon ended: {ended:?}\n{}",
                daemon.log()
            );
            daemon
                .try_ask("GET", "/v1/status", "")
                .filter(|answer| answer.status == 200)
        });
        daemon
    }

    /// Who it is.
    pub fn who(&self) -> Who {
        self.who
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        socket(self.scene)
    }

    /// Whether a daemon answers on its socket, this one or another.
    pub fn is_answering(&self) -> bool {
        self.try_ask("GET", "/v1/status", "")
            .is_some_and(|answer| answer.status == 200)
    }

    /// Where it keeps the probe.
    pub fn pin_dir(&self) -> PathBuf {
        pin_dir(self.scene)
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.scene.dir().join("daemon.log")).unwrap_or_default()
    }

    /// `kill -9`, and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// A new daemon in the place of one that was killed.
    #[must_use]
    #[track_caller]
    pub fn restart(mut self) -> Daemon<'a> {
        self.kill();
        self.replaced = true;
        Daemon::start(self.scene, self.source)
    }

    /// SIGTERM, and waits for its end. Fails the test when that is not in order.
    #[track_caller]
    pub fn stop(mut self) {
        self.who.signal(Signal::TERM);
        let status = until("the end of the daemon", || {
            self.child.try_wait().expect("a child")
        });
        assert!(status.success(), "{status:?}\n{}", self.log());
    }

    /// A request.
    #[track_caller]
    pub fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        match self.try_ask(method, path, body) {
            Some(answer) => answer,
            None => panic!("no answer to {method} {path}\n{}", self.log()),
        }
    }

    /// A request that has to succeed.
    #[track_caller]
    pub fn get(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, "");
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    /// A request that has to succeed.
    #[track_caller]
    pub fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.ask("POST", path, &body.to_string());
        assert_eq!(
            answer.status,
            200,
            "{path}: {}\n{}",
            answer.body,
            self.log()
        );
        answer.body
    }

    /// Opens a session for a process; answers its id.
    #[track_caller]
    pub fn open(&self, name: &str, root: Who) -> String {
        let request = serde_json::json!({"name": name, "pid": root.to_string()});
        let session = self.post("/v1/sessions", &request);
        session["id"].as_str().expect("an id").to_owned()
    }

    /// `tracker` with these arguments, as a client of this daemon.
    pub fn tracker(&self, arguments: &[&str]) -> Tracker<'a> {
        let socket = self.socket();
        self.scene.tracker(arguments).with(|command| {
            command.env("TRACKER_SOCKET", socket);
        })
    }

    fn try_ask(&self, method: &str, path: &str, body: &str) -> Option<Answer> {
        ask(&self.socket(), method, path, body)
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        self.kill();
        if self.replaced {
            return;
        }
        // Else it would be tracked on for ever. There may be nothing to end.
        let _ = Command::new(crate::tracker_binary())
            .args(["serve", "--unpin", "--pin-dir"])
            .arg(pin_dir(self.scene))
            .stdout(Stdio::null())
            .status();
        let _ = fs::remove_dir(pin_dir(self.scene));
    }
}

/// A place on the bpffs that no other test has.
fn pin_dir(scene: &Scene) -> PathBuf {
    Path::new("/sys/fs/bpf").join(scene.dir().file_name().unwrap_or_default())
}

/// A request to the daemon that listens on `socket`, if one does.
pub(crate) fn ask(socket: &Path, method: &str, path: &str, body: &str) -> Option<Answer> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: tracker\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    // The daemon may refuse the rest before it was sent.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    parse(&answer)
}

/// An answer as it came over the wire.
fn parse(answer: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(answer);
    let status = text.split(' ').nth(1)?.parse().ok()?;
    let (_, body) = text.split_once("\r\n\r\n")?;
    Some(Answer {
        status,
        body: serde_json::from_str(body).unwrap_or(Value::Null),
    })
}

fn socket(scene: &Scene) -> PathBuf {
    scene.dir().join("d.sock")
}

/// A shell that waits for what it is told: so a session can be opened for it
/// before it does anything.
#[derive(Debug)]
pub struct Shell {
    child: Child,
    input: Option<ChildStdin>,
    who: Who,
}

impl Shell {
    /// Starts one on the scene.
    #[track_caller]
    pub fn new(scene: &Scene) -> Shell {
        Shell::from_command(&mut scene.command("sh"))
    }

    /// Starts one by another command.
    #[track_caller]
    pub fn from_command(command: &mut Command) -> Shell {
        let mut child = command.stdin(Stdio::piped()).spawn().expect("a shell");
        Shell {
            input: child.stdin.take(),
            who: Who::with_pid(child.id()),
            child,
        }
    }

    /// Who it is.
    pub fn who(&self) -> Who {
        self.who
    }

    /// Tells it what to do.
    #[track_caller]
    pub fn tell(&mut self, script: &str) {
        let input = self
            .input
            .as_mut()
            .expect("the shell has not been dismissed");
        input
            .write_all(format!("{script}\n").as_bytes())
            .expect("the shell listens");
    }

    /// Lets it end, and waits for that.
    #[track_caller]
    pub fn dismiss(mut self) {
        drop(self.input.take());
        self.child.wait().expect("a child to wait for");
    }

    /// Waits for its end by other means.
    pub fn wait(mut self) {
        self.child.wait().expect("a child to wait for");
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The scene ends it when the test has failed; nobody may stay a zombie.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
