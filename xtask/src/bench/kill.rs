//! How long it takes to end many, and one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::json;

use super::daemon::Daemon;
use super::helper::Waiting;
use super::stats::{Pairs, Sample};
use super::{Bench, Row};

/// A crowd is ended by tracker, and another one by `cgroup.kill`.
pub(crate) fn crowds(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (count, pairs) in bench.pick([("1000", 9), ("8000", 5)], [("500", 2), ("1000", 2)]) {
        rows.push(crowd(bench, count, pairs)?);
    }
    Ok(rows)
}

fn crowd(bench: &Bench, count: &str, pairs: usize) -> anyhow::Result<Row> {
    let daemon = Daemon::start(&bench.tracker, &bench.dir)?;
    let by_cgroup = || {
        let cgroup = Cgroup::new()?;
        let crowd = there(bench, count, |crowd| cgroup.take(crowd.pid))?;
        let begin = Instant::now();
        cgroup.kill()?;
        let time = begin.elapsed();
        drop(crowd);
        Ok(time)
    };
    let by_tracker = || {
        let mut session = String::new();
        let crowd = there(bench, count, |crowd| {
            session = daemon.open(crowd.pid)?;
            Ok(())
        })?;
        let request = json!({"grace_ms": 0});
        let (time, answer) =
            daemon.time_of_post(&format!("/v1/sessions/{session}/close"), &request)?;
        drop(crowd);
        let report = answer.body()?;
        ensure!(report["verdict"] == "complete", "{}", report["reasons"]);
        let killed = report["counts"]["killed"].to_string();
        ensure!(killed == count, "{killed} of {count} were killed");
        Ok(time)
    };
    let measured = Pairs::measure(pairs, by_cgroup, by_tracker)?;
    let ratio = measured.ratio();
    Ok(Row {
        what: format!("end {count} detached members, `--grace 0`, request to answer"),
        target: "<= 1.5 x cgroup.kill",
        met: Some(ratio.median() <= 1.5),
        measured: format!("{ratio}; {} ms", measured.other()),
        peers: format!(
            "cgroup.kill {} ms; {}",
            measured.plain(),
            by_psutil(bench, count)?
        ),
    })
}

/// A crowd that is complete. `prepare` comes before it is anything but a root.
fn there(
    bench: &Bench,
    count: &str,
    prepare: impl FnOnce(&Waiting) -> anyhow::Result<()>,
) -> anyhow::Result<Waiting> {
    let mut crowd = bench.helper.start(&["crowd", count])?;
    prepare(&crowd)?;
    crowd.go()?;
    crowd.line()?;
    Ok(crowd)
}

/// Walks below the parent of them all, terminates and waits.
const PSUTIL: &str = "import psutil, sys, time
parent = psutil.Process(int(sys.argv[1]))
begin = time.monotonic()
found = parent.children(recursive=True)
for process in found:
    process.terminate()
psutil.wait_procs(found, timeout=60)
print(time.monotonic() - begin)";

fn by_psutil(bench: &Bench, count: &str) -> anyhow::Result<String> {
    // Debian's, which has Debian's psutil.
    let python = "/usr/bin/python3";
    let there_is = Command::new(python).args(["-c", "import psutil"]).output();
    if !there_is.is_ok_and(|output| output.status.success()) {
        return Ok("psutil is not installed".to_owned());
    }
    let mut times = Vec::new();
    for _ in 0..bench.pick(3, 1) {
        let crowd = there(bench, count, |_| Ok(()))?;
        let output = Command::new(python)
            .args(["-c", PSUTIL, &crowd.parent().to_string()])
            .output()
            .context("python3")?;
        let seconds: f64 = String::from_utf8_lossy(&output.stdout)
            .trim()
            .parse()
            .context("psutil's answer")?;
        times.push(seconds * 1000.0);
    }
    Ok(format!("psutil {} ms", Sample::of(times)))
}

/// One that exits at once when it is asked to.
pub(crate) fn straggler(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let daemon = Daemon::start(&bench.tracker, &bench.dir)?;
    let mut times = Vec::new();
    for _ in 0..bench.pick(31, 5) {
        let mut session = String::new();
        let crowd = there(bench, "1", |crowd| {
            session = daemon.open(crowd.pid)?;
            Ok(())
        })?;
        let path = format!("/v1/sessions/{session}/close");
        let (time, answer) = daemon.time_of_post(&path, &json!({"grace_ms": 5000}))?;
        times.push(time);
        drop(crowd);
        let report = answer.body()?;
        ensure!(report["counts"]["terminated"] == 1, "{report}");
    }
    let times = Sample::millis(&times);
    Ok(vec![Row {
        what: "end one straggler that exits on SIGTERM, request to answer".to_owned(),
        target: "<= 5 ms",
        met: Some(times.median() <= 5.0),
        measured: format!("{times} ms"),
        peers: "a fixed sleep: 2000 to 10000 ms".to_owned(),
    }])
}

/// A cgroup of one crowd.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new() -> anyhow::Result<Cgroup> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let mount = mounts.lines().find_map(|line| {
            let mut words = line.split(' ');
            let (_, path, kind) = (words.next()?, words.next()?, words.next()?);
            (kind == "cgroup2").then_some(path)
        });
        let name = format!("tracker-bench-{}", std::process::id());
        let path = Path::new(mount.context("cgroup2 is not mounted")?).join(name);
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Cgroup(path))
    }

    fn take(&self, pid: u32) -> anyhow::Result<()> {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).context("cgroup.procs")
    }

    /// Ends everybody in it, and waits until all are dead.
    fn kill(&self) -> anyhow::Result<()> {
        fs::write(self.0.join("cgroup.kill"), "1").context("cgroup.kill")?;
        while !fs::read_to_string(self.0.join("cgroup.events"))?.contains("populated 0") {
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = self.kill();
        // Its last process may be on its way out.
        for _ in 0..1000 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
