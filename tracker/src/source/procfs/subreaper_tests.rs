//! The source as a subreaper, on a faked `/proc`.

use super::fake::{Host, id, kept, member, session};
use super::*;

#[test]
fn a_subreaper_gets_orphans_that_nobody_saw_and_the_kernel_proves_that_none_is_left() {
    use std::sync::atomic::{AtomicBool, Ordering};
    static CHILDLESS: AtomicBool = AtomicBool::new(false);
    let mut host = Host::subreaper(None, || CHILDLESS.load(Ordering::SeqCst));
    host.put(id(100, 5), 10, "sh");
    host.adopt(id(100, 5), member(1), true);
    host.put(id(105, 8), 10, "orphan");
    host.put(id(106, 8), 105, "its child");
    assert_eq!(host.members(1), [id(100, 5), id(105, 8), id(106, 8)]);
    assert_eq!(host.gaps(1), [Gap::Snapshots]);
    for pid in [100, 105, 106] {
        host.remove(pid);
    }
    // A zombie that nobody waited for may be left.
    assert_eq!(host.gaps(1), [Gap::Snapshots]);
    CHILDLESS.store(true, Ordering::SeqCst);
    assert_eq!(host.gaps(1), []);
    // Only the session that was started below it profits from that.
    assert_eq!(host.gaps(2), [Gap::Snapshots]);
    host.source.release(session(1)).unwrap();
    assert_eq!(host.gaps(1), [Gap::Snapshots]);
}

#[test]
fn orphans_of_children_that_were_there_before_are_left_alone() {
    let mut host = Host::subreaper(None, || false);
    host.put(id(90, 3), 10, "job of the shell");
    host.put(id(91, 3), 90, "its child");
    host.put(id(100, 5), 10, "sh");
    host.adopt(id(100, 5), member(1), true);
    host.put(id(101, 6), 100, "member");
    host.events();
    host.remove(90);
    host.remove(100);
    host.put(id(91, 3), 10, "its child");
    host.put(id(101, 6), 10, "member");
    host.put(id(105, 8), 10, "whose?");
    let members = host.source.members(&[session(1)]).unwrap();
    assert_eq!(
        members
            .found
            .iter()
            .map(|member| member.id)
            .collect::<Vec<_>>(),
        [id(101, 6)]
    );
    assert!(
        members.notes.iter().any(|note| note.contains("105@8")),
        "{:?}",
        members.notes
    );
    assert_eq!(members.notes.len(), 1);
    host.remove(105);
    assert_eq!(host.source.members(&[session(1)]).unwrap().notes, [""; 0]);
}

#[test]
fn an_orphan_that_may_descend_from_a_kept_process_is_kept() {
    let mut host = Host::subreaper(None, || false);
    host.put(id(100, 5), 10, "sh");
    host.adopt(id(100, 5), member(1), true);
    host.put(id(101, 7), 100, "server");
    host.events();
    host.adopt(id(101, 7), kept(1), true);
    host.put(id(105, 6), 10, "older than the server");
    host.put(id(106, 8), 10, "whose?");
    assert_eq!(host.source.tag_of(id(105, 6)).unwrap(), Some(member(1)));
    assert_eq!(host.source.tag_of(id(106, 8)).unwrap(), Some(kept(1)));
    let notes = host.source.members(&[session(1)]).unwrap().notes;
    assert!(
        matches!(&notes[..], [note] if note.contains("106@8")),
        "{notes:?}"
    );
}

/// A host with a container that was there before; the session's root is gone.
fn host_with_a_container(user: Option<u32>) -> Host {
    let mut host = Host::subreaper(user, || true);
    let own = i64::from(Pid::own());
    host.put(id(own, 1), 1, "tracker");
    host.put_details(own, "/tracker", b"", "NSpid:\t7\n");
    host.put(id(40, 2), 1, "init of a container");
    host.put_details(40, "/init", b"", "NSpid:\t40\t1\n");
    host.put(id(41, 3), 40, "was there before");
    host.put(id(100, 5), 10, "sh");
    host.put_details(100, "/bin/sh", b"", "Uid:\t7\n");
    host.adopt(id(100, 5), member(1), true);
    host.events();
    host.remove(100);
    assert_eq!(host.gaps(1), []);
    host
}

#[test]
fn an_orphan_in_another_pid_namespace_is_named_since_it_may_be_a_descendant() {
    let mut host = host_with_a_container(None);
    host.put(id(42, 6), 40, "whose?");
    host.put_details(42, "/x", b"", "NSpid:\t42\t9\n");
    host.put(id(43, 6), 42, "its child");
    assert_eq!(host.gaps(1), [Gap::OtherNamespace(id(42, 6))]);
    host.remove(42);
    host.put(id(43, 6), 40, "its child");
    assert_eq!(host.gaps(1), [], "it was seen below another process first");
}

#[test]
fn a_user_is_only_suspected_of_what_its_own_containers_do() {
    let mut host = host_with_a_container(Some(7));
    host.put(id(42, 6), 40, "server of the container");
    host.put_details(42, "/x", b"", "Uid:\t999\nNSpid:\t42\t9\n");
    assert_eq!(host.gaps(1), []);
    host.put(id(43, 6), 40, "whose?");
    host.put_details(43, "/x", b"", "Uid:\t7\nNSpid:\t43\t10\n");
    assert_eq!(host.gaps(1), [Gap::OtherNamespace(id(43, 6))]);
}

#[test]
fn a_user_that_became_root_is_suspected_of_everything() {
    let mut host = Host::subreaper(Some(7), || true);
    host.put(id(100, 5), 10, "sh");
    host.put_details(100, "/bin/sh", b"", "Uid:\t7\n");
    host.adopt(id(100, 5), member(1), true);
    host.events();
    assert_eq!(host.source.subtree.as_ref().unwrap().user, Some(7));
    host.put(id(101, 6), 100, "sudo");
    host.put_details(101, "/usr/bin/sudo", b"", "Uid:\t0\n");
    host.events();
    assert_eq!(host.source.subtree.as_ref().unwrap().user, None);
}

#[test]
fn a_session_is_taken_over_whose_root_is_dead() {
    let mut host = Host::subreaper(None, || false);
    host.put(id(90, 3), 10, "job of the shell");
    host.put(id(105, 8), 10, "orphan");
    host.put(id(106, 8), 105, "its child");
    let take_over = |host: &mut Host, outsiders| {
        let heritage = super::subtree::Heritage {
            root: id(100, 5),
            outsiders,
        };
        let subtree = host.source.subtree.take().unwrap();
        host.source.subtree = Some(subtree.with_heritage(heritage));
        // Tracking takes in what happened before it opens a session.
        host.events();
        host.adopt(id(100, 5), member(1), true);
        host.members(1)
    };
    // With a child that is somebody else's, an orphan may be that one's.
    assert_eq!(take_over(&mut host, vec![id(90, 3)]), []);
    host.source.release(session(1)).unwrap();
    host.remove(90);
    assert_eq!(take_over(&mut host, vec![]), [id(105, 8), id(106, 8)]);
}
