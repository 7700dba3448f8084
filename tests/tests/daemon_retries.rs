//! Reaps of directories that do not succeed at once: recorded before anybody is
//! signalled, and tried again until nobody is left.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use tracker_tests::{Cgroup, Daemon, Dweller, Need, Running, Scene, Source, able, until};

fn text(path: &Path) -> &str {
    path.to_str().expect("a name in UTF-8")
}

/// Somebody in a directory who ignores SIGTERM, and says when it got one.
fn stubborn(scene: &Scene, dir: &Path) -> Dweller {
    fs::create_dir_all(dir).expect("a directory");
    // Nobody ever writes to it.
    let script = "trap ': >\"$DIR/termed\"' TERM; mkfifo \"$DIR/silence\"; \
                  exec 3<>\"$DIR/silence\"; : >\"$DIR/ready\"; while :; do read -r line <&3; done";
    let mut command = scene.command("sh");
    let dweller = Dweller::from_command(command.args(["-c", script]).current_dir(dir));
    until("the trap", || {
        scene.dir().join("ready").exists().then_some(())
    });
    dweller
}

fn only_reap(daemon: &Daemon<'_>) -> Value {
    let list = daemon.get("/v1/reaps");
    let reaps = list["reaps"].as_array().expect("a list");
    assert_eq!(reaps.len(), 1, "{list}");
    let id = reaps[0]["id"].as_str().expect("an id");
    daemon.get(&format!("/v1/reaps/{id}"))
}

#[track_caller]
fn await_state(daemon: &Daemon<'_>, state: &str) -> Value {
    until(&format!("a reap that is {state}"), || {
        let reap = only_reap(daemon);
        (reap["state"] == state).then_some(reap)
    })
}

/// A reap of a removed directory that is in its grace: who is inside has got
/// SIGTERM, and waits for SIGKILL.
fn reap_midway(daemon: &Daemon<'_>, scene: &Scene, grace: &str) -> (Dweller, Running) {
    let job = scene.dir().join("job");
    let inside = stubborn(scene, &job);
    fs::remove_dir_all(&job).expect("to remove it");
    let arguments = ["reap", "--json", "--grace", grace, "--dir", text(&job)];
    let client = daemon.tracker(&arguments).start();
    until("SIGTERM", || {
        scene.dir().join("termed").exists().then_some(())
    });
    (inside, client)
}

#[test]
fn a_client_that_goes_away_takes_nothing_with_it() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let (inside, client) = reap_midway(&daemon, &scene, "2s");
    client.who().signal(Signal::KILL);
    client.finish();
    let reap = await_state(&daemon, "done");
    assert_eq!(reap["report"]["verdict"], "complete", "{reap}");
    assert!(!inside.is_alive());
}

#[test]
fn a_daemon_that_is_killed_in_between_is_followed_by_one_that_goes_on() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene, Source::Ebpf);
    let (inside, client) = reap_midway(&daemon, &scene, "3s");
    daemon.kill();
    client.finish().assert_code(1);
    assert!(inside.is_alive());
    let daemon = daemon.restart();
    let reap = await_state(&daemon, "done");
    assert_eq!(
        (&reap["attempts"], &reap["directory"]),
        (&json!(2), &json!(text(&scene.dir().join("job"))))
    );
    assert_eq!(reap["report"]["verdict"], "complete", "{reap}");
    assert!(!inside.is_alive());
}

#[test]
fn a_daemon_that_is_to_end_sends_no_signal_any_more_and_the_next_goes_on() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let (inside, client) = reap_midway(&daemon, &scene, "3s");
    daemon.who().signal(Signal::TERM);
    client.finish().assert_code(1);
    until("its end", || (!daemon.who().is_alive()).then_some(()));
    // Nobody is there who could send SIGKILL now.
    assert!(inside.is_alive());
    let daemon = daemon.restart();
    await_state(&daemon, "done");
    assert!(!inside.is_alive());
}

#[test]
fn an_attempt_that_is_cancelled_is_made_again() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let (inside, client) = reap_midway(&daemon, &scene, "4s");
    let id = only_reap(&daemon)["id"].clone();
    let id = id.as_str().expect("an id");
    daemon.post(&format!("/v1/reaps/{id}/cancel"), &json!({}));
    let report = client.finish().printed_report();
    assert_eq!(report.entry(inside.who()).signals(), ["TERM"], "{report}");
    assert_ne!(report.verdict(), "complete");
    let reap = await_state(&daemon, "done");
    assert_eq!(reap["attempts"], 2, "{reap}");
    assert_eq!(reap["report"]["counts"]["killed"], 1, "{reap}");
    assert!(!inside.is_alive());
}

/// Of this hierarchy a frozen process does not even get SIGKILL.
fn frozen(inside: &Dweller) -> Cgroup {
    let cgroup = Cgroup::new("freezer");
    cgroup.write("cgroup.procs", &inside.who().pid.to_string());
    cgroup.write("freezer.state", "FROZEN");
    cgroup.await_content("freezer.state", "FROZEN");
    cgroup
}

#[test]
fn who_cannot_be_ended_now_is_ended_later() {
    if !able(&[Need::Ebpf, Need::Root, Need::Cgroup("freezer")]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let job = scene.dir().join("job");
    let inside = Dweller::new(&scene, &job);
    let cgroup = frozen(&inside);
    fs::remove_dir_all(&job).expect("to remove it");
    let arguments = ["reap", "--json", "--grace", "0", "--dir", text(&job)];
    let ended = daemon.tracker(&arguments).finish();
    assert_eq!(ended.assert_code(3).printed_report().count("survived"), 1);
    let reap = only_reap(&daemon);
    assert!(
        ["waiting", "running"].contains(&reap["state"].as_str().unwrap_or_default()),
        "{reap}"
    );
    // Who asks again does not make another one of it.
    daemon.tracker(&arguments).finish().assert_code(3);
    let listed = daemon.tracker(&["reaps"]).finish();
    assert!(listed.stdout.contains(text(&job)), "{}", listed.stdout);
    only_reap(&daemon);
    cgroup.write("freezer.state", "THAWED");
    let reap = await_state(&daemon, "done");
    assert!(reap["attempts"].as_u64() >= Some(2), "{reap}");
    assert_eq!(reap["report"]["counts"]["killed"], 1, "{reap}");
    assert!(!inside.is_alive());
}

#[test]
fn a_session_whose_end_is_cancelled_stays_as_it_is() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let member = stubborn(&scene, &scene.dir().join("job"));
    daemon.open("job", member.who());
    let client = daemon
        .tracker(&["session", "close", "job", "--json", "--grace", "60s"])
        .start();
    until("SIGTERM", || {
        scene.dir().join("termed").exists().then_some(())
    });
    let id = only_reap(&daemon)["id"].clone();
    let id = id.as_str().expect("an id");
    daemon.post(&format!("/v1/reaps/{id}/cancel"), &json!({}));
    let report = client.finish().printed_report();
    assert_ne!(report.verdict(), "complete", "{report}");
    assert_eq!(await_state(&daemon, "done")["attempts"], 1);
    assert_eq!(daemon.get("/v1/sessions/job")["state"], "open");
    assert!(member.is_alive());
}

#[test]
fn a_reap_that_is_given_up_sends_no_signal_any_more() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let (inside, client) = reap_midway(&daemon, &scene, "2s");
    give_up(&daemon);
    client.finish();
    let reap = await_state(&daemon, "done");
    assert_eq!(reap["report"]["counts"]["survived"], 1, "{reap}");
    assert_eq!(daemon.get("/v1/status")["reaps_waiting"], 0);
    assert!(inside.is_alive());
}

fn give_up(daemon: &Daemon<'_>) {
    let id = only_reap(daemon)["id"].clone();
    let id = id.as_str().expect("an id");
    daemon
        .tracker(&["reaps", id, "--cancel"])
        .finish()
        .assert_code(0);
}

#[test]
fn what_waits_can_be_given_up() {
    if !able(&[Need::Ebpf, Need::Root, Need::Cgroup("freezer")]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let job = scene.dir().join("job");
    let inside = Dweller::new(&scene, &job);
    let cgroup = frozen(&inside);
    fs::remove_dir_all(&job).expect("to remove it");
    let arguments = ["reap", "--grace", "0", "--dir", text(&job)];
    daemon.tracker(&arguments).finish().assert_code(3);
    give_up(&daemon);
    let reap = until("its end", || {
        let reap = only_reap(&daemon);
        reap["due_ms"]
            .is_null()
            .then_some(reap)
            .filter(|reap| reap["state"] != "running")
    });
    assert_eq!(reap["report"]["counts"]["survived"], 1, "{reap}");
    assert_eq!(daemon.get("/v1/status")["reaps_waiting"], 0);
    cgroup.write("freezer.state", "THAWED");
}

#[test]
fn a_session_that_leaves_somebody_alive_is_closed_later_by_the_next_daemon() {
    if !able(&[Need::Ebpf, Need::Root, Need::Cgroup("freezer")]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let member = Dweller::new(&scene, &scene.dir().join("job"));
    daemon.open("job", member.who());
    let cgroup = frozen(&member);
    daemon
        .tracker(&["session", "close", "job", "--grace", "0"])
        .finish()
        .assert_code(3);
    assert_eq!(daemon.get("/v1/sessions/job")["state"], "closing");
    let daemon = daemon.restart();
    cgroup.write("freezer.state", "THAWED");
    await_state(&daemon, "done");
    assert_eq!(daemon.get("/v1/sessions")["sessions"], json!([]));
    assert!(!member.is_alive());
}

/// A small file system for the daemon's state.
struct SmallDisk<'a>(&'a Path);

impl SmallDisk<'_> {
    fn mount(dir: &Path) -> SmallDisk<'_> {
        fs::create_dir(dir).expect("a directory");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m,mode=700", "none"])
            .arg(dir)
            .status();
        assert!(mount.expect("mount runs").success());
        SmallDisk(dir)
    }

    fn fill(&self) {
        let mut file = File::create(self.0.join("filler")).expect("a file");
        for size in [4096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn nobody_is_signalled_when_it_cannot_be_recorded() {
    if !able(&[Need::Ebpf, Need::Root]) {
        return;
    }
    let scene = Scene::new();
    let state = scene.dir().join("state");
    let disk = SmallDisk::mount(&state);
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let inside = Dweller::new(&scene, &scene.dir().join("job"));
    daemon.open("job", inside.who());
    disk.fill();
    let path = scene.dir().join("job");
    let directory = json!({"target": {"kind": "directory", "live": true, "path": text(&path)}});
    for (path, body) in [
        ("/v1/reaps", directory),
        ("/v1/sessions/job/close", json!({})),
    ] {
        let answer = daemon.ask("POST", path, &body.to_string());
        assert_eq!(answer.status, 500, "{}", answer.body);
        let message = answer.body["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("state.db"), "{message}");
    }
    assert!(inside.is_alive());
    // With room again, all goes on.
    fs::remove_file(state.join("filler")).expect("to remove it");
    daemon.post("/v1/sessions/job/close", &json!({"grace_ms": 20_000}));
    assert!(!inside.is_alive());
}

/// A request to reap, of which the answer is still to come.
fn send(daemon: &Daemon<'_>, body: &Value) -> UnixStream {
    let mut stream = UnixStream::connect(daemon.socket()).expect("a daemon");
    let body = body.to_string();
    let head = format!(
        "POST /v1/reaps HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream
        .write_all((head + &body).as_bytes())
        .expect("a request");
    stream
}

#[test]
fn no_directory_is_forgotten_at_whatever_moment_the_daemon_is_killed() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene, Source::Ebpf);
    let outside = Dweller::new(&scene, &scene.dir().join("job"));
    for (round, micros) in [0, 300, 1000, 3000, 6000, 10_000, 20_000, 50_000]
        .into_iter()
        .enumerate()
    {
        let job = scene.dir().join(format!("job-{round}"));
        let inside: Vec<_> = (0..8).map(|_| Dweller::new(&scene, &job)).collect();
        fs::remove_dir_all(&job).expect("to remove it");
        let body = json!({"grace_ms": 1000,
            "target": {"kind": "directory", "path": text(&job)}});
        let mut client = send(&daemon, &body);
        std::thread::sleep(std::time::Duration::from_micros(micros));
        daemon.kill();
        let mut answer = String::new();
        let _ = client.read_to_string(&mut answer);
        let answered = answer.starts_with("HTTP/1.1 200");
        daemon = daemon.restart();
        let list = daemon.get("/v1/reaps");
        let reaps = list["reaps"].as_array().expect("a list");
        let recorded = reaps.iter().any(|reap| reap["directory"] == text(&job));
        assert!(recorded || !answered, "it was answered for: {list}");
        if !recorded {
            // Then nobody was signalled either.
            assert!(inside.iter().all(Dweller::is_alive), "after {micros} us");
            continue;
        }
        until("the end of those inside", || {
            inside.iter().all(|one| !one.is_alive()).then_some(())
        });
    }
    assert!(outside.is_alive());
}

#[test]
fn while_the_daemon_is_down_nobody_is_ended_whose_session_is_not_known() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene, Source::Ebpf);
    let job = scene.dir().join("job");
    let inside = Dweller::new(&scene, &job);
    daemon.open("other", inside.who());
    daemon.kill();
    let pid = inside.who().to_string();
    for target in [["--dir", text(&job)], ["--pid", &pid]] {
        let ended = daemon
            .tracker(&["reap", "--grace", "0"])
            .args(&target)
            .args(if target[0] == "--dir" {
                &["--live"]
            } else {
                &[]
            })
            .finish();
        let line = ended.assert_code(5).assert_one_line();
        assert!(line.contains("--standalone"), "{line}");
    }
    assert!(inside.is_alive());
}
