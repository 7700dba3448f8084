//! The source on a faked `/proc`.

use super::fake::{Host, id, kept, member, session};
use super::scan::Parent;
use super::*;
use crate::lineage::{Gone, Snapshot};

#[test]
fn a_chain_that_was_seen_once_survives_reparenting() {
    let mut host = Host::new();
    host.put(id(100, 5), 10, "sh");
    assert_eq!(host.adopt(id(100, 5), member(1), true), [id(100, 5)]);
    host.put(id(101, 6), 100, "sh");
    host.put(id(102, 7), 101, "sleep");
    host.events();
    host.remove(101);
    host.put(id(102, 7), 1, "sleep");
    assert_eq!(host.members(1), [id(100, 5), id(102, 7)]);
    host.remove(100);
    // Whose parent was never seen is lost, and that is said.
    host.put(id(104, 9), 1, "lost");
    assert_eq!(host.members(1), [id(102, 7)]);
    assert_eq!(host.gaps(1), [Gap::Snapshots]);
}

#[test]
fn a_session_that_was_opened_late_finds_who_was_seen_below_its_root_before() {
    let mut host = Host::new();
    host.put(id(100, 5), 10, "sh");
    host.put(id(101, 6), 100, "sh");
    host.put(id(102, 7), 101, "sleep");
    host.put(id(103, 7), 102, "sleep");
    host.events();
    host.remove(101);
    host.put(id(102, 7), 1, "sleep");
    let tagged = host.adopt(id(100, 5), member(1), false);
    assert_eq!(tagged, [id(100, 5), id(102, 7), id(103, 7)]);
    assert_eq!(host.gaps(1), [Gap::AdoptedLate, Gap::Snapshots]);
}

#[test]
fn a_source_that_starts_late_does_not_make_up_what_it_missed() {
    let mut host = Host::new();
    host.put(id(100, 5), 10, "sh");
    host.put(id(102, 7), 1, "sleep");
    assert_eq!(host.adopt(id(100, 5), member(1), false), [id(100, 5)]);
    assert_eq!(host.gaps(1), [Gap::AdoptedLate, Gap::Snapshots]);
}

#[test]
fn names_and_pid_order_do_not_matter() {
    let mut host = Host::new();
    let name = b"x) R 1 (\n\xff";
    host.put(id(100, 5), 10, name);
    host.adopt(id(100, 5), member(1), true);
    // Children with lower pids, which are walked first, in a chain.
    host.put(id(50, 6), 100, name);
    host.put(id(20, 6), 50, name);
    host.put(id(30, 6), 20, name);
    assert_eq!(host.members(1).len(), 4);
    let named = host.events().into_iter().filter(
        |event| matches!(event, Event::Snapshot(Snapshot { comm, tag: Some(_), .. }) if comm == name),
    );
    assert_eq!(named.count(), 4);
}

#[test]
fn an_outsider_that_gets_a_members_pid_is_none_and_neither_are_its_children() {
    let mut host = Host::new();
    host.put(id(100, 5), 10, "sh");
    host.adopt(id(100, 5), member(1), true);
    host.put(id(101, 6), 100, "sh");
    assert_eq!(host.members(1).len(), 2);
    host.remove(101);
    host.put(id(101, 50), 10, "outsider");
    host.put(id(102, 51), 101, "its child");
    assert_eq!(host.members(1), [id(100, 5)]);
    for outsider in [id(101, 50), id(102, 51), id(101, 6)] {
        assert_eq!(host.source.tag_of(outsider).unwrap(), None);
    }
}

#[test]
fn nobody_inherits_from_a_process_that_is_younger() {
    let mut host = Host::new();
    host.put(id(100, 50), 10, "sh");
    host.adopt(id(100, 50), member(1), true);
    // Its parent is who had pid 100 before.
    host.put(id(101, 40), 100, "older");
    assert_eq!(host.members(1), [id(100, 50)]);
    let told = host.events().into_iter().find_map(|event| match event {
        Event::Snapshot(seen) if seen.id == id(101, 40) => Some(seen.parent),
        _ => None,
    });
    assert_eq!(told, Some(None));
}

#[test]
fn a_parent_that_cannot_be_seen_is_no_reason_to_overlook_a_process() {
    let mut host = Host::new();
    host.put(id(100, 5), 77, "below a hidden parent");
    host.adopt(id(100, 5), member(1), true);
    host.put(id(101, 6), 100, "child");
    assert_eq!(host.members(1), [id(100, 5), id(101, 6)]);
}

#[test]
fn a_tag_is_known_of_a_process_that_no_scan_has_seen() {
    let mut host = Host::new();
    host.put(id(100, 5), 10, "sh");
    host.adopt(id(100, 5), member(1), true);
    host.put(id(101, 6), 100, "sh");
    host.put(id(102, 7), 101, "sleep");
    assert_eq!(host.source.tag_of(id(102, 7)).unwrap(), Some(member(1)));
    host.remove(102);
    assert_eq!(host.source.tag_of(id(102, 7)).unwrap(), None);
}

#[test]
fn what_is_kept_hands_that_on() {
    let mut host = Host::new();
    host.put(id(100, 5), 10, "sh");
    host.adopt(id(100, 5), member(1), true);
    host.put(id(101, 6), 100, "server");
    host.events();
    host.adopt(id(101, 6), kept(1), true);
    host.put(id(102, 7), 101, "worker");
    host.put(id(103, 7), 100, "other");
    let found = host.source.members(&[session(1)]).unwrap().found;
    let exempt: Vec<_> = found
        .iter()
        .map(|member| (member.id.pid.raw(), member.tag.exempt))
        .collect();
    assert_eq!(
        exempt,
        [(100, false), (101, true), (102, true), (103, false)]
    );
    // Being tagged once more does not end it.
    host.adopt(id(100, 5), member(1), false);
    assert_eq!(host.source.tag_of(id(102, 7)).unwrap(), Some(kept(1)));
}

#[test]
fn the_innermost_session_owns() {
    let mut host = Host::new();
    for (pid, parent) in [(100, 10), (101, 100), (102, 101), (103, 102)] {
        host.put(id(pid, 5), parent, "sh");
    }
    host.adopt(id(100, 5), member(1), false);
    let adoption = |pid, raw| Adoption {
        root: id(pid, 5),
        tag: member(raw),
        fresh: false,
    };
    host.source
        .adopt(adoption(103, 3), Some(session(1)))
        .unwrap();
    host.source
        .adopt(adoption(101, 2), Some(session(1)))
        .unwrap();
    for (pid, raw) in [(100, 1), (101, 2), (102, 2), (103, 3)] {
        assert_eq!(host.source.tag_of(id(pid, 5)).unwrap(), Some(member(raw)));
    }
    host.source.release(session(2)).unwrap();
    host.put(id(104, 6), 102, "sh");
    assert_eq!(host.source.tag_of(id(104, 6)).unwrap(), None);
    assert_eq!(
        (host.members(1), host.members(3)),
        (vec![id(100, 5)], vec![id(103, 5)])
    );
}

#[test]
fn who_is_gone_cannot_be_adopted() {
    let mut host = Host::new();
    host.put(id(100, 5), 10, "sh");
    host.put_in_state(id(101, 5), 10, "sh", 'Z', 1);
    for root in [id(100, 4), id(101, 5), id(102, 5)] {
        let adoption = Adoption {
            root,
            tag: member(1),
            fresh: false,
        };
        let answer = host.source.adopt(adoption, None);
        assert!(
            matches!(answer, Err(SourceError::Gone(who)) if who == root),
            "{answer:?}"
        );
    }
    assert_eq!(host.members(1), []);
}

#[test]
fn a_zombie_is_exiting_unless_it_left_threads_behind() {
    let mut host = Host::new();
    host.put(id(100, 5), 10, "sh");
    host.adopt(id(100, 5), member(1), true);
    host.put_in_state(id(101, 6), 100, "zombie", 'Z', 1);
    host.put_in_state(id(102, 6), 100, "leader", 'Z', 3);
    let found = host.source.members(&[session(1)]).unwrap().found;
    let exiting: Vec<_> = found
        .iter()
        .map(|member| (member.id.pid.raw(), member.exiting))
        .collect();
    assert_eq!(exiting, [(100, false), (101, true), (102, false)]);
}

#[test]
fn only_changes_are_told_and_each_of_them_once() {
    let mut host = Host::new();
    host.events();
    assert_eq!(host.events(), []);

    host.put(id(100, 5), 10, "sh");
    host.put_details(100, "/bin/sh", b"sh\0\0", "Uid:\t7\t0\t0\t0\n");
    let events = host.events();
    let [Event::Snapshot(seen)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(
        (seen.id, seen.parent, seen.tag),
        (id(100, 5), Some(id(10, 1)), None)
    );
    assert_eq!((&seen.exe, &seen.argv, seen.uid), (&None, &None, None));

    // As a member it is looked at more closely.
    host.adopt(id(100, 5), member(1), true);
    let events = host.events();
    let [Event::Snapshot(seen)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((seen.tag, seen.uid), (Some(member(1)), Some(7)));
    assert_eq!(seen.exe.as_deref(), Some(&b"/bin/sh"[..]));
    assert_eq!(seen.argv, Some(vec![b"sh".to_vec(), vec![]]));

    // It executes another program of the same name.
    host.put_details(100, "/opt/sh", b"sh\0", "Uid:\t7\t0\t0\t0\n");
    let events = host.events();
    assert!(
        matches!(&events[..], [Event::Snapshot(seen)] if seen.exe.as_deref() == Some(b"/opt/sh"))
    );
    assert_eq!(host.events(), []);

    host.put(id(100, 5), 1, "sh");
    let events = host.events();
    assert!(matches!(&events[..], [Event::Snapshot(seen)] if seen.parent == Some(id(1, 0))));

    host.put_in_state(id(100, 5), 1, "sh", 'Z', 1);
    let events = host.events();
    assert!(matches!(&events[..], [Event::Gone(Gone { id: who, .. })] if *who == id(100, 5)));
    host.remove(100);
    assert_eq!(host.events(), []);

    host.put_in_state(id(101, 5), 1, "brief", 'Z', 1);
    let events = host.events();
    assert!(
        matches!(&events[..], [Event::Snapshot(_), Event::Gone(_)]),
        "{events:?}"
    );
}

#[test]
fn a_pid_that_changed_hands_during_a_scan_means_its_latest_holder() {
    let mut host = Host::new();
    let begun_ns = crate::process::now_boot_ns();
    let later = begun_ns / 10_000_000 + 100;
    // Pid 100 was walked past, then used again, and then 101 was walked past.
    let before = HashMap::from([(Pid::new(100).unwrap(), id(100, 5))]);
    host.put(id(100, later), 10, "outsider");
    host.put(id(101, later + 1), 100, "its child");
    host.put(id(102, 6), 100, "no child of that one");
    let mut parent = |pid| {
        let mut seen = host.source.look(Pid::new(pid).unwrap()).unwrap().unwrap();
        host.source.parent_of(&mut seen, &before, begun_ns).unwrap()
    };
    assert!(matches!(parent(101), Parent::New(seen) if seen.id == id(100, later)));
    assert!(matches!(parent(102), Parent::Known(who) if who == id(100, 5)));
}
