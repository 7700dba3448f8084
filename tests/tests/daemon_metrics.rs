//! Numbers for Prometheus, on the socket and over TCP.

use std::io::{Read, Write};
use std::net::TcpStream;

use tracker_tests::{Daemon, PATIENCE, Scene, Source};

/// Where it says that its metrics are.
#[track_caller]
fn port(daemon: &Daemon<'_>) -> u16 {
    let log = daemon.log();
    let (_, rest) = log
        .split_once("http://127.0.0.1:")
        .expect("the address in the log");
    let port = rest.split('/').next().and_then(|port| port.parse().ok());
    port.unwrap_or_else(|| panic!("no port in {log}"))
}

#[track_caller]
fn ask(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let head = format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    // Who is turned away may be hung up on before it has said all.
    let _ = stream.write_all(head.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).expect("text")
}

#[test]
fn the_metrics_and_nothing_else_are_served_over_tcp() {
    let scene = Scene::new();
    let daemon = Daemon::start_with(&scene, Source::Procfs, &["--metrics", "127.0.0.1:0"]);
    let port = port(&daemon);
    let answer = ask(port, "GET /metrics");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    for line in [
        "# TYPE tracker_sessions gauge",
        "tracker_sessions 0",
        "# EOF",
    ] {
        assert!(answer.contains(line), "{line} is missing: {answer}");
    }
    for (request, status) in [
        ("GET /", 404),
        ("GET /v1/status", 404),
        ("GET /v1/sessions", 404),
        ("POST /v1/sessions", 404),
        ("POST /metrics", 405),
        ("GET /metrics\x01", 400),
    ] {
        let answer = ask(port, request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        assert!(answer.ends_with("\"}}\n"), "{answer}");
    }
    daemon.stop();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn clients_that_take_all_places_at_the_port_disturb_nobody_at_the_socket() {
    let scene = Scene::new();
    let daemon = Daemon::start_with(&scene, Source::Procfs, &["--metrics", "127.0.0.1:0"]);
    let port = port(&daemon);
    let held: Vec<_> = (0..200)
        .map(|_| TcpStream::connect(("127.0.0.1", port)).expect("a connection"))
        .collect();
    assert_eq!(daemon.ask("GET", "/v1/status", "").status, 200);
    let answer = ask(port, "GET /metrics");
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    drop(held);
    daemon.stop();
}

#[test]
fn without_being_asked_it_listens_on_no_port() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Procfs);
    let fds = format!("/proc/{}/fd", daemon.who().pid);
    let open: Vec<String> = std::fs::read_dir(fds)
        .expect("its descriptors")
        .filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok())
        .map(|link| link.to_string_lossy().into_owned())
        .collect();
    let tcp = ["tcp", "tcp6"]
        .map(|table| std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default());
    for line in tcp.iter().flat_map(|table| table.lines()) {
        let inode = line.split_whitespace().nth(9).unwrap_or_default();
        assert!(!open.contains(&format!("socket:[{inode}]")), "{line}");
    }
}

#[test]
fn an_address_that_is_none_is_bad_usage_and_one_that_is_taken_is_named() {
    let scene = Scene::new();
    for address in [
        "",
        "9464",
        ":9464",
        "localhost",
        "127.0.0.1",
        "127.0.0.1:99999",
    ] {
        let ended = scene.tracker(&["serve", "--metrics", address]).finish();
        ended.assert_code(2);
        assert!(ended.assert_one_line().contains("like 127.0.0.1:9464"));
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let state = scene.dir().join("state");
    let state = state.to_str().expect("a path of ours");
    let arguments = ["serve", "--source", "procfs", "--metrics", &address];
    let ended = scene
        .tracker(&arguments)
        .args(&["--state-dir", state])
        .finish();
    ended.assert_code(1);
    assert!(ended.assert_one_line().contains(&address));
}
