//! Pids that are used again within a second, among processes that must live.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tracker::process::{Cancel, NotSent, Opened, PidFd, Proc, ProcessId, Sender, Signal};
use tracker::reap::Verdict;
use tracker::source::ebpf::LoadOptions;
use tracker_tests::{Need, PidMax, Scene, Who, able};

use super::{Beside, Gate, Sessions, size};

/// So few that a loop of forks uses each of them again within a second.
const PIDS: u32 = 4096;

/// Who had a pid before whoever has it now.
struct Former {
    proc: Proc,
    holders: HashMap<i32, ProcessId>,
}

impl Former {
    fn look(&mut self) -> Vec<ProcessId> {
        let now = self.proc.scan().unwrap();
        let former = now.iter().filter_map(|seen| {
            let former = self.holders.insert(seen.id.pid.raw(), seen.id)?;
            (former != seen.id).then_some(former)
        });
        former.collect()
    }
}

/// Tries to kill somebody who is dead; answers whether another one was there
/// to be hit.
fn strike(proc: &Proc, cancel: &Cancel, dead: ProcessId) -> bool {
    let Opened::Live(fd) = PidFd::open(dead.pid).unwrap() else {
        return false;
    };
    let answer = Sender::new(proc, cancel).send(&fd, dead, Signal::Kill, || Ok::<(), ()>(()));
    match answer {
        Err(NotSent::Reused(_)) => true,
        Err(NotSent::Gone) => false,
        other => panic!("{dead} is dead, but: {other:?}"),
    }
}

/// Ends a session whose members come and go meanwhile.
fn reap_one(sessions: &Sessions, scene: &Scene) -> u64 {
    let script = "for i in 1 2 3; do (setsid sleep 600 &); done; \
                  (i=0; while [ $i -lt 200 ]; do (:); i=$((i+1)); done) & exit";
    let mut gate = Gate::new(scene, script);
    let session = sessions.open(gate.who);
    gate.finish();
    let report = sessions.reap(session, Duration::ZERO);
    assert_eq!(report.verdict, Verdict::Complete, "{report:?}");
    sessions.lock().close(session).unwrap();
    report.counts.killed
}

#[test]
#[ignore = "it leaves the whole machine few pids: cargo xtask drill pid-wrap"]
fn nobody_is_hit_for_having_the_pid_of_a_dead_process() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let wanted = size(2000);
    let _pids = PidMax::set(PIDS);
    let scene = Scene::new();
    let mut population = Beside::new(&scene, &["churn", "800"]);
    scene.await_cast("churn", 1);
    let _pressure = Beside::new(&scene, &["forks", "1000000000"]);
    let sessions = Sessions::new(LoadOptions::standalone());
    let cancel = Cancel::new().unwrap();
    let mut former = Former {
        proc: Proc::open().unwrap(),
        holders: HashMap::new(),
    };
    let (mut checks, mut reaps, mut killed, begin) = (0, 0, 0, Instant::now());
    while checks < wanted {
        for dead in former.look() {
            checks += u64::from(strike(&former.proc, &cancel, dead));
        }
        killed += reap_one(&sessions, &scene);
        reaps += 1;
    }
    assert!(
        population.0.try_wait().unwrap().is_none(),
        "the population died"
    );
    let struck: Vec<Who> = scene.cast("struck");
    println!(
        "{checks} signals to the dead whose pid another one has, and {reaps} reaps with {killed} \
         killed, in {} s with {PIDS} pids: {} outsiders were hit",
        begin.elapsed().as_secs(),
        struck.len()
    );
    assert!(struck.is_empty(), "{struck:?}");
}
