//! Who may do what.

use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::json;
use tracker_tests::{Daemon, Ended, Need, Scene, Shell, Source, Tracker, able, copy_program};

const NOBODY: u32 = 65534;

/// As `nobody`; the standard library leaves all groups when root changes its uid.
fn as_nobody(command: &mut Command) -> &mut Command {
    command.uid(NOBODY).gid(NOBODY)
}

/// A client that runs as nobody. The program lies where nobody may not look.
fn nobody(daemon: &Daemon<'_>, scene: &Scene, arguments: &[&str]) -> Ended {
    let program = scene.dir().join("tracker");
    if !program.exists() {
        copy_program(tracker_tests::tracker_binary(), &program);
    }
    let tracker: Tracker<'_> = daemon.tracker(arguments);
    tracker
        .with(|command| {
            let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
            let mut other = scene.command(&program);
            other.args(arguments).env("TRACKER_SOCKET", daemon.socket());
            as_nobody(&mut other);
            *command = other;
        })
        .finish()
}

#[test]
fn a_user_uses_their_own_sessions_and_nothing_else() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let roots_own = Shell::new(&scene);
    let secret = daemon.open("secret", roots_own.who());
    let mut shell = Shell::from_command(as_nobody(&mut scene.command("sh")));
    let pid = shell.who().to_string();
    nobody(
        &daemon,
        &scene,
        &["session", "open", "--pid", &pid, "--name", "mine"],
    )
    .assert_code(0);
    shell.tell("(setsid sleep 600 &)");
    let sleep = scene.await_named("sleep");

    let list = nobody(&daemon, &scene, &["session", "list", "--json"]).json();
    let names: Vec<_> = list["sessions"].as_array().into_iter().flatten().collect();
    assert_eq!((names.len(), &names[0]["name"]), (1, &json!("mine")));
    let tree = nobody(&daemon, &scene, &["tree", "--json"]).json();
    let shown: Vec<_> = tree["processes"].as_array().into_iter().flatten().collect();
    assert_eq!(shown.len(), 2, "only members of their own session: {tree}");

    for target in [secret.as_str(), "secret"] {
        nobody(&daemon, &scene, &["session", "close", target]).assert_code(1);
        nobody(&daemon, &scene, &["tree", target]).assert_code(1);
        nobody(&daemon, &scene, &["events", "--session", target]).assert_code(1);
        nobody(&daemon, &scene, &["reap", "--session", target]).assert_code(1);
    }
    let other = roots_own.who().to_string();
    nobody(&daemon, &scene, &["session", "open", "--pid", &other]).assert_code(5);
    nobody(&daemon, &scene, &["reap", "--pid", &other]).assert_code(5);
    nobody(&daemon, &scene, &["why", &other]).assert_code(1);
    nobody(&daemon, &scene, &["keep", &other]).assert_code(1);
    assert!(roots_own.who().is_alive());

    nobody(&daemon, &scene, &["session", "close", "mine"]).assert_code(0);
    assert!(!sleep.is_alive() && !shell.who().is_alive());
    assert!(roots_own.who().is_alive());
}

#[test]
fn what_runs_as_root_below_a_users_session_is_reported_and_lives() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    // Root at first, so that it can leave something of root's behind.
    let mut shell = Shell::new(&scene);
    shell.tell("cp /bin/sleep ./of-root; cp /bin/sleep ./of-user; chmod 755 of-*");
    shell.tell("setsid ./of-root 600 & exec setpriv --reuid=65534 --regid=65534 --clear-groups sh");
    let root = scene.await_named("of-root");
    tracker_tests::until("the shell to be nobody's", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", shell.who().pid)).ok()?;
        status
            .contains("Uid:\t65534\t65534\t65534\t65534")
            .then_some(())
    });
    let pid = shell.who().to_string();
    nobody(
        &daemon,
        &scene,
        &["session", "open", "--pid", &pid, "--name", "mixed"],
    )
    .assert_code(0);
    shell.tell("setsid ./of-user 600 &");
    let user = scene.await_named("of-user");
    let ended = nobody(
        &daemon,
        &scene,
        &["session", "close", "mixed", "--json", "--grace", "0"],
    );
    let report = ended.assert_code(3).printed_report();
    assert_eq!(report.spared_entry(root).reason(), "permission_denied");
    assert!(root.is_alive() && !user.is_alive());
    // Root may.
    daemon
        .tracker(&["session", "close", "mixed"])
        .finish()
        .assert_code(0);
    assert!(!root.is_alive());
}

#[test]
fn nobody_gets_out_of_a_session_of_root_by_opening_one_inside() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let shell = Shell::from_command(as_nobody(&mut scene.command("sh")));
    daemon.open("of-root", shell.who());
    let pid = shell.who().to_string();
    let arguments = ["session", "open", "--pid", &pid, "--keep", "*"];
    nobody(&daemon, &scene, &arguments).assert_code(5);
    nobody(&daemon, &scene, &["keep", &pid]).assert_code(1);
    let report = daemon.post("/v1/sessions/of-root/close", &json!({}));
    assert_eq!(report["verdict"], "complete", "{report}");
    assert!(!shell.who().is_alive());
}
