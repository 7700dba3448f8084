//! Real processes are reaped.

mod course;
mod proof;
mod sparing;

use std::time::Duration;

use super::super::report::{Outcome, ProcessEntry, Report, Verdict};
use super::super::testing::Group;
use super::super::{Options, reap};
use crate::process::{Cancel, Proc, ProcessId};

/// Longer than any test runs: what waits for it hangs.
const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

fn grace(grace: Duration) -> Options {
    Options {
        grace,
        settle: Duration::from_secs(60),
        ..Options::default()
    }
}

fn run(target: &mut Group, options: &Options) -> Report {
    run_with(target, options, &Cancel::new().unwrap())
}

fn run_with(target: &mut Group, options: &Options, cancel: &Cancel) -> Report {
    reap(target, &Proc::open().unwrap(), options, cancel)
}

#[track_caller]
fn entry(report: &Report, id: ProcessId) -> &ProcessEntry {
    let entry = |entry: &&ProcessEntry| entry.pid == id.pid;
    report.processes.iter().find(entry).unwrap()
}

fn outcomes(report: &Report) -> Vec<(Outcome, Vec<&str>)> {
    let mut outcomes = Vec::new();
    for entry in &report.processes {
        let signals = entry.signals.iter().map(String::as_str).collect();
        outcomes.push((entry.outcome, signals));
    }
    outcomes
}

#[track_caller]
fn assert_complete(report: &Report) {
    assert_eq!(report.verdict, Verdict::Complete, "{report:#?}");
    assert_eq!(report.reasons, Vec::<String>::new());
}
