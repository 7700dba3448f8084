use std::time::Duration;

use super::super::testing::{Family, kill, until};
use super::super::{Options, Outcome, Report, Verdict, reap};
use super::*;
use crate::process::Cancel;

fn target(proc: &Proc, root: ProcessId, exclude_root: bool) -> TreeTarget<'_> {
    let protected = Protected::new(proc, &[]).unwrap();
    let request = TreeRequest {
        pid: root.pid,
        start_time: None,
        exclude_root,
    };
    TreeTarget::new(proc, &request, protected).unwrap()
}

fn run(root: ProcessId, exclude_root: bool) -> Report {
    let proc = Proc::open().unwrap();
    let options = Options {
        grace: Duration::from_millis(300),
        ..Options::default()
    };
    let cancel = Cancel::new().unwrap();
    reap(
        &mut target(&proc, root, exclude_root),
        &proc,
        &options,
        &cancel,
    )
}

fn candidates(target: &mut TreeTarget<'_>) -> Vec<ProcessId> {
    let survey = target.survey().unwrap();
    let mut ids: Vec<_> = survey.candidates.iter().map(|one| one.id).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn a_process_ends_with_its_descendants_and_no_more_is_claimed() {
    let family = Family::start("sh -c 'sleep 600 & wait' & sleep 600 & echo; wait");
    until("all four run", || family.alive().len() == 4);
    let canary = Family::start("echo; exec sleep 600");
    let report = run(family.root, false);
    assert_eq!(report.verdict, Verdict::Incomplete);
    assert_eq!(report.reasons, [GAP]);
    assert_eq!(report.processes.len(), 4, "{report:#?}");
    // A shell whose child has been ended may be gone before it is signalled.
    let is_dead = |entry: &super::super::ProcessEntry| {
        matches!(
            entry.outcome,
            Outcome::Exited | Outcome::Terminated | Outcome::Killed
        )
    };
    assert!(report.processes.iter().all(is_dead));
    let child = report
        .processes
        .iter()
        .find(|entry| entry.pid != family.root.pid)
        .unwrap();
    assert!(child.evidence[0].detail.starts_with("child of "));
    assert_eq!(canary.alive(), [canary.root]);
    family.last_words();
}

#[test]
fn the_root_lives_when_it_is_excluded() {
    let family = Family::start("sleep 600 & echo; wait; exec sleep 600");
    let report = run(family.root, true);
    assert_eq!((report.processes.len(), report.spared.len()), (1, 0));
    assert_eq!(family.alive(), [family.root]);
}

#[test]
fn who_was_found_once_stays_a_member_when_its_parent_dies() {
    let family = Family::start("sh -c 'sleep 600 & echo; exec sleep 601' & wait; exec sleep 602");
    let proc = Proc::open().unwrap();
    let mut target = target(&proc, family.root, false);
    let all = candidates(&mut target);
    assert_eq!(all, family.alive());
    let parent_of = |id| proc.same(id).unwrap().unwrap().stat.parent;
    let middle = *all
        .iter()
        .find(|id| parent_of(**id) == Some(family.root.pid))
        .unwrap();
    kill(middle);
    until("the root has waited for it", || {
        proc.same(middle).unwrap().is_none()
    });
    let left = candidates(&mut target);
    assert_eq!((left.len(), left), (2, family.alive()));
    // Who looks only now cannot know.
    assert_eq!(
        candidates(&mut self::target(&proc, family.root, false)),
        [family.root]
    );
}

#[test]
fn a_child_whose_parent_ended_during_the_look_is_spared() {
    let family = Family::start("echo; exec sleep 600");
    let proc = Proc::open().unwrap();
    let mut target = target(&proc, family.root, false);
    let child = proc.same(family.root).unwrap().unwrap();
    // A member that was seen as the child's parent, and is gone now.
    let gone = ProcessId::new(Pid::new(i64::from(i32::MAX)).unwrap(), child.id.start_time);
    let mut parent = child.clone();
    parent.id = gone;
    let other = Family::start("echo; exec sleep 600");
    let mut child = other.seen();
    child.stat.parent = Some(gone.pid);
    target.members.insert(gone, Vec::new());
    let all = HashMap::from([(gone.pid, parent), (child.id.pid, child.clone())]);
    let unclear = target.find(&all, StartTime::from_ticks(0)).unwrap();
    assert_eq!(unclear.len(), 1);
    assert_eq!(
        (unclear[0].id, unclear[0].reason),
        (child.id, SpareReason::Inconclusive)
    );
    assert!(target.recheck(child.id).is_err());
    // Were both older than the look, the link would be the truth.
    let later = StartTime::from_ticks(child.id.start_time.ticks() + 1);
    assert!(target.find(&all, later).unwrap().is_empty());
    assert!(target.recheck(child.id).is_ok());
}

#[test]
fn an_ancestor_of_tracker_is_spared_and_its_other_descendants_are_not() {
    let family = Family::start("echo; exec sleep 600");
    let proc = Proc::open().unwrap();
    // The family's root descends from the parent of this test, as this test does.
    let own = proc.seen(Pid::own()).unwrap().unwrap();
    let parent = proc.seen(own.stat.parent.unwrap()).unwrap().unwrap().id;
    let survey = target(&proc, parent, false).survey().unwrap();
    let spared = |id| {
        survey
            .spared
            .iter()
            .any(|one| one.id == id && one.reason == SpareReason::Protected)
    };
    assert!(spared(parent) && spared(own.id));
    assert!(survey.candidates.iter().any(|one| one.id == family.root));
}
