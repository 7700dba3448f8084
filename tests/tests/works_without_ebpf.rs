//! Where the kernel probe cannot be had, the reason is named, and snapshots of
//! `/proc` do what they can.

use tracker_tests::{Need, Scene, Source, Tracker, able};

/// Runs a command that leaves an orphan by `auto` and by `ebpf`, and asks the
/// doctor, each changed by `degrade`. One of `causes` has to be named.
fn degraded(degrade: &dyn Fn(Tracker<'_>) -> Tracker<'_>, causes: &[&str]) {
    let assert_cause = |text: &str| {
        assert!(
            causes.iter().any(|cause| text.contains(cause)),
            "none of {causes:?} in {text}"
        );
    };

    let mut scene = Scene::new();
    let tracker = scene
        .run(Source::Auto, "--grace 60s")
        .sh("(sleep 600 &); exit");
    let ended = degrade(tracker).finish();
    let report = ended.assert_ended(&mut scene, Source::Procfs, &[]);
    assert_eq!(report.processes().len(), 1, "{report}");

    let scene = Scene::new();
    let tracker = scene.run(Source::Ebpf, "").args(&["touch", "ran"]);
    let ended = degrade(tracker).finish();
    ended.assert_code(125);
    assert_cause(ended.assert_one_line());
    assert!(!scene.dir().join("ran").exists());

    let doctor = degrade(scene.tracker(&["doctor", "--json"])).finish();
    assert_cause(&doctor.json().to_string());
    let doctor = degrade(scene.tracker(&["doctor"])).finish();
    assert_cause(&doctor.stdout);
}

#[test]
fn without_btf() {
    if !able(&[Need::Ebpf, Need::Program("unshare")]) {
        return;
    }
    let script = "mount -t tmpfs none /sys/kernel/btf && exec \"$0\" \"$@\"";
    let words = ["unshare", "--mount", "sh", "-c", script];
    degraded(&|tracker| tracker.through(&words), &["BTF"]);
}

#[test]
fn without_the_capabilities() {
    if !able(&[Need::Ebpf, Need::Program("setpriv")]) {
        return;
    }
    let words = ["setpriv", "--bounding-set=-bpf,-sys_admin,-perfmon"];
    let causes = ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN"];
    degraded(&|tracker| tracker.through(&words), &causes);
}

#[test]
fn without_root() {
    if !able(&[Need::Root, Need::Program("setpriv")]) {
        return;
    }
    degraded(&|tracker| tracker.as_nobody(), &["CAP_BPF"]);
}

#[test]
fn below_a_pid_namespace() {
    if !able(&[Need::Root, Need::Program("unshare")]) {
        return;
    }
    let words = ["unshare", "--pid", "--fork", "--mount-proc"];
    degraded(&|tracker| tracker.through(&words), &["pid namespace"]);
}

#[test]
fn a_small_limit_of_locked_memory_is_enough() {
    if !able(&[Need::Ebpf, Need::Program("prlimit")]) {
        return;
    }
    let mut scene = Scene::new();
    let tracker = scene.run(Source::Ebpf, "--grace 60s").victim("double-fork");
    let words = ["prlimit", "--memlock=65536:65536"];
    let ended = tracker.through(&words).finish();
    ended.assert_ended(&mut scene, Source::Ebpf, &["orphan"]);
}

#[test]
fn the_doctor_says_which_source_is_taken() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let json = scene.tracker(&["doctor", "--json"]).finish();
    json.assert_code(0);
    assert!(
        json.json().to_string().contains("\"ebpf\""),
        "{}",
        json.stdout
    );
    let text = scene.tracker(&["doctor"]).finish();
    text.assert_code(0);
    assert!(text.stdout.contains("ebpf"), "{}", text.stdout);
}
