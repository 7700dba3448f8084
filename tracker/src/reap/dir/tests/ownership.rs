//! Whose the processes in a directory are.

use super::super::super::testing::{Family, id_of};
use super::super::super::{SpareReason, Verdict};
use super::*;
use crate::lineage::{Fork, Snapshot};

fn for_session(workdir: &Workdir, session: SessionId) -> DirRequest {
    DirRequest {
        session: Some(session),
        ..live(workdir)
    }
}

#[test]
fn members_of_another_session_are_spared_and_strays_are_not() {
    let base = Base::new();
    let own = base.workdir("job");
    let (member, stray, other) = (
        base.dweller("job"),
        base.dweller("job"),
        base.dweller("job"),
    );
    let mut world = World::default();
    let session = world.session(1, Some(own.clone()), &[&member]);
    world.session(2, None, &[&other]);
    let report = world.reap(&for_session(&own, session));
    assert_eq!(report.verdict, Verdict::Complete, "{report:?}");
    assert_eq!(
        spared_reason(&report, &other),
        Some(SpareReason::OtherSession)
    );
    assert!(!is_alive(&member) && !is_alive(&stray));
    assert!(is_alive(&other));
}

#[test]
fn the_session_that_works_in_a_directory_is_ended_with_it() {
    let base = Base::new();
    let (own, other) = (base.workdir("job-1"), base.workdir("job-10"));
    let (member, stranger) = (base.dweller("job-1"), base.dweller("job-10"));
    let mut world = World::default();
    world.session(1, Some(own.clone()), &[&member]);
    world.session(2, Some(other), &[&stranger]);
    let report = world.reap(&live(&own));
    assert_eq!(report.verdict, Verdict::Complete, "{report:?}");
    assert!(!is_alive(&member) && is_alive(&stranger));
    assert!(!report.spared.iter().any(|one| one.pid == stranger.root.pid));
}

#[test]
fn a_directory_of_another_session_inside_the_reaped_one_is_protected() {
    let base = Base::new();
    let (outer, nested) = (base.workdir("w"), base.workdir("w/.wt/b"));
    let (stray, member) = (base.dweller("w/.wt/b/a"), base.dweller("w/.wt/b"));
    let (beside, own) = (base.dweller("w/.wt"), base.dweller("w"));
    let mut world = World::default();
    world.session(1, Some(outer.clone()), &[&own]);
    let inner = world.session(2, Some(nested), &[&member]);
    // Opened by a member of the outer session, which does not change it.
    world.last().parent = SessionId::new(1);
    let report = world.reap(&live(&outer));
    assert_eq!(report.verdict, Verdict::Complete, "{report:?}");
    for spared in [&stray, &member] {
        assert_eq!(
            spared_reason(&report, spared),
            Some(SpareReason::OtherSession)
        );
        assert!(is_alive(spared));
    }
    assert!(!is_alive(&beside) && !is_alive(&own));
    let detail = report
        .spared
        .iter()
        .find(|one| one.pid == stray.root.pid)
        .unwrap();
    assert!(detail.detail.contains(&inner.to_string()), "{detail:?}");
}

#[test]
fn a_removed_directory_inside_another_sessions_is_still_reaped() {
    let base = Base::new();
    let (outer, own) = (base.workdir("w"), base.workdir("w/.wt/b"));
    let (member, stray, around) = (
        base.dweller("w/.wt/b"),
        base.dweller("w/.wt/b/a"),
        base.dweller("w"),
    );
    let mut world = World::default();
    let session = world.session(1, Some(own.clone()), &[&member]);
    world.session(2, Some(outer), &[&around]);
    base.remove("w/.wt/b");
    let report = world.reap(&DirRequest {
        session: Some(session),
        ..request(&own)
    });
    assert_eq!(report.verdict, Verdict::Complete, "{report:?}");
    assert!(!is_alive(&member) && !is_alive(&stray));
    assert!(is_alive(&around));
}

#[test]
fn two_sessions_in_one_directory_leave_strays_to_the_last() {
    let base = Base::new();
    let shared = base.workdir("w");
    let (first, second, stray) = (base.dweller("w"), base.dweller("w"), base.dweller("w"));
    let mut world = World::default();
    let session = world.session(1, Some(shared.clone()), &[&first]);
    world.session(2, Some(shared.clone()), &[&second]);
    let report = world.reap(&for_session(&shared, session));
    assert!(is_alive(&second) && is_alive(&stray));
    assert_eq!(
        spared_reason(&report, &stray),
        Some(SpareReason::OtherSession)
    );
    // Who stands where another session works is left alone by a directory's
    // reap; a session's own reap ends its members wherever they are.
    assert!(is_alive(&first));
}

#[test]
fn what_a_keep_rule_of_the_session_names_is_kept() {
    let base = Base::new();
    let own = base.workdir("job");
    let stray = base.dweller("job");
    super::super::super::testing::until("it sleeps", || stray.seen().stat.comm == b"sleep");
    let mut world = World::default();
    let session = world.session(1, Some(own.clone()), &[]);
    world.last().keep = vec!["sleep".parse().unwrap()];
    let report = world.reap(&for_session(&own, session));
    assert_eq!(spared_reason(&report, &stray), Some(SpareReason::Kept));
    assert!(is_alive(&stray));
}

fn snapshot(id: ProcessId, parent: Option<ProcessId>) -> Event {
    Event::Snapshot(Snapshot {
        id,
        parent,
        tag: None,
        time_ns: 0,
        comm: Vec::new(),
        exe: None,
        argv: None,
        uid: None,
    })
}

/// Another session, which may have members that are not known, and a stray.
fn doubtful(events: impl Fn(ProcessId) -> Vec<Event>) -> (Report, Family) {
    let base = Base::new();
    let own = base.workdir("job");
    let other = base.dweller("other");
    // Younger than the other session's root by its start time, in ticks.
    std::thread::sleep(Duration::from_millis(30));
    let stray = base.dweller("job");
    let mut world = World::default();
    let session = world.session(1, Some(own.clone()), &[]);
    let second = world.session(2, None, &[&other]);
    world.gaps.push((second, Gap::MembersLost(1)));
    world.events = events(stray.root);
    (world.reap(&for_session(&own, session)), stray)
}

#[test]
fn a_stray_whose_ancestry_is_unknown_is_spared_when_it_could_be_anothers() {
    let (report, stray) = doubtful(|_| Vec::new());
    assert_eq!(
        spared_reason(&report, &stray),
        Some(SpareReason::Inconclusive)
    );
    assert_eq!(report.verdict, Verdict::Incomplete, "{report:?}");
    assert!(is_alive(&stray));
    // An orphan has the init process for a parent, and that says nothing.
    let (report, stray) = doubtful(|stray| vec![snapshot(stray, Some(id_of(1)))]);
    assert_eq!(
        spared_reason(&report, &stray),
        Some(SpareReason::Inconclusive)
    );
    assert!(is_alive(&stray));
}

#[test]
fn a_stray_whose_creators_are_recorded_is_nobodys() {
    let recorded = |stray| {
        vec![Event::Fork(Fork {
            child: stray,
            creator: id_of(1),
            tag: None,
            time_ns: 1,
            comm: Vec::new(),
            uid: 0,
            cgroup_id: 0,
        })]
    };
    let (report, stray) = doubtful(recorded);
    assert_eq!(report.verdict, Verdict::Complete, "{report:?}");
    assert!(!is_alive(&stray));
}
