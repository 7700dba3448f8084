//! Who cannot be ended is named, and the status says that it is so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tracker_tests::{
    Cgroup, Ended, GlobalLock, Life, Need, Scene, Source, Who, able, on_all_sources, until,
    victim_binary,
};

/// Checks that the report, the line and the status name one survivor in state D.
#[track_caller]
fn assert_survivor(ended: &Ended, who: Who) {
    ended.assert_code(121);
    let report = ended.report();
    report.assert_consistent();
    assert_eq!(report.verdict(), "survivors", "{report}");
    let entry = report.entry(who);
    assert_eq!(entry.outcome(), "survived", "{report}");
    assert_eq!(entry.0["state"], "D", "{report}");
    assert!(entry.signals().contains(&"KILL"), "{report}");
    let line = ended.assert_one_line();
    assert!(line.contains(&who.pid.to_string()), "{line}");
    assert!(report.reasons().contains(&who.pid.to_string()), "{report}");
}

on_all_sources!(a_member_of_a_frozen_v1_cgroup needs [Need::Root, Need::Cgroup("freezer")], |source| {
    let cgroup = Cgroup::new("freezer");
    let scene = Scene::on(source);
    let script = format!(
        "\"$V\" move-cgroup {}; until [ -e go ]; do sleep .02; done",
        cgroup.file("cgroup.procs").display()
    );
    let running = scene.run(source, "--grace 100ms").sh(&script).start();
    let emigrant = scene.await_cast("emigrant", 1)[0];
    cgroup.write("freezer.state", "FROZEN");
    cgroup.await_content("freezer.state", "FROZEN");
    scene.touch("go");
    let ended = running.finish();
    let alive = emigrant.is_alive();
    cgroup.write("freezer.state", "THAWED");
    assert!(alive);
    assert_survivor(&ended, emigrant);
    // SIGKILL was pending.
    until("its end", || (!emigrant.is_alive()).then_some(()));
});

on_all_sources!(a_member_of_a_frozen_v2_cgroup_is_killed needs [Need::Root, Need::Cgroup("cgroup2")], |source| {
    let cgroup = Cgroup::new("cgroup2");
    let mut scene = Scene::on(source);
    let script = format!(
        "\"$V\" move-cgroup {}; until [ -e go ]; do sleep .02; done",
        cgroup.file("cgroup.procs").display()
    );
    let running = scene.run(source, "--grace 100ms").sh(&script).start();
    scene.await_cast("emigrant", 1);
    cgroup.write("cgroup.freeze", "1");
    until("the frost", || {
        let events = fs::read_to_string(cgroup.file("cgroup.events")).unwrap();
        events.contains("frozen 1").then_some(())
    });
    scene.touch("go");
    let ended = running.finish();
    ended.assert_ended(&mut scene, source, &["emigrant"]);
});

/// A small ext4 file system on a loop device.
struct Disk {
    mount: PathBuf,
    _lock: GlobalLock,
}

impl Disk {
    fn new(dir: &Path) -> Disk {
        let lock = GlobalLock::take();
        let (image, mount) = (dir.join("image"), dir.join("mount"));
        fs::create_dir(&mount).unwrap();
        fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        let disk = Disk { mount, _lock: lock };
        call("mkfs.ext4", &["-q", image.to_str().unwrap()]);
        call(
            "mount",
            &["-o", "loop", image.to_str().unwrap(), disk.path()],
        );
        disk
    }

    fn path(&self) -> &str {
        self.mount.to_str().unwrap()
    }

    fn freeze(&self) {
        call("fsfreeze", &["--freeze", self.path()]);
    }

    fn thaw(&self) {
        call("fsfreeze", &["--unfreeze", self.path()]);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Thawed already, unless the test failed.
        let _ = Command::new("fsfreeze")
            .args(["--unfreeze", self.path()])
            .output();
        call("umount", &["--lazy", self.path()]);
    }
}

#[track_caller]
fn call(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}: {status}");
}

on_all_sources!(
    a_process_in_uninterruptible_sleep
    needs [Need::Root, Need::File("/dev/loop-control"), Need::Program("mkfs.ext4"), Need::Program("fsfreeze")],
    |source| {
        let scene = Scene::on(source);
        let disk = Disk::new(scene.dir());
        let script = "touch ready; until [ -e go ]; do sleep .02; done
                      setsid touch mount/file & until [ -e over ]; do sleep .02; done";
        let running = scene.run(source, "--grace 100ms").sh(script).start();
        until("the script", || scene.dir().join("ready").exists().then_some(()));
        disk.freeze();
        scene.touch("go");
        let stuck = until("a process in state D", || {
            let alive = scene.alive();
            alive.iter().find(|stat| stat.comm == b"touch" && stat.state == 'D').map(|stat| stat.who)
        });
        scene.touch("over");
        let ended = running.finish();
        let life = stuck.life();
        disk.thaw();
        assert!(matches!(life, Life::Alive(_)), "{life:?}");
        assert_survivor(&ended, stuck);
        until("its end", || (!stuck.is_alive()).then_some(()));
        // A second teardown has nobody to end, whether it finds a zombie that
        // waits for its parent or nobody at all.
        let named = stuck.to_string();
        let again = ["reap", "--grace", "0", "--json", "--pid", &named];
        let again = scene.tracker(&again).finish();
        if again.status.code() == Some(4) {
            let report = again.printed_report();
            assert!(report.processes().is_empty(), "{report}");
        } else {
            again.assert_code(1).assert_one_line();
        }
    }
);

#[test]
fn a_process_of_another_user_that_may_not_be_signalled() {
    if !able(&[Need::Root, Need::Program("setpriv")]) {
        return;
    }
    let scene = Scene::new();
    // Where anybody may reach them, and one with a setuid bit.
    scene.copy(victim_binary(), "victim", 0o755);
    scene.copy(victim_binary(), "setuid", 0o4755);
    let script = "for i in 1 2 3 4 5; do ./victim double-fork; done; ./setuid root-by-setuid &
        until [ $(grep -cE '^(orphan|superuser)' cast) = 6 ]; do sleep .02; done";
    let tracker = scene.run(Source::Procfs, "--grace 60s").sh(script);
    let ended = tracker.as_nobody().finish();
    ended.assert_code(121);
    let report = ended.report();
    report.assert_consistent();
    assert_eq!(report.0["source"], Source::Procfs.name(), "{report}");
    assert_eq!(report.verdict(), "survivors", "{report}");
    let orphans = scene.cast("orphan");
    assert_eq!(orphans.len(), 5);
    for orphan in orphans {
        assert!(!orphan.is_alive());
        assert_eq!(report.entry(orphan).outcome(), "terminated", "{report}");
    }
    let superuser = scene.who("superuser");
    assert!(superuser.is_alive());
    assert_eq!(
        report.spared_entry(superuser).reason(),
        "permission_denied",
        "{report}"
    );
    let line = ended.assert_one_line();
    assert!(line.contains(&superuser.pid.to_string()), "{line}");
}
