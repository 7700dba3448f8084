//! A cgroup for one test.

use std::fs;
use std::path::PathBuf;

use crate::wait::until;

/// A new empty cgroup, removed when dropped.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Where a hierarchy is mounted: `cgroup2`, or the v1 hierarchy that has
    /// this controller.
    pub fn mount_point(kind: &str) -> Option<PathBuf> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        mounts.lines().find_map(|line| {
            let mut words = line.split(' ');
            let (_, path, file_system) = (words.next()?, words.next()?, words.next()?);
            let options = words.next()?;
            let is_it = file_system == kind
                || (file_system == "cgroup" && options.split(',').any(|option| option == kind));
            is_it.then(|| PathBuf::from(path))
        })
    }

    /// Makes one in a hierarchy: see [`Cgroup::mount_point`].
    pub fn new(kind: &str) -> Cgroup {
        let mount_point = Cgroup::mount_point(kind).expect("a mounted hierarchy");
        let dir = tempfile::Builder::new()
            .prefix("tracker-test-")
            .tempdir_in(mount_point)
            .expect("a new cgroup");
        // `TempDir` would empty it file by file, which a cgroup refuses.
        Cgroup { path: dir.keep() }
    }

    /// One of its files.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes to one of its files.
    pub fn write(&self, name: &str, value: &str) {
        fs::write(self.file(name), value).expect("a cgroup's file that takes the value");
    }

    /// Waits until a file of it has this content.
    pub fn await_content(&self, name: &str, value: &str) {
        until(&format!("{value} in {name}"), || {
            let content = fs::read_to_string(self.file(name)).ok()?;
            (content.trim() == value).then_some(())
        });
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Its last process may be on its way out.
        for _ in 0..1000 {
            if fs::remove_dir(&self.path).is_ok() || !self.path.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        eprintln!("cannot remove {}", self.path.display());
    }
}
