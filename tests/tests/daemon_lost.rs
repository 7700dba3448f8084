//! `tracker run` whose daemon goes away, or does not answer any more.

use rustix::process::Signal;
use serde_json::{Value, json};
use tracker_tests::{Daemon, Dweller, Ended, Need, Running, Scene, Source, able, until};

/// Leaves somebody behind who is nobody's child, when it is told to.
const LEAVES: &str = "touch up; until [ -e go ]; do sleep .02; done; \"$V\" double-fork; exit 3";

/// A run that the daemon tracks, and whose command waits for the file `go`.
fn start(daemon: &Daemon<'_>, scene: &Scene, flags: &[&str]) -> Running {
    let run = [
        &["run", "--report", "r"],
        flags,
        &["--", "sh", "-c", LEAVES],
    ]
    .concat();
    let running = daemon.tracker(&run).start();
    until("the command", || {
        scene.dir().join("up").exists().then_some(())
    });
    assert_eq!(sessions(daemon), 1, "the daemon tracks it");
    running
}

fn sessions(daemon: &Daemon<'_>) -> usize {
    let sessions = daemon.get("/v1/sessions")["sessions"].clone();
    sessions.as_array().map_or(0, Vec::len)
}

#[track_caller]
fn report(scene: &Scene) -> Value {
    let text = std::fs::read(scene.dir().join("r")).expect("a report");
    serde_json::from_slice(&text).expect("JSON")
}

/// Checks that the orphan was ended without the daemon, and that this is told.
#[track_caller]
fn assert_ended_alone(scene: &Scene, ended: &Ended) {
    ended.assert_code(3);
    let orphan = scene.who("orphan");
    assert!(!orphan.is_alive());
    let report = report(scene);
    assert_eq!(
        (&report["verdict"], &report["source"]),
        (&json!("complete"), &json!("procfs")),
        "{report}"
    );
    assert_eq!(report["processes"][0]["pid"], orphan.pid, "{report}");
    assert!(report["reasons"].to_string().contains("daemon"), "{report}");
}

#[test]
fn a_daemon_that_is_killed_and_stays_away_is_done_without() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene, Source::Ebpf);
    let running = start(&daemon, &scene, &[]);
    daemon.kill();
    scene.touch("go");
    assert_ended_alone(&scene, &running.finish());
}

#[test]
fn a_daemon_that_is_stopped_holds_nobody_up() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let running = start(&daemon, &scene, &["--grace", "1h"]);
    daemon.who().signal(Signal::STOP);
    // A signal is passed on without a question to the daemon.
    running.who().signal(Signal::WINCH);
    scene.touch("go");
    let ended = running.finish();
    daemon.who().signal(Signal::CONT);
    assert_ended_alone(&scene, &ended);
    // It reads then what it was asked, and ends the session.
    until("the end of the session", || {
        (sessions(&daemon) == 0).then_some(())
    });
}

#[test]
fn a_daemon_that_is_stopped_already_is_not_waited_for() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let mut scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    daemon.who().signal(Signal::STOP);
    let run = [
        "run",
        "--report",
        "r",
        "--",
        "sh",
        "-c",
        "\"$V\" double-fork; exit 3",
    ];
    daemon.tracker(&run).finish().assert_code(3);
    let report = report(&scene);
    assert_eq!(report["verdict"], "complete", "{report}");
    drop(daemon);
    scene.assert_all_dead();
}

#[test]
fn a_reap_that_the_daemon_s_death_interrupts_is_reported_by_the_next_daemon() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let script = "\"$V\" slow-handler 1500; exit 3";
    let run = [
        "run", "--report", "r", "--grace", "60s", "--", "sh", "-c", script,
    ];
    let running = daemon.tracker(&run).start();
    let reap = until("the reap", || {
        let reaps = daemon.get("/v1/reaps");
        let reap = reaps["reaps"].get(0)?;
        (reap["state"] == "running").then(|| reap["id"].clone())
    });
    let daemon = daemon.restart();
    running.finish().assert_code(3);
    assert!(!scene.who("handler").is_alive());
    let report = report(&scene);
    assert_eq!(
        (&report["verdict"], &report["source"], &report["reap_id"]),
        (&json!("complete"), &json!("ebpf"), &reap),
        "{report}"
    );
    assert_eq!(sessions(&daemon), 0);
}

#[test]
fn who_is_kept_is_kept_without_the_daemon_too() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    scene.copy(tracker_tests::victim_binary(), "kept-server", 0o755);
    let mut daemon = Daemon::start(&scene, Source::Ebpf);
    let script =
        "touch up; until [ -e go ]; do sleep .02; done; ./kept-server subreaper; \"$V\" stubborn";
    let run = [
        "run", "--keep", "kept-*", "--grace", "100ms", "--report", "r",
    ];
    let tracker = daemon.tracker(&run).args(&["--"]).sh(script);
    let running = tracker.start();
    until("the command", || {
        scene.dir().join("up").exists().then_some(())
    });
    daemon.kill();
    scene.touch("go");
    let ended = running.finish();
    assert!(scene.who("subreaper").is_alive());
    let report = report(&scene);
    let spared = report["spared"].to_string();
    assert!(
        spared.contains(&scene.who("subreaper").pid.to_string()),
        "{report}"
    );
    // While a kept process lives, snapshots cannot prove that nobody else does.
    ended.assert_code(121);
    assert_eq!(report["verdict"], "incomplete", "{report}");
}

#[test]
fn who_works_in_the_directory_is_left_alone_without_the_daemon() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let job = scene.dir().join("job");
    let stranger = Dweller::new(&scene, &job);
    let mut daemon = Daemon::start(&scene, Source::Ebpf);
    let job = job.to_str().expect("a path of ours");
    let running = start(&daemon, &scene, &["--workdir", job]);
    daemon.kill();
    scene.touch("go");
    running.finish().assert_code(3);
    assert!(!scene.who("orphan").is_alive());
    assert!(stranger.is_alive());
    let report = report(&scene);
    assert_eq!(report["verdict"], "incomplete", "{report}");
    assert!(report["reasons"].to_string().contains(job), "{report}");
}
