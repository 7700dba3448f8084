//! What a daemon uses when nothing happens, and after much has happened.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::daemon::Daemon;
use super::{Bench, Row};

/// Time and memory of a daemon that nobody asks anything.
pub(crate) fn idle(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let daemon = Daemon::start(&bench.tracker, &bench.dir)?;
    std::thread::sleep(Duration::from_secs(2));
    let span = Duration::from_secs(bench.pick(30, 3));
    let (ticks, begin) = (ticks(daemon.pid())?, Instant::now());
    std::thread::sleep(span);
    let used = super::memory::ticks(daemon.pid())?.saturating_sub(ticks);
    // A tick is 10 ms.
    #[expect(clippy::cast_precision_loss, reason = "a handful of ticks")]
    let percent = used as f64 / begin.elapsed().as_secs_f64();
    let kib = rss(daemon.pid())?;
    Ok(vec![
        Row {
            what: format!("time of an idle daemon in {} s", span.as_secs()),
            target: "0.0 %",
            met: Some(percent < 0.05),
            measured: format!("{percent:.1} % (what others do on this machine is recorded, too)"),
            peers: String::new(),
        },
        Row {
            what: "resident memory of an idle daemon".to_owned(),
            target: "<= 20 MiB",
            met: Some(kib <= 20 << 10),
            measured: format!("{:.1} MiB", mib(kib)),
            peers: String::new(),
        },
    ])
}

/// Memory while processes come and go for as long as there is time.
pub(crate) fn many_forks(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let daemon = Daemon::start(&bench.tracker, &bench.dir)?;
    let end = Instant::now() + Duration::from_secs(bench.pick(60, 6));
    let batch = 20_000_u64;
    let (mut forks, mut sizes) = (0, Vec::new());
    while Instant::now() < end {
        let waiting = bench.helper.start(&["forks", &batch.to_string()])?;
        let session = daemon.open(waiting.pid)?;
        waiting.time()?;
        forks += batch;
        sizes.push(rss(daemon.pid())?);
        daemon.leave(&session)?;
    }
    // The history fills up first; that is bounded, and not what is asked here.
    let (early, late) = sizes.split_at(sizes.len().div_ceil(3));
    let before = early.iter().max().copied().unwrap_or(0);
    let after = late.iter().max().copied().unwrap_or(0);
    Ok(vec![Row {
        what: format!(
            "resident memory of the daemon after {forks} forks in {} s",
            bench.pick(60, 6)
        ),
        target: "flat",
        met: Some(after <= before + (1 << 10)),
        measured: format!(
            "{:.1} MiB at most in the first third, {:.1} MiB after",
            mib(before),
            mib(after)
        ),
        peers: String::new(),
    }])
}

fn mib(kib: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "sizes of a process")]
    let mib = kib as f64 / 1024.0;
    mib
}

/// Resident memory in KiB.
fn rss(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let value = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(value.context("VmRSS")?.trim().parse()?)
}

/// Ticks that a process has run, in user space and in the kernel.
fn ticks(pid: u32) -> anyhow::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(')').context("a name")?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut field = || -> anyhow::Result<u64> { Ok(fields.next().context("a field")?.parse()?) };
    Ok(field()? + field()?)
}
