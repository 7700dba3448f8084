//! A map in which a session finds no room.

use tracker::lineage::Limits;
use tracker::process::Proc;
use tracker::session::{OpenSession, Root, SessionError, Tracking};
use tracker::source::SourceError;
use tracker::source::ebpf::LoadOptions;
use tracker_tests::{Scene, Who};

use super::{id, load};

fn for_process(root: Who) -> OpenSession {
    OpenSession {
        name: "job".to_owned(),
        root: Root::Running(id(root)),
        owner_uid: 0,
        keep: vec![],
        workdir: None,
    }
}

#[test]
fn a_session_without_room_for_its_members_is_refused_and_takes_nobody() {
    let options = LoadOptions {
        capacity: 16,
        ..LoadOptions::standalone()
    };
    let Some(source) = load(options) else {
        return;
    };
    let mut tracking = Tracking::new(Box::new(source), Proc::open().unwrap(), Limits::default());
    let scene = Scene::new();
    // One of these has many children, and only that one is in the way of others.
    let script = "\"$V\" linger outer & \"$V\" linger outer & exec \"$V\" linger root";
    let mut small = scene.command("sh").args(["-c", script]).spawn().unwrap();
    let members = [scene.await_cast("root", 1), scene.await_cast("outer", 2)].concat();
    let outer = tracking.open(for_process(members[0])).unwrap();
    let script = "i=0; while [ $i -lt 40 ]; do \"$V\" linger many & i=$((i+1)); done; wait";
    let mut large = scene.command("sh").args(["-c", script]).spawn().unwrap();
    let many = scene.await_cast("many", 40);
    let error = tracking
        .open(for_process(Who::with_pid(large.id())))
        .unwrap_err();
    assert!(
        matches!(error, SessionError::Source(SourceError::Full(_))),
        "{error:?}"
    );
    let text = error.to_string();
    assert!(text.contains("full") && text.contains("--unpin"), "{text}");
    assert_eq!(tracking.sessions().iter().count(), 1);
    for who in many {
        assert_eq!(tracking.tag_of(id(who)).unwrap(), None, "{who} is a member");
    }
    // What is there is not harmed, and there is room again.
    for who in &members {
        let tag = tracking.tag_of(id(*who)).unwrap();
        assert_eq!(tag.map(|tag| tag.session), Some(outer), "{who}");
    }
    let inner = tracking.open(for_process(members[1])).unwrap();
    let tag = tracking.tag_of(id(members[1])).unwrap();
    assert_eq!(tag.map(|tag| tag.session), Some(inner));
    scene.clear();
    small.wait().unwrap();
    large.wait().unwrap();
}
