//! A daemon among clients that mean no good.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use serde_json::json;
use tracker_tests::{Daemon, Need, Scene, Shell, Source, able};

/// Resident memory in kB.
fn rss(daemon: &Daemon<'_>) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.who().pid));
    let status = status.expect("the daemon lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok())
        .expect("VmRSS")
}

/// One round of everything that makes no sense.
fn torment(daemon: &Daemon<'_>) {
    let big = "x".repeat(10 << 20);
    assert_eq!(daemon.ask("POST", "/v1/sessions", &big).status, 413);
    for body in [
        "{",
        "[1]",
        "{\"pid\":true}",
        "{\"pid\":1,\"x\":2}",
        "{\"pid\":-1}",
    ] {
        let answer = daemon.ask("POST", "/v1/sessions", body);
        assert_eq!(answer.status, 400, "{body}: {}", answer.body);
        let message = answer.body["error"]["message"].as_str().expect("a message");
        assert_eq!(message.lines().count(), 1);
    }
    assert_eq!(daemon.ask("GET", "/v1/sessions/none", "").status, 404);
    assert_eq!(daemon.ask("\u{1}\u{2}", "/", "").status, 400);
    let mut held = Vec::new();
    for at in 0..1000 {
        let mut stream = UnixStream::connect(daemon.socket()).expect("a connection");
        // Silent ones, and ones that stop in the middle.
        if at % 2 == 0 {
            stream
                .write_all(b"POST /v1/sessions HTTP/1.1\r\ncontent-le")
                .expect("a write");
        }
        held.push(stream);
    }
    // Asks for everything, and does not read it.
    let mut deaf = UnixStream::connect(daemon.socket()).expect("a connection");
    deaf.write_all(&b"GET /v1/tree?all=true HTTP/1.1\r\n\r\n".repeat(100))
        .expect("a write");
    assert_eq!(daemon.ask("GET", "/v1/status", "").status, 200);
    drop(held);
    let mut some = [0; 16];
    deaf.read_exact(&mut some)
        .expect("the beginning of an answer");
}

#[test]
fn bad_requests_and_a_thousand_connections_leave_no_trace() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let shell = Shell::new(&scene);
    daemon.open("good", shell.who());
    for _ in 0..3 {
        torment(&daemon);
    }
    let before = rss(&daemon);
    for _ in 0..5 {
        torment(&daemon);
    }
    let after = rss(&daemon);
    assert!(
        after < before + 8192,
        "it grew from {before} kB to {after} kB"
    );
    let report = daemon.post("/v1/sessions/good/close", &json!({}));
    assert_eq!(report["verdict"], "complete", "{report}");
    daemon.stop();
}

#[test]
fn events_are_told_as_they_happen_and_a_slow_reader_is_told_what_it_missed() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let mut shell = Shell::new(&scene);
    let id = daemon.open("job", shell.who());
    let mut stream = UnixStream::connect(daemon.socket()).expect("a connection");
    let request = format!("GET /v1/events?session={id} HTTP/1.1\r\nhost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a write");
    let mut text = String::new();
    let mut read_until = |stream: &mut UnixStream, what: &str| {
        let mut piece = vec![0; 65536];
        while !text.contains(what) {
            let count = stream.read(&mut piece).expect("events");
            assert!(count > 0, "the stream ended");
            text.push_str(&String::from_utf8_lossy(&piece[..count]));
        }
        std::mem::take(&mut text)
    };
    read_until(&mut stream, "text/event-stream");
    shell.tell("sh -c 'exit 7'");
    let told = read_until(&mut stream, "\"code\":7");
    for event in ["event: fork", "event: exec", "event: exit"] {
        assert!(told.contains(event), "{told}");
    }
    // Twelve thousand events that nobody reads do not fit in the backlog.
    shell.tell("$V forks 8000");
    scene.await_cast("left", 1);
    read_until(&mut stream, "event: missed");
}
