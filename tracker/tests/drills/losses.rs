//! What does not fit is told of whom it concerns, and of nobody else.

use std::time::Duration;

use tracker::reap::Verdict;
use tracker::source::ebpf::LoadOptions;
use tracker_tests::{Need, Scene, able};

use super::{Gate, Sessions};

const GRACE: Duration = Duration::from_secs(60);

/// Two sessions, of which one is busy: the reports of both, the busy one first.
fn reaped(options: LoadOptions, busy_script: &str) -> [tracker::reap::Report; 2] {
    let sessions = Sessions::new(options);
    let (busy_scene, quiet_scene) = (Scene::new(), Scene::new());
    let mut quiet = Gate::new(&quiet_scene, "(setsid sleep 600 &); exit 0");
    let quiet_session = sessions.open(quiet.who);
    quiet.finish();
    let mut busy = Gate::new(&busy_scene, busy_script);
    let busy_session = sessions.open(busy.who);
    busy.finish();
    [busy_session, quiet_session].map(|session| sessions.reap(session, GRACE))
}

#[test]
fn a_small_ring_that_nobody_reads_loses_history_and_no_member() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let options = LoadOptions {
        ring_bytes: 64 << 10,
        ..LoadOptions::standalone()
    };
    // Nobody drains the ring between the opening and the reap.
    let [busy, quiet] = reaped(options, "\"$V\" forks 5000");
    for report in [&busy, &quiet] {
        assert_eq!(report.verdict, Verdict::Complete, "{report:?}");
        assert_eq!(report.processes.len(), 1, "{report:?}");
    }
    let told = busy.reasons.join("\n");
    assert!(told.contains("records of history"), "{told}");
    assert!(quiet.reasons.is_empty(), "{:?}", quiet.reasons);
}

#[test]
fn a_small_map_makes_the_session_incomplete_whose_children_did_not_fit() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let options = LoadOptions {
        capacity: 100,
        ..LoadOptions::standalone()
    };
    let many = "i=0; while [ $i -lt 150 ]; do (setsid \"$V\" linger many &); i=$((i+1)); done; \
                until [ $(grep -c many cast) = 150 ]; do sleep .02; done";
    let [busy, quiet] = reaped(options, many);
    assert_eq!(busy.verdict, Verdict::Incomplete, "{:?}", busy.reasons);
    let told = busy.reasons.join("\n");
    assert!(
        told.contains("did not fit") || told.contains("were lost"),
        "{told}"
    );
    // Nothing is claimed of those who are not known.
    assert!(busy.processes.len() < 150, "{}", busy.processes.len());
    assert_eq!(quiet.verdict, Verdict::Complete, "{quiet:?}");
    assert!(quiet.reasons.is_empty(), "{:?}", quiet.reasons);
}
