//! How long a question takes while much is alive.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::json;

use super::daemon::Daemon;
use super::stats::Sample;
use super::{Bench, Row};

/// Tree and lineage with a crowd.
pub(crate) fn questions(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let count = bench.pick("8000", "500");
    let daemon = Daemon::start(&bench.tracker, &bench.dir)?;
    let mut crowd = bench.helper.start(&["crowd", count])?;
    let session = daemon.open(crowd.pid)?;
    crowd.go()?;
    crowd.line()?;
    let tree_path = format!("/v1/tree?session={session}");
    let tree = daemon.get(&tree_path)?;
    let processes = tree["processes"].as_array().context("a list")?;
    ensure!(processes.len().to_string() == count, "{}", processes.len());
    let one = processes.last().and_then(|one| one["pid"].as_u64());
    let lineage_path = format!("/v1/processes/{}/lineage", one.context("a pid")?);
    let rounds = bench.pick(21, 5);
    let lineage = times(rounds, || Ok(daemon.time_of_get(&lineage_path)?.0))?;
    let trees = times(rounds, || Ok(daemon.time_of_get(&tree_path)?.0))?;
    let mut rows = vec![row(
        format!("lineage of a process with {count} alive"),
        &lineage,
        String::new(),
    )];
    let mut peers = Vec::new();
    for (name, arguments) in [("pstree", &["-p"][..]), ("ps", &["-ef"])] {
        if super::is_installed(name) {
            let times = times(bench.pick(5, 1), || listing(name, arguments))?;
            peers.push(format!("{name} {times} ms"));
        } else {
            peers.push(format!("{name} is not installed"));
        }
    }
    rows.push(row(
        format!("tree of a session with {count} members, as JSON"),
        &trees,
        peers.join("; "),
    ));
    let close = format!("/v1/sessions/{session}/close");
    daemon.post(&close, &json!({"grace_ms": 0}))?;
    Ok(rows)
}

fn row(what: String, times: &Sample, peers: String) -> Row {
    Row {
        what,
        target: "<= 5 ms",
        met: Some(times.median() <= 5.0),
        measured: format!("{times} ms"),
        peers,
    }
}

fn times(
    rounds: usize,
    mut what: impl FnMut() -> anyhow::Result<Duration>,
) -> anyhow::Result<Sample> {
    let mut times: Vec<Duration> = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        times.push(what()?);
    }
    Ok(Sample::millis(&times))
}

fn listing(program: &str, arguments: &[&str]) -> anyhow::Result<Duration> {
    let begin = Instant::now();
    let output = Command::new(program).args(arguments).output();
    ensure!(
        output.with_context(|| program.to_owned())?.status.success(),
        "{program} failed"
    );
    Ok(begin.elapsed())
}
