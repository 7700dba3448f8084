//! The program in C that the benchmarks run.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};

/// The compiled program.
#[derive(Debug)]
pub(crate) struct Helper(PathBuf);

impl Helper {
    /// Compiles it into `dir`.
    pub(crate) fn build(root: &Path, dir: &Path) -> anyhow::Result<Helper> {
        let program = dir.join("helper");
        let status = Command::new("cc")
            .args(["-O2", "-static", "-o"])
            .arg(&program)
            .arg(root.join("xtask/src/bench/helper.c"))
            .status()
            .context("cc (apt-get install gcc libc6-dev)")?;
        ensure!(status.success(), "cc ended with {status}");
        Ok(Helper(program))
    }

    /// Starts it, up to its gate.
    pub(crate) fn start(&self, arguments: &[&str]) -> anyhow::Result<Waiting> {
        let mut child = Command::new(&self.0)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| self.0.display().to_string())?;
        let input = child.stdin.take().context("a pipe")?;
        let output = BufReader::new(child.stdout.take().context("a pipe")?);
        let mut waiting = Waiting {
            child,
            input,
            output,
            pid: 0,
        };
        waiting.pid = waiting.line()?.parse().context("a pid")?;
        Ok(waiting)
    }

    /// How long it takes when nothing is done to it.
    pub(crate) fn time(&self, arguments: &[&str]) -> anyhow::Result<Duration> {
        self.start(arguments)?.time()
    }
}

/// The program at its gate. It is ended when dropped, but not whom it has
/// left behind.
#[derive(Debug)]
pub(crate) struct Waiting {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Whoever waits: the program, or the root of its crowd.
    pub(crate) pid: u32,
}

impl Waiting {
    /// The program itself, which is the parent of its crowd's orphans.
    pub(crate) fn parent(&self) -> u32 {
        self.child.id()
    }

    /// Lets it go on.
    pub(crate) fn go(&mut self) -> anyhow::Result<()> {
        self.input.write_all(b"go\n").context("the gate")
    }

    /// Lets it go on, and waits until it says how long it took.
    pub(crate) fn time(mut self) -> anyhow::Result<Duration> {
        self.go()?;
        self.told()
    }

    /// Waits until it says how long it took.
    pub(crate) fn told(&mut self) -> anyhow::Result<Duration> {
        let nanos = self.line()?.parse().context("nanoseconds")?;
        Ok(Duration::from_nanos(nanos))
    }

    /// The next line that it says.
    pub(crate) fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        ensure!(!line.is_empty(), "the helper ended");
        Ok(line.trim().to_owned())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
