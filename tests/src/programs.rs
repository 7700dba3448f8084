//! Where the programs are that cargo has built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// The `tracker` binary of the profile that the tests were built with.
pub fn tracker_binary() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let path = built("tracker", "cargo build -p tracker");
        assert_current(&path);
        path
    })
}

/// The victim program.
pub fn victim_binary() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| built("victim", "cargo build -p tracker-tests"))
}

fn built(name: &str, how: &str) -> PathBuf {
    let own = std::env::current_exe().expect("/proc/self/exe");
    // target/PROFILE/deps/TEST-HASH, or target/PROFILE/PROGRAM.
    let found = own
        .ancestors()
        .skip(1)
        .take(2)
        .map(|dir| dir.join(name))
        .find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{name} is not built: run `{how}` first (same profile)"))
}

/// Cargo builds what a package's tests need, but the tests of one package do
/// not make it build the binary of another. An old tracker would be tested
/// without a word; cargo's own list of its sources tells.
fn assert_current(binary: &Path) {
    let modified = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let built: SystemTime = modified(binary).expect("the binary's date");
    let list = fs::read_to_string(binary.with_extension("d")).unwrap_or_default();
    let sources = list.split_once(':').map_or("", |(_, sources)| sources);
    let newer = sources
        .split_ascii_whitespace()
        .find(|source| modified(Path::new(source)).is_some_and(|date| date > built));
    if let Some(newer) = newer {
        panic!(
            "{} is older than {newer}: run `cargo build -p tracker` first",
            binary.display()
        );
    }
}

/// Copies a program, to be run under another name.
///
/// By a process of its own: a descriptor that is open for writing here would be
/// inherited by whatever another test starts at this moment, and until that has
/// executed its program, the kernel refuses to run the copy (ETXTBSY).
#[track_caller]
pub fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg(from).arg(to).status();
    assert!(
        copied.is_ok_and(|status| status.success()),
        "cannot copy {}",
        from.display()
    );
}
