//! What a test needs of the machine.

use std::path::Path;

/// Something that a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The superuser.
    Root,
    /// What the kernel probe needs: the superuser, BTF, Linux 5.14, and the
    /// initial pid namespace.
    Ebpf,
    /// A program on the `PATH`.
    Program(&'static str),
    /// A file or a directory of the kernel's.
    File(&'static str),
    /// A mounted cgroup hierarchy: `cgroup2`, or one of v1 by its controller.
    Cgroup(&'static str),
    /// 32-bit system calls in a 64-bit kernel.
    Syscalls32,
}

/// Whether this machine has all that a test needs. If not, says what is
/// missing, and fails the test where `TRACKER_REQUIRE_EBPF=1` promises it all.
#[track_caller]
pub fn able(needs: &[Need]) -> bool {
    let missing: Vec<String> = needs.iter().filter_map(|need| need.check().err()).collect();
    if missing.is_empty() {
        return true;
    }
    let missing = missing.join("; ");
    assert!(
        std::env::var_os("TRACKER_REQUIRE_EBPF").is_none_or(|value| value != "1"),
        "TRACKER_REQUIRE_EBPF=1, but {missing}"
    );
    eprintln!("NOT RUN HERE: {missing}");
    false
}

/// Whether there is a program that no machine has to have. If not, says so.
pub fn has(program: &str) -> bool {
    let is_there = on_path(program);
    if !is_there {
        eprintln!("NOT RUN HERE: {program} is not installed");
    }
    is_there
}

impl Need {
    fn check(self) -> Result<(), String> {
        let root = rustix::process::geteuid().is_root();
        match self {
            Need::Root | Need::Ebpf if !root => Err("this needs root".into()),
            Need::Root => Ok(()),
            Need::Ebpf => ebpf(),
            Need::Program(name) => on_path(name)
                .then_some(())
                .ok_or_else(|| format!("{name} is not installed")),
            Need::File(path) => Path::new(path)
                .exists()
                .then_some(())
                .ok_or_else(|| format!("{path} does not exist")),
            Need::Cgroup(kind) => crate::Cgroup::mount_point(kind)
                .map(|_| ())
                .ok_or_else(|| format!("no cgroup hierarchy {kind} is mounted")),
            Need::Syscalls32 => crate::raw::has_32bit_syscalls()
                .then_some(())
                .ok_or_else(|| "the kernel has no 32-bit system calls".into()),
        }
    }
}

fn ebpf() -> Result<(), String> {
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err("the kernel has no BTF".into());
    }
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let mut numbers = release
        .split(|char: char| !char.is_ascii_digit())
        .map(|number| number.parse::<u32>().unwrap_or(0));
    let version = (numbers.next(), numbers.next());
    if version < (Some(5), Some(14)) {
        return Err(format!("Linux {release} is older than 5.14"));
    }
    // PROC_PID_INIT_INO of include/linux/proc_ns.h.
    let own = std::fs::read_link("/proc/self/ns/pid").ok();
    if own.is_none_or(|own| own.as_os_str() != "pid:[4026531836]") {
        return Err("this is not the initial pid namespace".into());
    }
    Ok(())
}

fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}
