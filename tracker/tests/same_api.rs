//! The tracker inside a process takes the requests of the daemon's client, and
//! gives the same answers.
#![cfg(test)]

use std::path::PathBuf;

use tracker::api::{
    CloseSession, EventKind, EventsQuery, Keep, OpenSession, ProcessRef, ReapRequest, ReapTarget,
    ReapsQuery, Streamed, TreeQuery, Verdict,
};
use tracker::client::Client;
use tracker::embedded::Tracker;
use tracker::source::{SourceChoice, SourceKind};
use tracker_tests::{Canary, Daemon, Need, Scene, Shell, Source, Who, able};

fn open(name: &str, root: Who) -> OpenSession {
    OpenSession {
        name: Some(name.to_owned()),
        pid: root.to_string().parse().unwrap(),
        keep: vec!["kept-*".to_owned()],
        workdir: None,
    }
}

fn by_name(name: &str) -> TreeQuery {
    TreeQuery {
        session: Some(name.to_owned()),
        ..TreeQuery::default()
    }
}

/// All requests once, to whoever answers them.
macro_rules! converse {
    ($tracker:ident, $scene:ident) => {{
        let canary = Canary::new();
        let mut shell = Shell::new($scene);
        let opened = $tracker
            .open_session(&open("job", shell.who()))
            .await
            .unwrap();
        assert_eq!(opened.name, "job");
        let id = opened.id.to_string();
        assert_eq!($tracker.session("job").await.unwrap().id, opened.id);
        assert_eq!($tracker.sessions().await.unwrap().sessions.len(), 1);

        let query = EventsQuery {
            session: Some(id.clone()),
        };
        let mut events = $tracker.events(&query).await.unwrap();
        shell.tell("sleep 600 & setsid ./kept-sleep 600 &");
        let sleep = $scene.await_named("sleep");
        let kept = $scene.await_named("kept-sleep");
        // Snapshots tell of nobody's birth.
        if $tracker.status().await.unwrap().source == SourceKind::Ebpf {
            loop {
                let told = events.next().await.unwrap().expect("an event");
                let Streamed::Event(event) = told else {
                    continue;
                };
                assert_eq!(event.session, Some(opened.id));
                if event.kind == EventKind::Exec && event.comm.as_deref() == Some("sleep") {
                    break;
                }
            }
        }
        drop(events);

        let tree = $tracker.tree(&by_name(&id)).await.unwrap();
        let pids: Vec<_> = tree.processes.iter().map(|one| one.id.pid.raw()).collect();
        for who in [shell.who(), sleep, kept] {
            assert!(pids.contains(&who.pid), "{who}: {pids:?}");
        }
        let sleeping: ProcessRef = sleep.to_string().parse().unwrap();
        let lineage = $tracker.lineage(sleeping).await.unwrap();
        let text = serde_json::to_string(&lineage).unwrap();
        assert!(
            text.contains(&format!("\"pid\":{}", shell.who().pid)),
            "{text}"
        );
        let why = $tracker.why(sleeping).await.unwrap();
        assert_eq!(why.verdict, Verdict::End);
        assert_eq!(why.sessions[0].id, opened.id);
        let keeping = Keep { pid: sleeping };
        assert_eq!(
            $tracker.keep(&keeping).await.unwrap().id.pid.raw(),
            sleep.pid
        );

        let mut request = ReapRequest {
            target: ReapTarget::Session {
                session: "job".to_owned(),
            },
            grace_ms: 60_000,
            dry_run: true,
            exclude_root: true,
        };
        let plan = $tracker.reap(&request).await.unwrap();
        assert_eq!(plan.spared.len(), 3, "{plan:?}");
        request.dry_run = false;
        request.exclude_root = false;
        let report = $tracker.reap(&request).await.unwrap();
        assert_eq!(report.spared.len(), 2, "{report:?}");
        assert!(!shell.who().is_alive() && sleep.is_alive() && kept.is_alive());

        let query = ReapsQuery {
            session: Some(opened.id),
        };
        let reaps = $tracker.reaps(&query).await.unwrap().reaps;
        assert_eq!(reaps.len(), 1, "a dry run is no history");
        let reap = $tracker.one_reap(&reaps[0].id).await.unwrap();
        assert_eq!(reap.report.as_ref(), Some(&report));
        $tracker.cancel_reap(&reaps[0].id).await.unwrap();

        assert_eq!($tracker.release_session("job").await.unwrap().id, opened.id);
        $tracker.session("job").await.unwrap_err();
        let reap = ReapRequest {
            target: ReapTarget::Process { pid: sleeping },
            grace_ms: 60_000,
            dry_run: false,
            exclude_root: false,
        };
        $tracker.reap(&reap).await.unwrap();
        let second = Shell::new($scene);
        $tracker
            .open_session(&open("second", second.who()))
            .await
            .unwrap();
        let closed = $tracker
            .close_session("second", &CloseSession::default())
            .await
            .unwrap();
        assert_eq!(
            closed.counts.terminated + closed.counts.killed,
            1,
            "{closed:?}"
        );
        assert!(!second.who().is_alive());
        assert_eq!($tracker.sessions().await.unwrap().sessions.len(), 0);
        canary.assert_lives();
        errors!($tracker)
    }};
}

/// What is said to requests that make no sense.
macro_rules! errors {
    ($tracker:ident) => {{
        let nobody = "2147483647".parse().unwrap();
        let mut messages = vec![
            $tracker.session("none").await.unwrap_err().to_string(),
            $tracker.lineage(nobody).await.unwrap_err().to_string(),
            $tracker.one_reap("none").await.unwrap_err().to_string(),
        ];
        let init = OpenSession {
            name: None,
            pid: "1".parse().unwrap(),
            keep: vec![],
            workdir: None,
        };
        messages.push($tracker.open_session(&init).await.unwrap_err().to_string());
        messages
    }};
}

fn scene() -> Scene {
    let scene = Scene::new();
    scene.copy("/bin/sleep".as_ref(), "kept-sleep", 0o755);
    scene
}

async fn embedded(choice: SourceChoice) -> Vec<String> {
    let scene = &scene();
    let tracker = Tracker::open(choice).unwrap();
    converse!(tracker, scene)
}

async fn sidecar(socket: PathBuf) -> Vec<String> {
    let scene = &scene();
    let client = Client::new(socket);
    converse!(client, scene)
}

fn run<T>(conversation: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(conversation)
}

#[test]
fn a_process_that_tracks_by_itself_answers_as_the_daemon_does() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let own = run(embedded(SourceChoice::Ebpf));
    let home = Scene::new();
    let daemon = Daemon::start(&home, Source::Ebpf);
    assert_eq!(own, run(sidecar(daemon.socket())));
}

#[test]
fn without_the_probe_it_answers_the_same() {
    if !able(&[Need::Root]) {
        return;
    }
    run(embedded(SourceChoice::Procfs));
}

#[test]
fn nothing_is_tracked_any_more_when_the_tracker_is_dropped() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = scene();
    let shell = Shell::new(&scene);
    run(async {
        let tracker = Tracker::open(SourceChoice::Ebpf).unwrap();
        assert_eq!(tracker.source(), SourceKind::Ebpf);
        assert!(tracker.passed_over().is_empty());
        let opened = tracker.open_session(&open("job", shell.who())).await;
        let mut events = tracker.events(&EventsQuery::default()).await.unwrap();
        opened.unwrap();
        drop(tracker);
        while events.next().await.unwrap().is_some() {}
    });
    assert!(shell.who().is_alive());
}
