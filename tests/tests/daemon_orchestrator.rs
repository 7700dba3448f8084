//! What build hosts do all day: run a job in a worktree, end what it left
//! behind, remove the worktree.

use tracker_tests::{Daemon, Need, Scene, Source, able};

/// How often. A variable asks for another number.
const ROUNDS: u32 = 20;

/// One round after the other, each by the standard library and the command line.
/// The job's shell leaves three writers behind, each detached in another way.
const ORCHESTRATOR: &str = r#"
import json, os, subprocess, sys

tracker, rounds = os.environ["T"], int(sys.argv[1])

WRITER = 'i=0; while :; do i=$((i+1)); mkdir -p $0.$i; echo x >$0.$i/f; sleep .002; done'
JOB = f"""
    sh -c '{WRITER}' background & nohup sh -c '{WRITER}' nohup >/dev/null 2>&1 &
    (setsid sh -c '(sh -c "$1" twice &)' - '{WRITER}' &)
    until [ -e background.3 ] && [ -e nohup.3 ] && [ -e twice.3 ]; do sleep .002; done
"""

for count in range(rounds):
    worktree = f"worktree-{count}"
    os.mkdir(worktree)
    shell = subprocess.Popen(["sh"], stdin=subprocess.PIPE, cwd=worktree, text=True)
    opened = subprocess.run(
        [tracker, "session", "open", "--pid", str(shell.pid), "--json"],
        check=True, stdout=subprocess.PIPE, text=True)
    session = json.loads(opened.stdout)["id"]
    shell.communicate(JOB)
    close = [tracker, "session", "close", session, "--grace", "3s", "--json"]
    report = json.loads(subprocess.run(close, check=True, stdout=subprocess.PIPE).stdout)
    assert report["verdict"] == "complete", report
    assert sum(report["counts"][how] for how in ("terminated", "killed")) >= 3, report
    subprocess.run(["rm", "-rf", worktree], check=True)
    assert not os.path.exists(worktree), f"round {count}: somebody still writes"
print("done", rounds)
"#;

#[test]
fn a_worktree_can_be_removed_at_the_first_try_each_time() {
    if !able(&[Need::Ebpf, Need::Program("python3")]) {
        return;
    }
    let rounds = std::env::var("TRACKER_TEST_ROUNDS").ok();
    let rounds = rounds.map_or(ROUNDS, |rounds| rounds.parse().expect("a number"));
    let mut scene = Scene::new();
    {
        let daemon = Daemon::start(&scene, Source::Ebpf);
        let output = scene
            .command("python3")
            .args(["-c", ORCHESTRATOR, &rounds.to_string()])
            .env("T", tracker_tests::tracker_binary())
            .env("TRACKER_SOCKET", daemon.socket())
            .output()
            .expect("python3");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}\n{}", daemon.log());
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(printed.trim(), format!("done {rounds}"));
    }
    scene.assert_all_dead();
}
