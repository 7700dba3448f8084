//! Where the kernel probe cannot be had, the reason is named, and snapshots of
//! `/proc` do what they can.

use std::fs;
use std::path::Path;
use std::process::Command;

use tracker_tests::{Need, Scene, Source, Tracker, able, raw};

/// `enum bpf_cmd` of `include/uapi/linux/bpf.h`.
const BPF_MAP_CREATE: u32 = 0;
const BPF_PROG_LOAD: u32 = 5;
const BPF_RAW_TRACEPOINT_OPEN: u32 = 17;

const BTF: &str = "/sys/kernel/btf/vmlinux";

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

/// The kernel's description of its types in which one name is another.
fn btf_without(name: &str) -> Vec<u8> {
    let mut data = fs::read(BTF).expect("the kernel's BTF");
    let old = [b"\0", name.as_bytes(), b"\0"].concat();
    let at = data.windows(old.len()).position(|window| window == old);
    let at = at.unwrap_or_else(|| panic!("this kernel has no {name}"));
    data[at + 1] = b'?';
    data
}

/// Words that start a command where that is the kernel's description.
fn with_btf(dir: &Path, data: &[u8]) -> Vec<String> {
    let file = dir.join("btf");
    fs::write(&file, data).expect("a file");
    let script = format!(
        "mount --bind {} {BTF} && exec \"$0\" \"$@\"",
        file.display()
    );
    ["unshare", "--mount", "sh", "-c", &script]
        .map(str::to_owned)
        .to_vec()
}

#[test]
fn where_the_kernel_lacks_what_the_probe_reads() {
    if !able(&[Need::Ebpf, Need::Program("unshare")]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    for (missing, cause) in [
        ("start_boottime", "no task_struct.start_boottime"),
        ("live", "no signal_struct.live"),
        ("bpf_iter_task", "no bpf_iter_task"),
        (
            "btf_trace_sched_process_free",
            "no btf_trace_sched_process_free",
        ),
    ] {
        let words = with_btf(dir.path(), &btf_without(missing));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        degraded(&|tracker| tracker.through(&words), &[cause]);
    }
}

#[test]
fn where_the_kernel_s_types_make_no_sense() {
    if !able(&[Need::Ebpf, Need::Program("unshare")]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let whole = fs::read(BTF).expect("the kernel's BTF");
    for data in [
        &whole[..whole.len() / 2],
        b"",
        b"no BTF at all, but long enough for a header",
    ] {
        let words = with_btf(dir.path(), data);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        degraded(
            &|tracker| tracker.through(&words),
            &["BTF is not understood"],
        );
    }
}

#[test]
fn a_missing_detail_is_a_detail_that_is_missing() {
    if !able(&[Need::Ebpf, Need::Program("unshare")]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let words = with_btf(dir.path(), &btf_without("arg_start"));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut scene = Scene::new();
    let tracker = scene.run(Source::Auto, "--grace 60s").victim("double-fork");
    let ended = tracker.through(&words).finish();
    ended.assert_ended(&mut scene, Source::Ebpf, &["orphan"]);
}

#[test]
fn on_a_kernel_without_some_of_bpf() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    for (command, errno, causes) in [
        // A helper or an instruction that an older kernel does not know.
        (
            Some(BPF_PROG_LOAD),
            libc::EINVAL,
            &["verifier rejects", "5.14"][..],
        ),
        // A kind of map.
        (Some(BPF_MAP_CREATE), libc::EINVAL, &["5.14"]),
        (Some(BPF_RAW_TRACEPOINT_OPEN), libc::EINVAL, &["5.14"]),
        // Without bpf(2), and where it is forbidden, as containers do.
        (None, libc::ENOSYS, &["5.14"]),
        (None, libc::EPERM, &["seccomp"]),
    ] {
        let refuse = |started: &mut Command| raw::refuse_bpf(started, command, errno);
        degraded(&|tracker| tracker.with(refuse), causes);
    }
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

/// That cannot be undone, so it is only seen where a machine is made for it:
/// `cargo xtask vm`.
#[test]
fn on_a_locked_down_kernel() {
    let state = std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    if !state.contains("[confidentiality]") {
        eprintln!("NOT RUN HERE: the kernel is not locked down");
        return;
    }
    degraded(&|tracker| tracker, &["locked down"]);
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
