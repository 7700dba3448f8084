//! Sessions of a daemon: what they own, and what their end leaves alone.

use serde_json::json;
use tracker_tests::{Canary, Daemon, Need, Scene, Shell, Source, able, copy_program, until};

/// Programs of their own, so that they can be told apart.
fn install(scene: &Scene, names: &[&str]) {
    for name in names {
        copy_program("/bin/sleep".as_ref(), &scene.dir().join(name));
    }
}

#[test]
fn whatever_a_shell_detached_is_gone_and_its_directory_stays_gone() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let canary = Canary::new();
    for round in 0..20 {
        let tree = scene.dir().join(format!("tree-{round}"));
        std::fs::create_dir(&tree).expect("a directory");
        let mut shell = Shell::from_command(scene.command("sh").current_dir(&tree));
        let id = daemon.open("job", shell.who());
        let writer = "sh -c \"while :; do mkdir -p t; : >t/\\$\\$; done\"";
        shell.tell(&format!(
            "{writer} & nohup {writer} >/dev/null 2>&1 & (setsid sh -c '{writer} & {writer}' &)"
        ));
        until("writers", || tree.join("t").exists().then_some(()));
        shell.dismiss();
        daemon
            .tracker(&["session", "close", "job", "--grace", "3s"])
            .finish()
            .assert_code(0);
        std::fs::remove_dir_all(&tree).expect("nobody writes into it any more");
        assert_eq!(
            daemon.ask("GET", &format!("/v1/sessions/{id}"), "").status,
            404
        );
    }
    canary.assert_lives();
    daemon.stop();
}

#[test]
fn only_what_is_not_kept_goes_and_another_session_keeps_its_own() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    install(&scene, &["server", "worker"]);
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let mut first = Shell::new(&scene);
    let mut second = Shell::new(&scene);
    let request = json!({"name": "first", "pid": first.who().to_string(), "keep": ["server"]});
    daemon.post("/v1/sessions", &request);
    daemon.open("second", second.who());
    first.tell("(setsid ./server 600 &); (setsid ./worker 601 &)");
    let server = scene.await_named("server");
    let worker = scene.await_named("worker");
    second.tell("(setsid sh -c 'echo $$ >two; exec ./worker 602' &)");
    let other = until("the second session's worker", || {
        let workers = scene
            .alive()
            .into_iter()
            .filter(|stat| stat.comm == b"worker");
        workers.map(|stat| stat.who).find(|who| *who != worker)
    });
    let report = daemon.post("/v1/sessions/first/close", &json!({"grace_ms": 3000}));
    assert_eq!(report["verdict"], "complete", "{report}");
    assert!(!worker.is_alive());
    assert!(server.is_alive() && other.is_alive());
    assert_eq!(report["spared"][0]["pid"], server.pid, "{report}");
    assert_eq!(report["spared"][0]["reason"], "kept", "{report}");
    let report = daemon.post("/v1/sessions/second/close", &json!({"grace_ms": 3000}));
    assert_eq!(report["verdict"], "complete", "{report}");
    assert!(!other.is_alive() && server.is_alive());
}

#[test]
fn an_environment_that_is_empty_or_forged_changes_no_owner() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    install(&scene, &["bare", "forged"]);
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let mut shell = Shell::new(&scene);
    let other = Shell::new(&scene);
    daemon.open("first", shell.who());
    let second = daemon.open("second", other.who());
    shell.tell(&format!(
        "env -i setsid ./bare 600 & TRACKER_SESSION={second} setsid ./forged 600 &"
    ));
    let bare = scene.await_named("bare");
    let forged = scene.await_named("forged");
    let report = daemon.post("/v1/sessions/second/close", &json!({}));
    assert_eq!(report["verdict"], "complete", "{report}");
    assert!(bare.is_alive() && forged.is_alive());
    let why = daemon.get(&format!("/v1/processes/{bare}/why"));
    assert_eq!(why["sessions"][0]["name"], "first", "{why}");
    assert_eq!(why["verdict"]["would"], "end", "{why}");
    let report = daemon.post("/v1/sessions/first/close", &json!({}));
    assert_eq!(report["verdict"], "complete", "{report}");
    assert!(!bare.is_alive() && !forged.is_alive());
}

#[test]
fn a_close_from_the_same_process_group_ends_what_is_below_a_privileged_program() {
    if !able(&[Need::Ebpf, Need::Program("su")]) {
        return;
    }
    let scene = Scene::new();
    install(&scene, &["below"]);
    let daemon = Daemon::start(&scene, Source::Ebpf);
    // A shell without job control: all of this is one process group. `su`
    // passes on no signal that comes from its own group, as `sudo` does not.
    let script = "su -s /bin/sh -c \"exec $DIR/below 600\" root & \
                  \"$TRACKER\" session open --pid $! --name privileged >id && \
                  while ! [ -e started ]; do sleep .01; done; \
                  \"$TRACKER\" session close privileged --grace 3s";
    let mut command = scene.command("sh");
    command
        .args(["-c", script])
        .env("TRACKER", tracker_tests::tracker_binary())
        .env("TRACKER_SOCKET", daemon.socket());
    let mut child = command.spawn().expect("a shell");
    let below = scene.await_named("below");
    scene.touch("started");
    let status = child.wait().expect("a child");
    assert!(status.success(), "{status:?}\n{}", daemon.log());
    assert!(!below.is_alive());
}

#[test]
fn a_tree_that_was_running_is_adopted_with_those_who_had_left_it() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    install(&scene, &["stray", "child"]);
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let mut shell = Shell::new(&scene);
    shell.tell("(setsid ./stray 600 &); ./child 600 &");
    let stray = scene.await_named("stray");
    let child = scene.await_named("child");
    daemon.open("late", shell.who());
    let report = daemon.post("/v1/sessions/late/close", &json!({}));
    assert_eq!(
        report["verdict"], "complete",
        "the daemon saw all of it: {report}"
    );
    assert!(!stray.is_alive() && !child.is_alive());
}

#[test]
fn of_a_process_that_is_older_than_the_daemon_nothing_is_proven() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    install(&scene, &["child"]);
    let mut shell = Shell::new(&scene);
    let daemon = Daemon::start(&scene, Source::Ebpf);
    shell.tell("./child 600 &");
    let child = scene.await_named("child");
    daemon.open("old", shell.who());
    let ended = daemon.tracker(&["session", "close", "old"]).finish();
    ended.assert_code(4);
    assert!(!child.is_alive());
}

#[test]
fn a_session_inside_another_goes_with_it_and_what_it_spares_falls_to_it() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    install(&scene, &["inner", "later"]);
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let mut outer = Shell::new(&scene);
    daemon.open("outer", outer.who());
    outer.tell("sh -c 'echo $$ >pid; while ! [ -e go ]; do sleep .01; done; exec ./inner 600' &");
    let pid = until("the inner root", || {
        let text = std::fs::read_to_string(scene.dir().join("pid")).ok()?;
        text.ends_with('\n').then(|| text.trim().to_owned())
    });
    let request = json!({"name": "inside", "pid": pid});
    let session = daemon.post("/v1/sessions", &request);
    let around = daemon.get("/v1/sessions/outer");
    assert_eq!(session["parent"], around["id"], "{session}");
    scene.touch("go");
    let inner = scene.await_named("inner");
    // A reap that spares the root leaves it to the session; its end to the one around.
    let reap = json!({"target": {"kind": "session", "session": "inside"}, "exclude_root": true});
    let report = daemon.post("/v1/reaps", &reap);
    assert_eq!(report["spared"][0]["pid"], inner.pid, "{report}");
    assert!(inner.is_alive());
    let report = daemon.post("/v1/sessions/outer/close", &json!({}));
    assert_eq!(report["verdict"], "complete", "{report}");
    assert!(!inner.is_alive());
    assert_eq!(daemon.get("/v1/sessions")["sessions"], json!([]));
}
