//! When it is over, and what is proven then.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::super::testing::{Family, Group, until};
use super::super::super::{Options, Outcome, Verdict};
use super::{FOR_EVER, assert_complete, grace, outcomes, run};
use crate::process::{Proc, ProcessId};

/// A process whose parent waits for nobody, and the parent.
fn child_of_a_careless_parent() -> (Family, ProcessId) {
    let family = Family::start("sleep 600 & echo; exec sleep 600");
    let child = || family.alive().into_iter().find(|id| *id != family.root);
    let child = child().unwrap();
    (family, child)
}

#[test]
fn a_zombie_that_nobody_waits_for_is_dead_at_once() {
    let (family, child) = child_of_a_careless_parent();
    let report = run(&mut Group::only(&[child]), &grace(FOR_EVER));
    assert_complete(&report);
    assert_eq!(outcomes(&report), [(Outcome::Terminated, vec!["TERM"])]);
    // Now it is a zombie when it is first seen: nothing to do or to report.
    let zombie = Proc::open().unwrap().same(child).unwrap().unwrap();
    assert!(zombie.stat.is_dead());
    let report = run(&mut Group::only(&[child]), &grace(FOR_EVER));
    assert_complete(&report);
    assert_eq!(report.processes, []);
    assert_eq!(family.alive(), [family.root]);
}

#[test]
fn nothing_to_do_is_done_after_one_look() {
    let (_family, child) = child_of_a_careless_parent();
    let mut target = Group::only(&[child]);
    target.also.clear();
    assert_complete(&run(&mut target, &grace(FOR_EVER)));
    assert_eq!(target.looks, 1);
}

#[test]
fn a_look_that_fails_is_repeated() {
    let family = Family::start("echo; exec sleep 600");
    let mut target = family.target();
    target.failing_looks = 1;
    assert_complete(&run(&mut target, &grace(FOR_EVER)));
    family.last_words();
}

#[test]
fn when_all_looks_fail_nothing_is_proven() {
    let family = Family::start("echo; exec sleep 600");
    let mut target = family.target();
    target.failing_looks = u32::MAX;
    let report = run(&mut target, &grace(FOR_EVER));
    assert_eq!(report.verdict, Verdict::Incomplete);
    assert!(
        report.reasons[0].starts_with("cannot look at the target"),
        "{report:#?}"
    );
    assert_eq!(family.alive(), [family.root]);
}

#[test]
fn a_gap_keeps_the_verdict_from_complete() {
    let family = Family::start("echo; exec sleep 600");
    let mut target = family.target();
    target.gaps = vec!["half".to_owned(), "half".to_owned()];
    let report = run(&mut target, &grace(FOR_EVER));
    assert_eq!(
        (report.verdict, report.reasons),
        (Verdict::Incomplete, vec!["half".to_owned()])
    );
    family.last_words();
}

#[test]
fn a_target_that_panics_is_absolved() {
    let family = Family::start("trap '' TERM; echo; while :; do sleep 600; done");
    let mut target = family.target();
    target.on_condemn = Box::new(|| panic!("the test says so"));
    let options = grace(Duration::from_millis(50));
    let caught = std::panic::AssertUnwindSafe(|| run(&mut target, &options));
    assert!(std::panic::catch_unwind(caught).is_err());
    assert_eq!((target.condemned, target.absolved), (1, 1));
}

/// A frozen cgroup of version 1.
struct Frozen(PathBuf);

impl Frozen {
    fn new(hierarchy: &Path, id: ProcessId) -> Frozen {
        let directory = hierarchy.join(format!("tracker-test-{id}"));
        std::fs::create_dir(&directory).unwrap();
        let frozen = Frozen(directory);
        frozen.write("cgroup.procs", &id.pid.to_string());
        frozen.write("freezer.state", "FROZEN");
        until("it is frozen", || {
            let state = std::fs::read_to_string(frozen.0.join("freezer.state")).unwrap();
            state == "FROZEN\n"
        });
        frozen
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.0.join(file), text).unwrap();
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("freezer.state"), "THAWED");
        // It is busy until its process has left it.
        for _ in 0..1000 {
            if std::fs::remove_dir(&self.0).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn who_cannot_die_is_named_with_the_cause() {
    let hierarchy = Path::new("/sys/fs/cgroup/freezer");
    if !hierarchy.join("cgroup.procs").exists() || !rustix::process::geteuid().is_root() {
        eprintln!("not run: no freezer hierarchy of cgroup version 1 that could be written");
        return;
    }
    let family = Family::start("echo; exec sleep 600");
    let frozen = Frozen::new(hierarchy, family.root);
    let options = Options {
        settle: Duration::from_millis(200),
        ..grace(Duration::from_millis(50))
    };
    let report = run(&mut family.target(), &options);
    assert_eq!(report.verdict, Verdict::Survivors);
    let [survivor] = report.processes.as_slice() else {
        panic!("{report:#?}")
    };
    assert_eq!(
        (survivor.outcome, survivor.state),
        (Outcome::Survived, Some('D'))
    );
    assert!(
        survivor.reason.as_ref().unwrap().contains("frozen"),
        "{survivor:#?}"
    );
    // It was killed nevertheless, and dies when it can.
    drop(frozen);
    family.last_words();
}
