//! The transport against clients that make no sense or mean no good.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use super::listen::Listener;
use super::{connection, routes};
use crate::process::Proc;
use crate::service::testing::service;

/// A daemon of this process.
struct Running {
    _dir: tempfile::TempDir,
    socket: PathBuf,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start() -> Running {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s.sock");
        let listener = Listener::bind(&socket).unwrap();
        let service = service(dir.path());
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let router = routes::router(Arc::clone(&service));
                let proc = Proc::open().unwrap();
                let stop = async { stopped.await.unwrap() };
                connection::accept(listener.to_tokio().unwrap(), router, &proc, None, stop).await;
            });
            service.shut_down();
        });
        Running {
            _dir: dir,
            socket,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream
    }

    fn bytes(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        // The daemon may refuse the rest before it was sent.
        let _ = stream.write_all(request);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }

    fn raw(&self, request: &[u8]) -> (u16, Value) {
        parse(&self.bytes(request))
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        self.raw(
            format!(
                "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            )
            .as_bytes(),
        )
    }

    #[track_caller]
    fn refuses(&self, method: &str, path: &str, body: &str, status: u16, code: &str) {
        let (got, answer) = self.ask(method, path, body);
        assert_eq!(
            (got, &answer["error"]["code"]),
            (status, &json!(code)),
            "{answer}"
        );
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(
            !message.is_empty() && !message.contains('\n'),
            "{message:?}"
        );
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            assert!(matches!(ended, Some(Ok(()))), "the daemon panicked");
        }
    }
}

#[track_caller]
fn parse(answer: &[u8]) -> (u16, Value) {
    let text = String::from_utf8_lossy(answer);
    let status = text
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let body = serde_json::from_str(body).unwrap_or(Value::Null);
    (
        status.unwrap_or_else(|| panic!("no answer: {text:?}")),
        body,
    )
}

struct Sleep(Child);

impl Sleep {
    fn new() -> Sleep {
        Sleep(Command::new("sleep").arg("600").spawn().unwrap())
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_session_is_opened_shown_reaped_and_gone() {
    let daemon = Running::start();
    let mut sleep = Sleep::new();
    let body = json!({"name": "a b", "pid": sleep.0.id()}).to_string();
    let (status, session) = daemon.ask("POST", "/v1/sessions", &body);
    assert_eq!(
        (status, &session["name"]),
        (200, &json!("a b")),
        "{session}"
    );
    let id = session["id"].as_str().unwrap();
    assert_eq!(
        daemon.ask("GET", "/v1/sessions/a%20b", "").1["id"],
        json!(id)
    );
    assert_eq!(
        daemon.ask("GET", "/v1/sessions", "").1["sessions"][0]["id"],
        json!(id)
    );
    let tree = daemon.ask("GET", &format!("/v1/tree?session={id}"), "").1;
    assert_eq!(tree["processes"][0]["pid"], json!(sleep.0.id()), "{tree}");
    let dry = daemon
        .ask(
            "POST",
            &format!("/v1/sessions/{id}/close"),
            r#"{"dry_run":true}"#,
        )
        .1;
    assert_eq!(dry["counts"]["skipped"], json!(1), "{dry}");
    assert!(sleep.0.try_wait().unwrap().is_none());
    let (status, report) = daemon.ask("POST", &format!("/v1/sessions/{id}/close"), "");
    assert_eq!(
        (status, &report["verdict"]),
        (200, &json!("complete")),
        "{report}"
    );
    sleep.0.wait().unwrap();
    daemon.refuses("GET", &format!("/v1/sessions/{id}"), "", 404, "not_found");
    let reaps = daemon.ask("GET", "/v1/reaps", "").1;
    assert_eq!(
        reaps["reaps"].as_array().unwrap().len(),
        1,
        "a dry run is no history: {reaps}"
    );
    let reap = reaps["reaps"][0]["id"].as_str().unwrap();
    assert_eq!(
        daemon.ask("GET", &format!("/v1/reaps/{reap}"), "").1["report"],
        report
    );
}

#[test]
fn what_makes_no_sense_gets_one_line_of_json() {
    let daemon = Running::start();
    for (body, why) in [
        ("{", "cut"),
        ("[]", "a list"),
        ("{}", "no pid"),
        (r#"{"pid":0}"#, "zero"),
        (r#"{"pid":-1}"#, "negative"),
        (r#"{"pid":2147483648}"#, "too large"),
        (r#"{"pid":"1; rm -rf /"}"#, "no number"),
        (r#"{"pid":"self","name":""}"#, "no name"),
        (
            r#"{"pid":"self","name":"00000000000a"}"#,
            "a name like an id",
        ),
        (r#"{"pid":"self","keep":["["]}"#, "no pattern"),
        (r#"{"pid":"self","grace":1}"#, "an unknown field"),
        ("{\"pid\":\"self\",\"na\\nme\":1}", "a line feed in a field"),
    ] {
        eprintln!("{why}");
        daemon.refuses("POST", "/v1/sessions", body, 400, "bad_request");
    }
    let own = format!(r#"{{"pid":{}}}"#, std::process::id());
    for never in [r#"{"pid":1}"#, &own] {
        daemon.refuses("POST", "/v1/sessions", never, 403, "forbidden");
    }
    daemon.refuses(
        "POST",
        "/v1/sessions",
        r#"{"pid":2147483647}"#,
        404,
        "not_found",
    );
    daemon.refuses("POST", "/v1/sessions", r#"{"pid":"1@7"}"#, 409, "conflict");
    daemon.refuses("GET", "/v1/sessions/nobody", "", 404, "not_found");
    daemon.refuses("POST", "/v1/sessions/nobody/close", "", 404, "not_found");
    daemon.refuses("GET", "/v1/reaps/0", "", 404, "not_found");
    daemon.refuses("GET", "/v1/tree?pid=x", "", 400, "bad_request");
    daemon.refuses("GET", "/v1/tree?al=true", "", 400, "bad_request");
    daemon.refuses("GET", "/v1/events?session=x", "", 404, "not_found");
    daemon.refuses("GET", "/v1/processes/%ff/why", "", 400, "bad_request");
    daemon.refuses("GET", "/v2/sessions", "", 404, "not_found");
    daemon.refuses("DELETE", "/v1/sessions", "", 405, "method_not_allowed");
    let reap = r#"{"target":{"kind":"session","session":"x"},"grace_ms":-1}"#;
    daemon.refuses("POST", "/v1/reaps", reap, 400, "bad_request");
}

#[test]
fn a_body_of_ten_megabytes_is_not_taken_in() {
    let daemon = Running::start();
    let body = "x".repeat(10 << 20);
    daemon.refuses("POST", "/v1/sessions", &body, 413, "too_large");
    // Without a length, in one chunk.
    let head = "POST /v1/sessions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let (status, answer) = daemon.raw(chunk.as_bytes());
    assert_eq!(
        (status, &answer["error"]["code"]),
        (413, &json!("too_large")),
        "{answer}"
    );
    assert_eq!(daemon.ask("GET", "/v1/status", "").0, 200);
}

#[test]
fn noise_is_refused_with_one_line_of_json_and_hurts_nobody() {
    let daemon = Running::start();
    let headers = "x: y\r\n".repeat(200);
    let many = format!("GET /v1/status HTTP/1.1\r\n{headers}\r\n");
    let wide = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(1 << 20));
    for (noise, status, code) in [
        (&b"\x00\x01\x02\xff\xfe\r\n\r\n"[..], 400, "bad_request"),
        (b"GET\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/9.9\r\n\r\n", 400, "bad_request"),
        (b"\x16\x03\x01\x00\xa5\x01\x00\x00", 400, "bad_request"),
        (
            b"POST /v1/sessions HTTP/1.1\r\ncontent-length: -5\r\n\r\n",
            400,
            "bad_request",
        ),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "bad_request"),
        (b"GET /v1/status HTT", 400, "bad_request"),
        (
            b"GET /v1/status HTTP/1.1\r\n\r\n\x00\r\n\r\n",
            200,
            "bad_request",
        ),
        (many.as_bytes(), 431, "too_large"),
        (wide.as_bytes(), 431, "too_large"),
        (long.as_bytes(), 431, "too_large"),
    ] {
        let answer = daemon.bytes(noise);
        let start = String::from_utf8_lossy(&noise[..noise.len().min(60)]);
        assert_eq!(parse(&answer).0, status, "{start:?}");
        let text = String::from_utf8_lossy(&answer);
        let last = text.lines().next_back().unwrap();
        let error: Value = serde_json::from_str(last).unwrap();
        assert_eq!(error["error"]["code"], code, "{text}");
        assert!(text.ends_with("\"}}\n"), "{text}");
    }
    // Who hangs up without a word gets none.
    assert_eq!(daemon.bytes(b""), b"");
    assert_eq!(daemon.ask("GET", "/v1/status", "").0, 200);
}

#[test]
fn whoever_says_nothing_is_hung_up_on_and_whoever_stops_is_told_why() {
    let daemon = Running::start();
    let mut silent = daemon.connect();
    let mut slow = daemon.connect();
    slow.write_all(b"POST /v1/sessions HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{")
        .unwrap();
    let mut half = daemon.connect();
    half.write_all(b"GET /v1/sta").unwrap();
    assert_eq!(daemon.ask("GET", "/v1/status", "").0, 200);
    for stream in [&mut slow, &mut half] {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let (status, answer) = parse(&answer);
        assert_eq!(
            (status, &answer["error"]["code"]),
            (408, &json!("timeout")),
            "{answer}"
        );
    }
    let mut answer = Vec::new();
    silent.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"");
}

#[test]
fn a_thousand_connections_leave_room_for_one_more() {
    let daemon = Running::start();
    let held: Vec<_> = (0..1000).map(|_| daemon.connect()).collect();
    assert_eq!(daemon.ask("GET", "/v1/status", "").0, 200);
    drop(held);
    assert_eq!(daemon.ask("GET", "/v1/status", "").0, 200);
}

#[test]
fn every_path_is_in_the_description() {
    let daemon = Running::start();
    let described = daemon.ask("GET", "/v1/openapi.json", "").1;
    let paths = described["paths"].as_object().unwrap();
    for (path, methods) in paths {
        let path = path
            .replace("{session}", "x")
            .replace("{reap}", "x")
            .replace("{process}", "7");
        for method in methods.as_object().unwrap().keys() {
            // A stream does not end.
            let path = if path == "/v1/events" {
                "/v1/events?session=x"
            } else {
                &path
            };
            let (status, answer) = daemon.ask(&method.to_uppercase(), path, "");
            assert_ne!(status, 405, "{method} {path}");
            assert_ne!(
                answer["error"]["message"],
                json!("there is no such path"),
                "{path}"
            );
        }
    }
}
