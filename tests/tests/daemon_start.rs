//! How daemons begin and end.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use tracker_tests::{Daemon, Need, Scene, Source, able, until};

/// The command line of a daemon on the scene, with its standard error in a file.
fn serve(scene: &Scene, log: &str) -> Command {
    let mut command = Command::new("sh");
    let log = std::fs::File::create(scene.dir().join(log)).expect("a log file");
    command
        // The mode of the socket must not depend on it.
        .args(["-c", "umask 0; exec \"$@\"", "sh"])
        .arg(tracker_tests::tracker_binary())
        .args(["serve", "--source", "procfs", "--socket"])
        .arg(scene.dir().join("d.sock"))
        .arg("--state-dir")
        .arg(scene.dir().join("state"))
        .stdin(Stdio::null())
        .stderr(log);
    command
}

#[test]
fn of_two_daemons_one_wins_and_nobody_is_refused() {
    if !able(&[
        Need::Root,
        Need::Program("setpriv"),
        Need::Program("python3"),
    ]) {
        return;
    }
    let scene = Scene::new();
    let mut first = Daemon::start(&scene, Source::Procfs);
    first.kill();
    let socket = first.socket();
    assert!(socket.exists(), "kill -9 leaves a stale socket");
    let mut daemons: Vec<_> = ["one", "two"]
        .map(|log| serve(&scene, log).spawn().expect("a daemon"))
        .into();
    let loser = until("the end of the one that loses", || {
        daemons
            .iter_mut()
            .position(|daemon| daemon.try_wait().expect("a child").is_some())
    });
    let log = if loser == 0 { "one" } else { "two" };
    let said = std::fs::read_to_string(scene.dir().join(log)).expect("its log");
    let status = daemons.remove(loser).wait().expect("a child");
    assert_eq!(status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("another tracker daemon serves"), "{said}");
    let mut winner = daemons.remove(0);
    until("an answer", || first.is_answering().then_some(()));
    let mode = std::fs::metadata(&socket)
        .expect("the socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o666);
    let ask = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); \
               s.sendall(b'GET /v1/sessions HTTP/1.0\\r\\n\\r\\n'); \
               sys.exit(b' 200 ' not in s.recv(99))";
    let status = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(["/usr/bin/python3", "-c", ask])
        .arg(&socket)
        .status()
        .expect("setpriv");
    assert!(status.success(), "nobody is refused");
    let _ = winner.kill();
    let _ = winner.wait();
}

#[test]
fn a_daemon_that_ends_takes_its_socket_with_it_and_leaves_its_state_readable() {
    if !able(&[Need::Root]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Procfs);
    let socket = daemon.socket();
    daemon.stop();
    assert!(!socket.exists());
    let state = scene.dir().join("state");
    let mode = std::fs::metadata(&state)
        .expect("the state")
        .permissions()
        .mode();
    assert_eq!(
        mode & 0o777,
        0o700,
        "what runs on this host is nobody else's business"
    );
    Daemon::start(&scene, Source::Procfs).stop();
}

#[test]
fn state_that_cannot_be_read_stops_the_daemon_with_one_line() {
    if !able(&[Need::Root]) {
        return;
    }
    let scene = Scene::new();
    let state = scene.dir().join("state");
    std::fs::create_dir(&state).expect("a directory");
    std::fs::write(state.join("state.db"), vec![b'x'; 10_000]).expect("a file");
    let status = serve(&scene, "log").status().expect("a daemon");
    let said = std::fs::read_to_string(scene.dir().join("log")).expect("its log");
    assert_eq!(
        (status.code(), said.lines().count()),
        (Some(1), 1),
        "{said}"
    );
    assert!(
        said.contains("state.db") && said.contains("move it away"),
        "{said}"
    );
}

#[test]
fn a_client_without_a_daemon_is_told_how_to_start_one() {
    let scene = Scene::new();
    let ended = scene.tracker(&["session", "list"]).finish();
    ended.assert_code(1);
    let line = ended.assert_one_line();
    assert!(
        line.contains("no.sock") && line.contains("tracker serve"),
        "{line}"
    );
}

#[test]
fn a_socket_that_was_passed_is_used_and_left_alone() {
    if !able(&[Need::Root, Need::Program("python3")]) {
        return;
    }
    let scene = Scene::new();
    let socket = scene.dir().join("d.sock");
    // What systemd does: bind, listen, hand over as descriptor 3.
    let activate = "import os, socket, sys\n\
        s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(8)\n\
        os.dup2(s.fileno(), 3); os.set_inheritable(3, True)\n\
        os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))\n\
        os.execv(sys.argv[2], sys.argv[2:])";
    let mut daemon = Command::new("python3")
        .args(["-c", activate])
        .arg(&socket)
        .arg(tracker_tests::tracker_binary())
        .args(["serve", "--source", "procfs", "--state-dir"])
        .arg(scene.dir().join("state"))
        .env("TRACKER_SOCKET", scene.dir().join("unused.sock"))
        .spawn()
        .expect("python3");
    until("an answer", || {
        let ended = scene
            .tracker(&["status"])
            .with(|command| {
                command.env("TRACKER_SOCKET", &socket);
            })
            .finish();
        ended.status.success().then_some(())
    });
    assert!(!scene.dir().join("unused.sock").exists());
    tracker_tests::Who::with_pid(daemon.id()).signal(rustix::process::Signal::TERM);
    assert!(daemon.wait().expect("a child").success());
    assert!(socket.exists(), "it belongs to whoever made it");
}
