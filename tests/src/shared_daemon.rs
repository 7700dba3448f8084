//! One daemon for all tests of a program: many sessions at once, of tests that
//! know nothing of each other, as on a real host.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use crate::daemon::ask;
use crate::report::Report;
use crate::wait::until;

/// Starts a daemon, and clears up when its standard input ends: with the
/// program whose tests they are, however that ends.
const NURSE: &str = "\
    \"$1\" serve --source ebpf --socket \"$2/d.sock\" --state-dir \"$2/state\" --pin-dir \"$3\" \
        </dev/null 2>\"$2/log\" &
    read -r _
    kill -KILL $!
    wait
    \"$1\" serve --unpin --pin-dir \"$3\"
    rmdir \"$3\"
    rm -rf \"$2\"";

/// The daemon.
#[derive(Debug)]
pub struct SharedDaemon {
    dir: PathBuf,
    /// Its standard input is open as long as this program lives.
    _nurse: Child,
}

impl SharedDaemon {
    /// Starts it, unless another test has done so.
    #[track_caller]
    pub fn get() -> &'static SharedDaemon {
        static SHARED: OnceLock<SharedDaemon> = OnceLock::new();
        SHARED.get_or_init(SharedDaemon::start)
    }

    fn start() -> SharedDaemon {
        let dir = tempfile::Builder::new().prefix("tt-shared-").tempdir();
        // Removed by the nurse: a static is never dropped.
        let dir = dir.expect("a directory").keep();
        // Whoever they are, the tests' commands connect.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&dir, open).expect("chmod");
        let pins = Path::new("/sys/fs/bpf").join(dir.file_name().expect("its name"));
        let nurse = Command::new("sh")
            .args(["-c", NURSE, "nurse"])
            .arg(crate::tracker_binary())
            .args([&dir, &pins])
            .current_dir("/")
            // Who interrupts the tests at a terminal does not mean the nurse.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let daemon = SharedDaemon {
            dir,
            _nurse: nurse.expect("sh"),
        };
        until("an answer of the shared daemon", || {
            let log = daemon.log();
            assert!(!log.contains("tracker: "), "it does not start: {log}");
            ask(&daemon.socket(), "GET", "/v1/status", "").filter(|answer| answer.status == 200)
        });
        daemon
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.join("d.sock")
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Fails the test unless it was this daemon who reaped.
    #[track_caller]
    pub(crate) fn assert_reaped(&self, report: &Report) {
        let id = report.0["reap_id"].as_str().unwrap_or_default();
        let known = ask(&self.socket(), "GET", &format!("/v1/reaps/{id}"), "");
        assert!(
            known.as_ref().is_some_and(|answer| answer.status == 200),
            "the daemon knows nothing of reap {id}: {known:?}\n{}",
            self.log()
        );
    }
}
