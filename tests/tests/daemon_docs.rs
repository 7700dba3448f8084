//! What docs/api.md shows works as it is written there.

use std::process::Command;

use serde_json::Value;
use tracker_tests::{Daemon, Need, Scene, Source, able, has};

const DOCS: &str = include_str!("../../docs/api.md");

/// The first block of code in this language.
fn block(language: &str) -> &'static str {
    let start = format!("```{language}\n");
    let (_, rest) = DOCS.split_once(&start).expect("a block of code");
    rest.split_once("```").expect("its end").0
}

/// Runs a program that is a client of the daemon; answers what it printed.
#[track_caller]
fn run(daemon: &Daemon<'_>, command: &mut Command) -> String {
    let output = command
        .env("TRACKER_SOCKET", daemon.socket())
        .stderr(std::process::Stdio::inherit())
        .output()
        .expect("the program starts");
    assert!(
        output.status.success(),
        "{:?}\n{}",
        output.status,
        daemon.log()
    );
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_python_program_ends_what_its_job_left_behind_each_time() {
    if !able(&[Need::Ebpf, Need::Program("python3")]) {
        return;
    }
    let mut scene = Scene::new();
    {
        let daemon = Daemon::start(&scene, Source::Ebpf);
        for _ in 0..20 {
            let printed = run(
                &daemon,
                scene.command("python3").args(["-c", block("python")]),
            );
            let mut lines = printed.lines();
            assert!(
                lines
                    .next()
                    .is_some_and(|line| line.ends_with("were left behind"))
            );
            assert_eq!(lines.next(), Some("complete"), "{printed}");
        }
    }
    scene.assert_all_dead();
}

#[test]
fn the_go_program_ends_what_its_job_left_behind() {
    if !able(&[Need::Ebpf]) || !has("go") {
        return;
    }
    let mut scene = Scene::new();
    let source = scene.dir().join("job.go");
    std::fs::write(&source, block("go")).expect("a file");
    let formatted = scene.command("gofmt").arg("-l").arg(&source).output();
    let unformatted = formatted.expect("gofmt").stdout;
    assert_eq!(String::from_utf8_lossy(&unformatted), "");
    {
        let daemon = Daemon::start(&scene, Source::Ebpf);
        let mut go = scene.command("go");
        // Its library is compiled once, and not into anybody's home.
        let cache = concat!(env!("CARGO_TARGET_TMPDIR"), "/go");
        go.arg("run").arg(&source).env("GOCACHE", cache);
        assert_eq!(run(&daemon, &mut go), "complete\n");
        let reaps = daemon.get("/v1/reaps");
        let id = reaps["reaps"][0]["id"].as_str().expect("a reap");
        let report = &daemon.get(&format!("/v1/reaps/{id}"))["report"];
        assert_eq!(report["counts"]["terminated"], 1, "{report}");
    }
    scene.assert_all_dead();
}

#[test]
fn curl_alone_opens_a_session_lists_its_tree_reaps_it_and_reads_the_report() {
    if !able(&[Need::Ebpf, Need::Program("curl")]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    // Each answer is a line.
    let printed = run(&daemon, scene.command("sh").args(["-c", block("sh")]));
    let answers: Vec<Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let [session, tree, report] = answers.as_slice() else {
        panic!("{printed}")
    };
    assert_eq!(session["name"], "job-7");
    let processes = tree["processes"].as_array().expect("a list");
    assert!(
        processes.iter().any(|process| process["comm"] == "sleep"),
        "{tree}"
    );
    assert_eq!(report["verdict"], "complete", "{report}");
    let reap = report["reap_id"].as_str().expect("an id");
    assert_eq!(daemon.get(&format!("/v1/reaps/{reap}"))["report"], *report);
}

#[test]
fn the_report_in_the_documentation_has_the_fields_of_a_real_one() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let mut shell = tracker_tests::Shell::new(&scene);
    daemon.open("job", shell.who());
    shell.tell("sleep 600 &");
    scene.await_named("sleep");
    let real = daemon.post("/v1/sessions/job/close", &serde_json::json!({}));
    let shown: Value = serde_json::from_str(block("json")).expect("JSON");
    assert_eq!(keys(&shown), keys(&real));
    assert_eq!(keys(&shown["counts"]), keys(&real["counts"]));
    assert_eq!(keys(&shown["processes"][0]), keys(&real["processes"][0]));
}

fn keys(value: &Value) -> Vec<&String> {
    value.as_object().expect("an object").keys().collect()
}
