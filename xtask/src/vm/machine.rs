//! A guest that runs the tests.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// What the guest's init begins its own lines with.
const MARK: &str = "TRACKER-VM ";

/// How a guest ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Suites that failed.
    pub(crate) failed: Vec<String>,
}

/// Boots it, shows and records what its console says, and waits for the end.
pub(crate) fn run(
    image: &Path,
    initramfs: &Path,
    log: &Path,
    limit: Duration,
) -> anyhow::Result<Outcome> {
    let mut log = File::create(log).with_context(|| log.display().to_string())?;
    let mut guest = Guest::boot(image, initramfs)?;
    let lines = guest.lines()?;
    let end = Instant::now() + limit;
    let mut told = Progress::default();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left) {
            Ok(line) => {
                writeln!(log, "{line}")?;
                println!("{line}");
                told.hear(&line);
            }
            Err(RecvTimeoutError::Timeout) => bail!(
                "the guest took more than {} s{}",
                limit.as_secs(),
                told.where_it_is()
            ),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    told.outcome()
}

/// A running emulator, ended when dropped.
struct Guest(Child);

impl Guest {
    fn boot(image: &Path, initramfs: &Path) -> anyhow::Result<Guest> {
        // Without KVM: where this runs there may be none, or one that hangs.
        // It must not go on when this process is killed.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
            .args([
                "-accel",
                "tcg,thread=multi",
                "-cpu",
                "max",
                "-smp",
                "2",
                "-m",
                "3G",
            ])
            .args(["-nodefaults", "-no-user-config", "-nographic", "-no-reboot"])
            .args(["-serial", "stdio", "-kernel"])
            .arg(image)
            .arg("-initrd")
            .arg(initramfs)
            // A panic reboots, which ends the emulator.
            .args([
                "-append",
                "console=ttyS0 loglevel=4 panic=-1 mitigations=off",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("qemu-system-x86_64 (apt-get install qemu-system-x86)")?;
        Ok(Guest(child))
    }

    /// What its console says, line by line, until it ends.
    fn lines(&mut self) -> anyhow::Result<mpsc::Receiver<String>> {
        let console = self.0.stdout.take().context("a pipe")?;
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(console).split(b'\n') {
                let Ok(line) = line else { return };
                let line = String::from_utf8_lossy(&line);
                if tell.send(line.trim_end_matches('\r').to_owned()).is_err() {
                    return;
                }
            }
        });
        Ok(told)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the guest's init has said.
#[derive(Debug, Default)]
struct Progress {
    running: Option<String>,
    failed: Vec<String>,
    done: bool,
}

impl Progress {
    fn hear(&mut self, line: &str) {
        // A kernel message may come before it on the same line.
        let Some((_, said)) = line.split_once(MARK) else {
            return;
        };
        let mut words = said.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some("begin"), Some(name), None) => self.running = Some(name.to_owned()),
            (Some("end"), Some(name), Some(status)) => {
                self.running = None;
                if status != "0" {
                    self.failed.push(name.to_owned());
                }
            }
            (Some("done"), Some(_), None) => self.done = true,
            _ => {}
        }
    }

    fn where_it_is(&self) -> String {
        self.running
            .as_ref()
            .map_or_else(String::new, |name| format!(", and was in {name}"))
    }

    fn outcome(self) -> anyhow::Result<Outcome> {
        ensure!(
            self.done,
            "the guest ended before its tests did{}",
            self.where_it_is()
        );
        Ok(Outcome {
            failed: self.failed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lines: &[&str]) -> anyhow::Result<Outcome> {
        let mut told = Progress::default();
        for line in lines {
            told.hear(line);
        }
        told.outcome()
    }

    #[test]
    fn a_guest_that_says_so_has_passed() {
        let lines = [
            "TRACKER-VM begin a",
            "ok",
            "TRACKER-VM end a 0",
            "TRACKER-VM done 0",
        ];
        assert_eq!(after(&lines).unwrap(), Outcome { failed: vec![] });
    }

    #[test]
    fn a_suite_that_fails_is_named_and_a_guest_that_goes_away_is_an_error() {
        let lines = [
            "TRACKER-VM begin a",
            "[ 1.0] noise TRACKER-VM end a 101",
            "TRACKER-VM done 1",
        ];
        let failed = vec!["a".to_owned()];
        assert_eq!(after(&lines).unwrap(), Outcome { failed });
        let error = after(&["TRACKER-VM begin a"]).unwrap_err().to_string();
        assert!(error.ends_with("was in a"), "{error}");
    }
}
