//! What `tracker run` costs a command, and a build.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::daemon::Daemon;
use super::stats::Pairs;
use super::{Bench, Row};

/// A command that does nothing, by itself and by `run`.
pub(crate) fn nothing(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let count = bench.pick(31, 5);
    let plain = || time(&mut Command::new("/bin/true"));
    let alone = || {
        time(
            bench
                .run(&["--standalone", "--source", "ebpf"])
                .arg("/bin/true"),
        )
    };
    let alone = Pairs::measure(count, plain, alone)?.difference();
    let daemon = Daemon::start(&bench.tracker, &bench.dir)?;
    let through = || {
        let mut command = bench.run(&[]);
        time(
            command
                .env("TRACKER_SOCKET", daemon.socket())
                .arg("/bin/true"),
        )
    };
    let through = Pairs::measure(count, plain, through)?.difference();
    Ok(vec![
        Row {
            what: "standalone `run -- true`, over plain `true`".to_owned(),
            target: "<= 150 ms",
            met: Some(alone.median() <= 150.0),
            measured: format!("{alone} ms"),
            peers: String::new(),
        },
        Row {
            what: "`run -- true` through a daemon, over plain `true`".to_owned(),
            target: "<= 15 ms",
            met: Some(through.median() <= 15.0),
            measured: format!("{through} ms"),
            peers: String::new(),
        },
    ])
}

/// A build of many small files, by itself and by `run` through a daemon.
pub(crate) fn build(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let count = bench.pick(400, 30);
    let project = Project::new(&bench.dir, count)?;
    let plain = || {
        project.clean()?;
        time(project.make(&mut Command::new("make")))
    };
    let tracked = || {
        project.clean()?;
        let daemon = Daemon::start(&bench.tracker, &bench.dir)?;
        let mut command = bench.run(&[]);
        command.env("TRACKER_SOCKET", daemon.socket()).arg("make");
        time(project.make(&mut command))
    };
    let pairs = Pairs::measure(bench.pick(5, 1), plain, tracked)?;
    let ratio = pairs.ratio();
    Ok(vec![Row {
        what: format!(
            "`make -j2` of {count} C files (some {} processes), tracked / untracked",
            count * 4
        ),
        target: "<= 1.05",
        met: Some(ratio.median() <= 1.05),
        measured: format!("{ratio}; untracked {} ms", pairs.plain()),
        peers: String::new(),
    }])
}

fn time(command: &mut Command) -> anyhow::Result<Duration> {
    let name = command.get_program().to_string_lossy().into_owned();
    let begin = Instant::now();
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .with_context(|| name.clone())?;
    let time = begin.elapsed();
    ensure!(status.success(), "{name} ended with {status}");
    Ok(time)
}

/// Files to build.
struct Project {
    dir: PathBuf,
    count: usize,
}

impl Project {
    fn new(dir: &Path, count: usize) -> anyhow::Result<Project> {
        let dir = dir.join("build");
        fs::create_dir_all(&dir)?;
        let mut objects = String::new();
        for at in 0..count {
            let source =
                format!("#include <stddef.h>\nsize_t f{at}(size_t x) {{ return x + {at}; }}\n");
            fs::write(dir.join(format!("{at}.c")), source)?;
            let _ = write!(objects, " {at}.o");
        }
        let makefile = format!("all:{objects}\n%.o: %.c\n\t@cc -c -o $@ $< && touch $@\n");
        fs::write(dir.join("Makefile"), makefile)?;
        Ok(Project { dir, count })
    }

    fn make<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.args(["-j2", "-s", "all"]).current_dir(&self.dir)
    }

    fn clean(&self) -> anyhow::Result<()> {
        for at in 0..self.count {
            let object = self.dir.join(format!("{at}.o"));
            if object.exists() {
                fs::remove_file(object)?;
            }
        }
        Ok(())
    }
}
