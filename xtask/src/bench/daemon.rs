//! A daemon for the benchmarks alone: its socket, its state and its pins are
//! its own.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

/// A running `tracker serve`, ended with its probe when dropped.
#[derive(Debug)]
pub(crate) struct Daemon {
    tracker: PathBuf,
    dir: PathBuf,
    child: Child,
}

/// So long it may take to answer at all.
const PATIENCE: Duration = Duration::from_secs(120);

impl Daemon {
    /// Starts one that keeps its things in `dir`.
    pub(crate) fn start(tracker: &Path, dir: &Path) -> anyhow::Result<Daemon> {
        let child = Command::new(tracker)
            .args(["serve", "--source", "ebpf", "--socket"])
            .arg(dir.join("d.sock"))
            .arg("--state-dir")
            .arg(dir.join("state"))
            .arg("--pin-dir")
            .arg(pin_dir(dir))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("tracker serve")?;
        let daemon = Daemon {
            tracker: tracker.to_owned(),
            dir: dir.to_owned(),
            child,
        };
        let end = Instant::now() + PATIENCE;
        while daemon.get("/v1/status").is_err() {
            ensure!(Instant::now() < end, "the daemon does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(daemon)
    }

    /// Its pid.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.join("d.sock")
    }

    /// Asks for something.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.ask("GET", path, "")?.body()
    }

    /// Asks for something to be done.
    pub(crate) fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.ask("POST", path, &body.to_string())?.body()
    }

    /// Asks for something, and leaves the answer as it came.
    pub(crate) fn time_of_get(&self, path: &str) -> anyhow::Result<(Duration, Answer)> {
        self.time("GET", path, "")
    }

    /// Asks for something to be done, and leaves the answer as it came.
    pub(crate) fn time_of_post(
        &self,
        path: &str,
        body: &Value,
    ) -> anyhow::Result<(Duration, Answer)> {
        self.time("POST", path, &body.to_string())
    }

    /// From the connection to the last byte of the answer. To understand that
    /// takes this program, which is not optimized, longer than the daemon.
    fn time(&self, method: &str, path: &str, body: &str) -> anyhow::Result<(Duration, Answer)> {
        let begin = Instant::now();
        let answer = self.ask(method, path, body)?;
        Ok((begin.elapsed(), answer))
    }

    /// Opens a session for a process; answers its id.
    pub(crate) fn open(&self, pid: u32) -> anyhow::Result<String> {
        let session = self.post("/v1/sessions", &json!({"name": "bench", "pid": pid}))?;
        Ok(session["id"].as_str().context("an id")?.to_owned())
    }

    /// Ends a session, and leaves its members alone.
    pub(crate) fn leave(&self, session: &str) -> anyhow::Result<()> {
        self.ask("DELETE", &format!("/v1/sessions/{session}"), "")?;
        Ok(())
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> anyhow::Result<Answer> {
        let mut stream = UnixStream::connect(self.socket())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: tracker\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        if !answer.starts_with(b"HTTP/1.1 200") {
            bail!("{method} {path}: {}", String::from_utf8_lossy(&answer));
        }
        Ok(Answer(answer))
    }
}

/// An answer as it came over the wire.
#[derive(Debug)]
pub(crate) struct Answer(Vec<u8>);

impl Answer {
    /// What it says.
    pub(crate) fn body(&self) -> anyhow::Result<Value> {
        let answer = String::from_utf8_lossy(&self.0);
        let (_, body) = answer.split_once("\r\n\r\n").context("an answer")?;
        serde_json::from_str(body).context("JSON")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = Command::new(&self.tracker)
            .args(["serve", "--unpin", "--pin-dir"])
            .arg(pin_dir(&self.dir))
            .stdout(Stdio::null())
            .status();
        let _ = fs::remove_dir(pin_dir(&self.dir));
        let _ = fs::remove_dir_all(self.dir.join("state"));
    }
}

fn pin_dir(dir: &Path) -> PathBuf {
    Path::new("/sys/fs/bpf").join(dir.file_name().unwrap_or_default())
}
