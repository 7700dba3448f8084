//! What tracking costs whoever creates processes.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::daemon::Daemon;
use super::stats::{Pairs, Sample};
use super::{Bench, Row};

/// A spawn loop with and without tracking, and with and without each peer.
pub(crate) fn overhead(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let count = bench.pick("10000", "2000");
    let loop_of = ["spawn", count];
    let plain = || bench.helper.time(&loop_of);
    let tracked = || {
        let daemon = Daemon::start(&bench.tracker, &bench.dir)?;
        let waiting = bench.helper.start(&loop_of)?;
        daemon.open(waiting.pid)?;
        waiting.time()
    };
    let pairs = Pairs::measure(bench.pick(15, 3), plain, tracked)?;
    let ratio = pairs.ratio();
    let mut peers = Vec::new();
    for (name, commands) in PEERS {
        peers.push(match beside(bench, &loop_of, commands) {
            Ok(Some(ratio)) => format!("{name} {ratio}"),
            Ok(None) => format!("{name} is not installed"),
            Err(why) => format!("{name} does not work here ({why:#})"),
        });
    }
    Ok(vec![Row {
        what: format!("{count} times vfork and exec of a static no-op, tracked / untracked"),
        target: "<= 1.05",
        met: Some(ratio.median() <= 1.05),
        measured: format!("{ratio}; untracked {} ms", pairs.plain()),
        peers: peers.join("; "),
    }])
}

/// Who else tells of each process, by their commands, all of which run at once.
const PEERS: [(&str, &[&[&str]]); 3] = [
    ("execsnoop + exitsnoop", &[&["execsnoop"], &["exitsnoop"]]),
    ("forkstat", &[&["forkstat", "-e", "fork,exec,exit"]]),
    (
        "bpftrace",
        &[&[
            "bpftrace",
            "-e",
            "tracepoint:sched:sched_process_fork { printf(\"%d %d\\n\", args->parent_pid, args->child_pid); } \
             tracepoint:sched:sched_process_exec { printf(\"%d %s\\n\", pid, str(args->filename)); } \
             tracepoint:sched:sched_process_exit { printf(\"%d\\n\", pid); }",
        ]],
    ),
];

/// A command that is ended when this is dropped.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The loop beside others who watch; nothing where one is not installed.
fn beside(bench: &Bench, loop_of: &[&str], commands: &[&[&str]]) -> anyhow::Result<Option<Sample>> {
    let programs = commands.iter().filter_map(|command| command.first());
    if !programs
        .into_iter()
        .all(|program| super::is_installed(program))
    {
        return Ok(None);
    }
    let plain = || bench.helper.time(loop_of);
    let watched = || {
        let mut peers = Vec::new();
        for command in commands {
            let (program, arguments) = command.split_first().context("a command")?;
            let log = fs::File::create(bench.dir.join("peer.log"))?;
            let child = Command::new(program)
                .args(arguments)
                .stdin(Stdio::null())
                .stdout(log)
                .stderr(Stdio::null())
                .spawn()
                .with_context(|| (*program).to_owned())?;
            peers.push(Peer(child));
        }
        // They do not say when they are ready.
        std::thread::sleep(Duration::from_secs(3));
        let time = bench.helper.time(loop_of)?;
        for peer in &mut peers {
            ensure!(peer.0.try_wait()?.is_none(), "it ended by itself");
        }
        Ok(time)
    };
    Ok(Some(
        Pairs::measure(bench.pick(5, 1), plain, watched)?.ratio(),
    ))
}

/// The kernel's own account of the programs' time.
pub(crate) fn probe_time(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let count: u32 = bench.pick(20_000, 3000);
    let daemon = Daemon::start(&bench.tracker, &bench.dir)?;
    let mut times = Vec::new();
    for _ in 0..bench.pick(5, 2) {
        let waiting = bench.helper.start(&["spawn", &count.to_string()])?;
        let session = daemon.open(waiting.pid)?;
        let statistics = Statistics::on()?;
        let before = run_time(daemon.pid())?;
        waiting.time()?;
        let after = run_time(daemon.pid())?;
        drop(statistics);
        daemon.leave(&session)?;
        let nanos = Duration::from_nanos(after.saturating_sub(before));
        times.push(nanos.as_secs_f64() * 1e6 / f64::from(count));
    }
    let times = Sample::of(times);
    Ok(vec![Row {
        what: "time of the probe for a fork, an exec, an exit and a release".to_owned(),
        target: "<= 1.5 us",
        met: Some(times.median() <= 1.5),
        measured: format!("{times} us, with the cost of the kernel's two clock readings a program"),
        peers: String::new(),
    }])
}

const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// The kernel measures programs while this lives.
struct Statistics(String);

impl Statistics {
    fn on() -> anyhow::Result<Statistics> {
        let before = fs::read_to_string(STATISTICS).context(STATISTICS)?;
        fs::write(STATISTICS, "1").context(STATISTICS)?;
        Ok(Statistics(before))
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        let _ = fs::write(STATISTICS, self.0.trim());
    }
}

/// Nanoseconds that all programs have run that a process holds.
fn run_time(pid: u32) -> anyhow::Result<u64> {
    let mut sum = 0;
    let dir = format!("/proc/{pid}/fdinfo");
    let mut seen = Vec::new();
    for entry in fs::read_dir(&dir).context("the daemon's descriptors")? {
        let text = fs::read_to_string(entry?.path()).unwrap_or_default();
        let field = |name: &str| {
            let mut lines = text.lines();
            let value = lines.find_map(|line| line.strip_prefix(name))?;
            value.trim().parse::<u64>().ok()
        };
        // Two descriptors may be of one program, and one of a link is not of it.
        let Some((id, time)) = field("prog_id:").zip(field("run_time_ns:")) else {
            continue;
        };
        if !seen.contains(&id) {
            seen.push(id);
            sum += time;
        }
    }
    Ok(sum)
}

/// Whether records are lost when all that the machine does is to spawn.
pub(crate) fn losses(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let count = bench.pick("40000", "3000");
    let daemon = Daemon::start(&bench.tracker, &bench.dir)?;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut loops = Vec::new();
    for _ in 0..cpus {
        let waiting = bench.helper.start(&["spawn", count])?;
        daemon.open(waiting.pid)?;
        loops.push(waiting);
    }
    for one in &mut loops {
        one.go()?;
    }
    for one in &mut loops {
        one.told()?;
    }
    let lost = lost(&daemon.get("/v1/status")?);
    Ok(vec![Row {
        what: format!("events lost, {cpus} spawn loops of {count} at once"),
        target: "0",
        met: Some(lost == 0),
        measured: lost.to_string(),
        peers: String::new(),
    }])
}

/// Records that did not fit, and processes that did not.
fn lost(status: &Value) -> u64 {
    let counters = ["ring_full", "insert_failed"];
    let values = counters.map(|name| status["kernel"][name].as_u64().unwrap_or(u64::MAX));
    values
        .iter()
        .fold(0, |sum, value| sum.saturating_add(*value))
}

/// Members that are lost while the daemon cannot run.
pub(crate) fn stopped(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let count = bench.pick("50000", "5000");
    let daemon = Daemon::start(&bench.tracker, &bench.dir)?;
    let mut crowd = bench.helper.start(&["crowd", "100"])?;
    let forks = bench.helper.start(&["forks", count])?;
    daemon.open(forks.pid)?;
    let session = daemon.open(crowd.pid)?;
    super::signal("STOP", daemon.pid())?;
    forks.time()?;
    crowd.go()?;
    crowd.line()?;
    super::signal("CONT", daemon.pid())?;
    let tree = daemon.get(&format!("/v1/tree?session={session}"))?;
    let there = tree["processes"].as_array().map_or(0, Vec::len);
    let missing = 100_usize.saturating_sub(there);
    daemon.post(
        &format!("/v1/sessions/{session}/close"),
        &serde_json::json!({"grace_ms": 0}),
    )?;
    Ok(vec![Row {
        what: format!(
            "members lost of 100 that came after {count} forks, all with the daemon stopped"
        ),
        target: "0",
        met: Some(missing == 0),
        measured: missing.to_string(),
        peers: String::new(),
    }])
}
