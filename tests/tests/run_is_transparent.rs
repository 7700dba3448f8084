//! `run` changes nothing for the command, and nothing for who waits for it.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use tracker_tests::{Need, Scene, Source, able, copy_program, on_all_sources, until};

on_all_sources!(
    the_status_is_the_command_s_while_an_orphan_holds_the_pipe,
    |source| {
        let mut scene = Scene::on(source);
        let tracker = scene.run(source, "--grace 60s").sh("sleep 600 & exit 3");
        let (running, mut pipe) = tracker.start_piped();
        running.finish().assert_code(3);
        let mut output = String::new();
        pipe.read_to_string(&mut output).unwrap();
        assert_eq!(output, "");
        scene.assert_all_dead();
    }
);

on_all_sources!(
    nobody_waits_for_a_pipe_that_an_orphan_may_keep_open,
    |source| {
        let scene = Scene::on(source);
        let tracker = scene
            .run(source, "--no-reap")
            .sh("\"$V\" double-fork; exit 3");
        let (running, _pipe) = tracker.start_piped();
        running.finish().assert_code(3);
        assert!(scene.who("orphan").is_alive());
    }
);

on_all_sources!(a_signal_that_ended_the_command_is_in_the_status, |source| {
    let scene = Scene::on(source);
    for (signal, code) in [("INT", 130), ("KILL", 137), ("TERM", 143), ("SEGV", 139)] {
        let ended = scene
            .run(source, "")
            .sh(&format!("ulimit -c 0; kill -{signal} $$"))
            .finish();
        ended.assert_code(code);
    }
});

on_all_sources!(every_status_of_a_command_is_passed_on, |source| {
    let scene = Scene::on(source);
    for code in [0, 1, 2, 120, 121, 125, 126, 127, 128, 255] {
        let ended = scene.run(source, "").sh(&format!("exit {code}")).finish();
        ended.assert_code(code);
        assert_eq!(ended.stderr, "");
    }
});

on_all_sources!(
    a_command_that_cannot_be_executed_has_a_status_of_its_own,
    |source| {
        let scene = Scene::on(source);
        let file = scene.dir().join("not-executable");
        fs::write(&file, "#!/bin/sh\n").unwrap();
        let file = file.to_str().unwrap();
        let dir = scene.dir().to_str().unwrap();
        for (command, code) in [
            ("no-such-program", 127),
            ("/no/such/program", 127),
            (file, 126),
            (dir, 126),
        ] {
            let ended = scene.run(source, "").arg(command).finish();
            ended.assert_code(code);
            let line = ended.assert_one_line();
            assert!(line.contains(command), "{line}");
        }
    }
);

/// What a process has inherited, as far as it can see.
const INHERITANCE: &str = "
    grep -E '^(Sig(Blk|Ign|Cgt|Q)|Cap|NoNewPrivs|Seccomp:|Umask|Uid|Gid|Groups)' /proc/self/status |
        grep -v SigQ
    umask; pwd; ulimit -aS; ulimit -aH; nice
    cat /proc/self/oom_score_adj /proc/self/timerslack_ns /proc/self/cgroup /proc/self/personality
    cut -d ' ' -f 6 /proc/self/stat
    ls /proc/self/fd; ls -l /proc/self/ns | sed 's/.*-> //'
    taskset -p $$ | sed 's/.*: //'; chrt -p $$ | sed 's/.*: //'
    env | grep -vE '^(TRACKER_SESSION|T|_)=' | sort";

on_all_sources!(
    the_command_inherits_what_it_would_inherit_without_tracker,
    |source| {
        let scene = Scene::on(source);
        let direct = scene
            .command("sh")
            .args(["-c", INHERITANCE])
            .output()
            .unwrap();
        let direct = String::from_utf8_lossy(&direct.stdout).into_owned();
        assert!(
            direct.contains("SigBlk:") && direct.contains("PATH="),
            "{direct}"
        );
        let ended = scene.run(source, "").sh(INHERITANCE).finish();
        ended.assert_code(0);
        assert_eq!(ended.stdout, direct);
    }
);

on_all_sources!(the_command_inherits_blocked_and_ignored_signals, |source| {
    let scene = Scene::on(source);
    // Not through a shell, which unblocks them.
    let look = ["grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"];
    let odd = [
        "env",
        "--ignore-signal=HUP,PIPE,CHLD,USR2",
        "--block-signal=USR1,TERM,TSTP",
    ];
    let mut direct = scene.command(odd[0]);
    let direct = direct.args(&odd[1..]).args(look).output().unwrap();
    let direct = String::from_utf8_lossy(&direct.stdout).into_owned();
    assert!(!direct.contains("SigBlk:\t0000000000000000"), "{direct}");
    let ended = scene.run(source, "").args(&look).through(&odd).finish();
    ended.assert_code(0);
    assert_eq!(ended.stdout, direct);
});

on_all_sources!(
    the_command_reads_tracker_s_input_and_knows_its_session,
    |source| {
        let scene = Scene::on(source);
        fs::write(scene.dir().join("input"), "hello\n").unwrap();
        let input = fs::File::open(scene.dir().join("input")).unwrap();
        let tracker = scene
            .run(source, "")
            .sh("cat; echo \"<$TRACKER_SESSION>\" >&2");
        let ended = tracker
            .with(|command| {
                command.stdin(input);
            })
            .finish();
        ended.assert_code(0);
        assert_eq!(ended.stdout, "hello\n");
        assert!(
            ended.stderr.starts_with('<') && ended.stderr.len() > "<>\n".len(),
            "{}",
            ended.stderr
        );
    }
);

on_all_sources!(
    descriptors_are_passed_on_and_closed_ones_stay_closed,
    |source| {
        let scene = Scene::on(source);
        let look = ["ls", "-l", "/proc/self/fd"];
        let odd = ["sh", "-c", "exec \"$0\" \"$@\" <&- 7</dev/zero 8>&2"];
        let links = |text: &str| -> Vec<String> {
            let lines = text.lines().filter_map(|line| line.split_once(" -> "));
            let number = |left: &str| left.split(' ').next_back().unwrap().to_owned();
            lines
                .map(|(left, target)| format!("{} {target}", number(left)))
                // Its own listing, and the outputs, which differ.
                .filter(|line| {
                    !line.contains("/proc/") && !line.contains(&*scene.dir().to_string_lossy())
                })
                .filter(|line| {
                    !line.starts_with("1 ") && !line.starts_with("2 ") && !line.starts_with("8 ")
                })
                .collect()
        };
        let mut direct = scene.command(odd[0]);
        let direct = direct.args(&odd[1..]).args(look).output().unwrap();
        let direct = links(&String::from_utf8_lossy(&direct.stdout));
        assert!(direct.contains(&"7 /dev/zero".to_owned()), "{direct:?}");
        assert!(
            !direct.iter().any(|line| line.starts_with("0 ")),
            "{direct:?}"
        );
        let ended = scene.run(source, "").args(&look).through(&odd).finish();
        ended.assert_code(0);
        assert_eq!(links(&ended.stdout), direct);
    }
);

on_all_sources!(the_command_is_in_tracker_s_process_group, |source| {
    let scene = Scene::on(source);
    let script = "cut -d ' ' -f 5 /proc/self/stat";
    let running = scene.run(source, "").sh(script).start();
    let group = tracker_tests::proc::stat(running.who().pid).map(|stat| stat.group);
    let ended = running.finish();
    ended.assert_code(0);
    assert_eq!(
        Some(ended.stdout.trim().to_owned()),
        group.map(|group| group.to_string())
    );
});

on_all_sources!(a_signal_to_tracker_reaches_the_command, |source| {
    for (name, signal) in [
        ("TERM", Signal::TERM),
        ("INT", Signal::INT),
        ("HUP", Signal::HUP),
        ("QUIT", Signal::QUIT),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
    ] {
        let scene = Scene::on(source);
        let script = format!(
            "trap 'echo {name} >>got' {name}; touch ready
             until [ -s got ]; do sleep .02; done; exit 5"
        );
        let running = scene.run(source, "").sh(&script).start();
        until("the trap", || {
            scene.dir().join("ready").exists().then_some(())
        });
        running.who().signal(signal);
        running.finish().assert_code(5);
        let got = fs::read_to_string(scene.dir().join("got")).unwrap();
        assert_eq!(got, format!("{name}\n"));
    }
});

on_all_sources!(
    a_signal_that_ends_the_command_ends_what_it_left_behind,
    |source| {
        let mut scene = Scene::on(source);
        let script = "\"$V\" stubborn; exec \"$V\" linger main";
        let running = scene.run(source, "--grace 200ms").sh(script).start();
        scene.await_cast("main", 1);
        running.who().signal(Signal::TERM);
        let ended = running.finish();
        ended.assert_code(143);
        let report = ended.report();
        report.assert_complete();
        assert_eq!(report.entry(scene.who("stubborn")).outcome(), "killed");
        scene.assert_all_dead();
    }
);

#[test]
fn a_daemon_s_socket_that_is_not_there_does_not_matter() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let mut scene = Scene::new();
    let tracker = scene.run(Source::Ebpf, "--grace 60s").victim("double-fork");
    let tracker = tracker.with(|command| {
        command.env("TRACKER_SOCKET", "/no/such/socket");
    });
    tracker
        .finish()
        .assert_ended(&mut scene, Source::Ebpf, &["orphan"]);
}

#[test]
fn a_command_without_read_permission_runs() {
    let scene = Scene::new();
    let copy = scene.dir().join("secret");
    copy_program("/bin/true".as_ref(), &copy);
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o111)).unwrap();
    scene
        .run(Source::Procfs, "")
        .arg(&copy)
        .finish()
        .assert_code(0);
}
