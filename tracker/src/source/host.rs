//! Facts about this host that decide which source works: what `tracker doctor`
//! shows.

mod privileges;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use serde::Serialize;

use super::select::{self, PassedOver, Purpose, SourceChoice};
use super::{SourceKind, ebpf};
use crate::process::escape;

pub use privileges::{Capabilities, Capability, Lockdown};

/// Everything about this host that bears on tracking.
#[derive(Clone, Debug, Serialize)]
pub struct Host {
    /// `uname -r`.
    pub kernel: String,
    /// Whether the kernel describes its types.
    pub btf: bool,
    /// Whether `sched_process_exit` says itself that a thread group is dead
    /// (since 6.16); unknown without BTF.
    pub exit_has_group_dead: Option<bool>,
    /// The effective capabilities, among those that matter.
    pub capabilities: Vec<&'static str>,
    /// Those that are missing for the probe.
    pub missing_capabilities: Vec<&'static str>,
    /// Kernel lockdown.
    pub lockdown: Lockdown,
    /// Whether pids here are the host's.
    pub host_pid_namespace: bool,
    /// Whether `/proc` shows start times as the kernel keeps them.
    pub host_time_namespace: bool,
    /// `kernel.unprivileged_bpf_disabled`: 0 allows some of it to everybody.
    pub unprivileged_bpf_disabled: Option<u32>,
    /// `kernel.pid_max`.
    pub pid_max: Option<u32>,
    /// `RLIMIT_MEMLOCK`, bytes; null for none. It limits maps before Linux 5.11 only.
    pub memlock_bytes: Option<u64>,
    /// Where cgroup2 is mounted.
    pub cgroup2: Option<String>,
    /// Where bpffs is mounted, on which a daemon keeps the probe.
    pub bpffs: Option<String>,
    /// The source that `--source auto` takes; null when none works.
    pub source: Option<SourceKind>,
    /// Why not a better one; with `source` null, why not any.
    pub passed_over: Vec<PassedOver>,
}

impl Host {
    /// Looks at everything, and tries to load the probe.
    pub fn probe() -> Host {
        let capabilities = Capabilities::effective();
        let names = |list: Vec<Capability>| list.into_iter().map(Capability::name).collect();
        let has = Capability::ALL
            .into_iter()
            .filter(|one| capabilities.has(*one));
        let (source, passed_over) = match select::open(SourceChoice::Auto, Purpose::Look) {
            Ok(opened) => (Some(opened.source.kind()), opened.passed_over),
            Err(error) => {
                let reason = error.to_string();
                let kind = SourceKind::Procfs;
                (None, vec![PassedOver { kind, reason }])
            }
        };
        Host {
            kernel: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
            btf: ebpf::has_btf(),
            exit_has_group_dead: ebpf::exit_has_group_dead(),
            capabilities: names(has.collect()),
            missing_capabilities: names(capabilities.missing_for_probe()),
            lockdown: Lockdown::now(),
            host_pid_namespace: in_host_pid_namespace().unwrap_or(false),
            host_time_namespace: in_host_time_namespace(),
            unprivileged_bpf_disabled: number("/proc/sys/kernel/unprivileged_bpf_disabled"),
            pid_max: pid_max(),
            memlock_bytes: rustix::process::getrlimit(rustix::process::Resource::Memlock).current,
            cgroup2: mounted("cgroup2"),
            bpffs: mounted("bpf"),
            source,
            passed_over,
        }
    }
}

/// Where a file system of this type is mounted first.
fn mounted(fs_type: &str) -> Option<String> {
    let mounts = procfs::process::Process::myself().ok()?.mountinfo().ok()?;
    let mount = mounts.into_iter().find(|mount| mount.fs_type == fs_type)?;
    Some(escape(mount.mount_point.as_os_str().as_bytes()))
}

fn number(path: &str) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// `PROC_PID_INIT_INO` of `include/linux/proc_ns.h`.
const HOST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;
/// `PROC_TIME_INIT_INO`.
const HOST_TIME_NAMESPACE: u64 = 0xEFFF_FFFA;

/// Whether this process sees the host's pids: the probe always does.
pub fn in_host_pid_namespace() -> std::io::Result<bool> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino() == HOST_PID_NAMESPACE)
}

/// Whether `/proc` shows start times as the kernel keeps them. A kernel without
/// time namespaces has only one.
pub fn in_host_time_namespace() -> bool {
    fs::metadata("/proc/self/ns/time").is_ok_and(|file| file.ino() == HOST_TIME_NAMESPACE)
        || fs::symlink_metadata("/proc/self/ns/time").is_err()
}

/// The largest pid plus one: how many processes there can be.
pub fn pid_max() -> Option<u32> {
    number("/proc/sys/kernel/pid_max")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facts_agree_with_the_kernel() {
        let host = Host::probe();
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert_eq!(host.kernel, release.trim());
        let own = fs::read_link("/proc/self/ns/pid").unwrap();
        let own = own.to_str().unwrap();
        assert_eq!(host.host_pid_namespace, own == "pid:[4026531836]");
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        for (found, fs_type) in [(&host.cgroup2, "cgroup2"), (&host.bpffs, "bpf")] {
            let is_mounted = mounts
                .lines()
                .any(|line| line.split(' ').nth(2) == Some(fs_type));
            assert_eq!(found.is_some(), is_mounted, "{fs_type}");
        }
    }

    #[test]
    fn a_better_source_that_is_not_taken_has_a_reason() {
        let host = Host::probe();
        let ebpf_is_taken = host.source == Some(SourceKind::Ebpf);
        assert_eq!(host.passed_over.is_empty(), ebpf_is_taken, "{host:?}");
        // What keeps the probe away shows among the facts.
        if !host.btf || !host.missing_capabilities.is_empty() || !host.host_pid_namespace {
            assert!(!ebpf_is_taken, "{host:?}");
        }
    }
}
