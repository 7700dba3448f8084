//! When it is over, and what is proven then.

use std::time::Duration;

use super::super::super::testing::{Family, Group};
use super::super::super::{Outcome, Verdict};
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
