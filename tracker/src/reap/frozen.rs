//! Whether a cgroup freezer holds a process.

use procfs::process::{MountInfo, Process};

use crate::process::Pid;

/// Whether `pid` is in a frozen cgroup of version 1, where SIGKILL has no
/// effect until it is thawed. Version 2 lets it through: `cgroup-v2.rst`,
/// `cgroup.freeze`. `false` when that cannot be told.
pub(super) fn is_frozen(pid: Pid) -> bool {
    freezer_state(pid).is_some_and(|state| state != "THAWED")
}

/// The content of the `freezer.state` of its cgroup.
fn freezer_state(pid: Pid) -> Option<String> {
    let of_freezer = |name: &String| name == "freezer";
    let cgroups = Process::new(pid.raw()).ok()?.cgroups().ok()?;
    let mut cgroups = cgroups.into_iter();
    let cgroup = cgroups.find(|cgroup| cgroup.controllers.iter().any(of_freezer))?;
    let is_freezer =
        |mount: &MountInfo| mount.fs_type == "cgroup" && mount.super_options.keys().any(of_freezer);
    let mounts = Process::myself().ok()?.mountinfo().ok()?;
    let mount = mounts.into_iter().find(is_freezer)?;
    // What is mounted can be a part of the hierarchy.
    let path = cgroup
        .pathname
        .strip_prefix(&mount.root)
        .unwrap_or(&cgroup.pathname);
    let directory = mount.mount_point.join(path.trim_start_matches('/'));
    let state = std::fs::read_to_string(directory.join("freezer.state")).ok()?;
    Some(state.trim().to_owned())
}
