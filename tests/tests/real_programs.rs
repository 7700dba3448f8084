//! Programs that people really leave behind.

use std::fs;

use tracker_tests::{Need, Scene, on_all_sources};

/// Runs a script, and checks that everybody whom it left behind is dead: whoever
/// has the scene's mark, and whose pid is in the file `pid`.
#[track_caller]
fn ended(source: tracker_tests::Source, scene: &mut Scene, script: &str) {
    let ended = scene.run(source, "--grace 60s").sh(script).finish();
    let report = ended.assert_ended(scene, source, &[]);
    assert!(!report.processes().is_empty(), "{report}");
    if let Ok(pid) = fs::read_to_string(scene.dir().join("pid")) {
        let pid: i32 = pid.trim().parse().unwrap();
        let processes = report.processes();
        let daemon = processes.iter().find(|entry| entry.who().pid == pid);
        let daemon =
            daemon.unwrap_or_else(|| panic!("nobody has the daemon's pid {pid}: {report}"));
        assert!(!daemon.who().is_alive());
        assert_eq!(daemon.outcome(), "terminated", "{report}");
    }
}

on_all_sources!(redis needs [Need::Program("redis-server"), Need::Program("redis-cli")], |source| {
    let mut scene = Scene::on(source);
    // It removes its pidfile at its end, so its pid is asked from itself.
    let script = "redis-server --daemonize yes --port 0 --unixsocket \"$DIR/s\" --save '' --dir \"$DIR\" >/dev/null
        until redis-cli -s \"$DIR/s\" ping >/dev/null 2>&1; do sleep .02; done
        redis-cli -s \"$DIR/s\" info server | sed -n 's/^process_id:\\([0-9]*\\).*/\\1/p' >pid";
    ended(source, &mut scene, script);
    assert!(scene.dir().join("pid").exists());
});

on_all_sources!(nginx needs [Need::Root, Need::Program("nginx")], |source| {
    let mut scene = Scene::on(source);
    let config = format!(
        "user root; worker_processes 2; pid {0}/nginx.pid; error_log {0}/error.log;
         events {{ worker_connections 64; }}
         http {{ access_log off; server {{ listen unix:{0}/s; return 200; }} }}\n",
        scene.dir().display()
    );
    fs::write(scene.dir().join("nginx.conf"), config).unwrap();
    let script = "nginx -p \"$DIR\" -e \"$DIR/error.log\" -c \"$DIR/nginx.conf\"
        until [ -s nginx.pid ] && [ $(pgrep -c -P $(cat nginx.pid)) = 2 ]; do sleep .02; done
        cp nginx.pid pid";
    ended(source, &mut scene, script);
    assert!(scene.dir().join("pid").exists());
});

on_all_sources!(tmux needs [Need::Program("tmux")], |source| {
    let mut scene = Scene::on(source);
    let script = "unset TMUX
        tmux -S \"$DIR/s\" -f /dev/null new-session -d 'exec sleep 600'
        tmux -S \"$DIR/s\" display-message -p '#{pid}' >pid";
    ended(source, &mut scene, script);
    assert!(scene.dir().join("pid").exists());
});

on_all_sources!(ssh_agent needs [Need::Program("ssh-agent")], |source| {
    let mut scene = Scene::on(source);
    let script = "eval $(ssh-agent -s -a \"$DIR/s\") >/dev/null; echo $SSH_AGENT_PID >pid";
    ended(source, &mut scene, script);
    assert!(scene.dir().join("pid").exists());
});

on_all_sources!(python needs [Need::Program("python3")], |source| {
    let mut scene = Scene::on(source);
    let script = "python3 -c '
import subprocess
child = subprocess.Popen([\"sleep\", \"600\"], start_new_session=True)
open(\"pid\", \"w\").write(str(child.pid))'";
    ended(source, &mut scene, script);
    assert!(scene.dir().join("pid").exists());
});

on_all_sources!(python_whose_thread_executes_a_program needs [Need::Program("python3")], |source| {
    let mut scene = Scene::on(source);
    let script = "setsid python3 -c '
import os, threading
open(\"pid\", \"w\").write(str(os.getpid()))
threading.Thread(target=os.execvp, args=(\"sleep\", [\"sleep\", \"600\"])).start()' &
        until [ -s pid ] && grep -qs sleep /proc/$(cat pid)/comm; do sleep .02; done";
    ended(source, &mut scene, script);
    assert!(scene.dir().join("pid").exists());
});

on_all_sources!(stress_ng needs [Need::Program("stress-ng")], |source| {
    let mut scene = Scene::on(source);
    let script = "setsid stress-ng --quiet --temp-path \"$DIR\" --fork 2 --timeout 600 >/dev/null 2>&1 &
        until [ $(pgrep -c -P $!) -ge 2 ]; do sleep .02; done";
    ended(source, &mut scene, script);
});
