//! `tracker run` where there is a daemon.

use rustix::process::Signal;
use serde_json::json;
use tracker_tests::{Daemon, Need, Scene, Source, able, until};

/// How many reaps the daemon has recorded.
fn reaps(daemon: &Daemon<'_>) -> usize {
    daemon.get("/v1/reaps")["reaps"]
        .as_array()
        .map_or(0, Vec::len)
}

#[test]
fn a_command_is_tracked_by_the_daemon_and_ends_as_it_would_without() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let mut scene = Scene::new();
    {
        let daemon = Daemon::start(&scene, Source::Ebpf);
        let script = "(setsid sleep 600 &); echo $TRACKER_SESSION; exit 3";
        let ended = daemon
            .tracker(&["run", "--report", "r", "--", "sh", "-c", script])
            .finish();
        ended.assert_code(3);
        let text = std::fs::read(scene.dir().join("r")).expect("a report");
        let report: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(report["verdict"], "complete", "{report}");
        assert_eq!(report["target"]["id"], ended.stdout.trim(), "{report}");
        assert_eq!(reaps(&daemon), 1);
        assert_eq!(daemon.get("/v1/sessions")["sessions"], json!([]));
        let ended = daemon
            .tracker(&["run", "--standalone", "--", "sh", "-c", script])
            .finish();
        ended.assert_code(3);
        assert_eq!(reaps(&daemon), 1, "the daemon was not asked");
    }
    scene.assert_all_dead();
}

#[test]
fn what_is_not_to_be_reaped_is_left_alone_and_its_session_is_over() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let arguments = ["run", "--no-reap", "--", "sh", "-c", "setsid sleep 600 &"];
    daemon.tracker(&arguments).finish();
    assert!(scene.named("sleep").is_alive());
    assert_eq!(daemon.get("/v1/sessions")["sessions"], json!([]));
}

#[test]
fn a_push_cuts_the_grace_short() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let run = ["run", "--grace", "1h", "--"];
    let running = daemon.tracker(&run).victim("stubborn").start();
    until("the teardown", || {
        let reaps = daemon.get("/v1/reaps");
        (reaps["reaps"][0]["state"] == "running").then_some(())
    });
    assert_eq!(
        scene
            .alive()
            .iter()
            .filter(|stat| stat.comm == b"victim")
            .count(),
        1
    );
    running.who().signal(Signal::INT);
    running.finish();
    assert!(!scene.alive().iter().any(|stat| stat.comm == b"victim"));
    assert_eq!(daemon.get("/v1/sessions")["sessions"], json!([]));
}

#[test]
fn a_daemon_that_dies_meanwhile_is_no_reason_to_lose_the_command() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene, Source::Ebpf);
    let script = "touch up; while ! [ -e go ]; do sleep .01; done; (setsid sleep 600 &); exit 3";
    let running = daemon.tracker(&["run", "--", "sh", "-c", script]).start();
    until("the command", || {
        scene.dir().join("up").exists().then_some(())
    });
    daemon.kill();
    let daemon = daemon.restart();
    scene.touch("go");
    running.finish().assert_code(3);
    assert!(!scene.alive().iter().any(|stat| stat.comm == b"sleep"));
    assert_eq!(daemon.get("/v1/sessions")["sessions"], json!([]));
}
