//! What has to survive the daemon: sessions, kept processes, reaps and their
//! outcomes, in one SQLite file that belongs to one boot of the host.
//!
//! A write is on the disk when the call returns (`synchronous = FULL`), so the
//! caller may act on it or answer for it. Whatever fails is an error of the
//! request at hand; nothing is retried or dropped silently.

mod error;
mod history;
mod schema;
mod sessions;

use std::path::{Path, PathBuf};

use rusqlite::Connection;

pub use error::StoreError;
pub use history::{Limits, NewReap, ReapRecord, ReapState, unix_ms};

/// The durable state. Blocking; share it behind a mutex.
#[derive(Debug)]
pub struct Store {
    db: Connection,
    path: PathBuf,
    boot: String,
    limits: Limits,
}

/// The id that the kernel made up when it booted, which scopes every identity:
/// pids and start times begin anew with the next boot.
pub fn boot_id() -> std::io::Result<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(text.trim_end().to_owned())
}

impl Store {
    /// Opens or creates the file, and holds it against any other daemon.
    ///
    /// Sessions and kept processes of another boot are dropped: their
    /// identities mean nothing now. Its unfinished reaps are marked as
    /// interrupted, and stay in the history like the finished ones.
    pub fn open(path: &Path, boot: &str, limits: Limits) -> Result<Store, StoreError> {
        let db = Connection::open(path).map_err(|error| StoreError::at(path, "open", error))?;
        Store::from_connection(db, path, boot, limits)
    }

    /// One that is gone when it is dropped.
    pub fn in_memory(limits: Limits) -> Result<Store, StoreError> {
        let path = Path::new(":memory:");
        let db = Connection::open_in_memory();
        let db = db.map_err(|error| StoreError::at(path, "open", error))?;
        Store::from_connection(db, path, "", limits)
    }

    fn from_connection(
        db: Connection,
        path: &Path,
        boot: &str,
        limits: Limits,
    ) -> Result<Store, StoreError> {
        let mut store = Store {
            db,
            path: path.to_owned(),
            boot: boot.to_owned(),
            limits,
        };
        schema::prepare(&mut store.db, path)?;
        store.drop_other_boots()?;
        Ok(store)
    }

    fn drop_other_boots(&mut self) -> Result<(), StoreError> {
        let boot = self.boot.clone();
        self.write("drop the state of another boot from", |transaction| {
            transaction.execute("DELETE FROM sessions WHERE boot <> ?1", [&boot])?;
            transaction.execute("DELETE FROM kept WHERE boot <> ?1", [&boot])?;
            transaction.execute(
                "UPDATE reaps SET state = 'interrupted', due_ms = NULL, error = 'the host was restarted'
                 WHERE boot <> ?1 AND state IN ('running', 'waiting')",
                [&boot],
            )?;
            Ok(())
        })
    }

    /// All of `change`, or nothing of it.
    fn write<T>(
        &mut self,
        what: &'static str,
        change: impl FnOnce(&rusqlite::Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let result = self.db.transaction().and_then(|transaction| {
            let value = change(&transaction)?;
            transaction.commit()?;
            Ok(value)
        });
        result.map_err(|error| StoreError::at(&self.path, what, error))
    }

    fn read<T>(
        &self,
        what: &'static str,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        query(&self.db).map_err(|error| StoreError::at(&self.path, what, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    use crate::lineage::SessionId;
    use crate::process::{Device, DirId, Pid, ProcessId, StartTime, Workdir};
    use crate::session::{Session, SessionState};

    pub(super) fn session(id: u64) -> Session {
        Session {
            id: SessionId::new(id).unwrap(),
            name: "it's \"a\" job\n".to_owned(),
            roots: vec![root()],
            parent: SessionId::new(77),
            owner_uid: 1000,
            keep: vec!["redis-*".parse().unwrap(), "4@5".parse().unwrap()],
            workdir: Some(workdir()),
            late: true,
            opened_ns: 9,
            state: SessionState::Open,
        }
    }

    fn workdir() -> Workdir {
        let device = Device { major: 8, minor: 1 };
        Workdir {
            path: PathBuf::from(std::ffi::OsStr::from_bytes(b"/w/\xff")),
            id: DirId {
                device,
                inode: u64::MAX,
                born_ns: Some(-1),
            },
            file_system: device,
            inside: PathBuf::from("/"),
            owner_uid: 1000,
        }
    }

    fn root() -> ProcessId {
        ProcessId::new(Pid::new(7).unwrap(), StartTime::from_ticks(u64::MAX))
    }

    pub(super) fn open(dir: &Path, boot: &str) -> Result<Store, StoreError> {
        Store::open(&dir.join("state.db"), boot, Limits::default())
    }

    fn reap(id: &str) -> NewReap {
        NewReap {
            id: id.to_owned(),
            request: "{}".to_owned(),
            session: SessionId::new(5),
            directory: None,
            owner_uid: 1000,
        }
    }

    #[test]
    fn what_was_written_is_there_after_the_writer_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path(), "one").unwrap();
        store.save_session(&session(5)).unwrap();
        store.keep(root()).unwrap();
        store.begin_reap(&reap("r")).unwrap();
        // What kill -9 leaves: no close, no checkpoint, only what is in the files.
        let copy = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
        let store = open(copy.path(), "one").unwrap();
        let found = store.sessions().unwrap();
        assert_eq!(format!("{found:?}"), format!("{:?}", [session(5)]));
        assert_eq!(store.kept().unwrap(), [root()]);
        let unfinished = store.unfinished_reaps().unwrap();
        assert_eq!((unfinished.len(), unfinished[0].attempts), (1, 1));
    }

    #[test]
    fn another_boot_keeps_the_history_and_drops_the_identities() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path(), "one").unwrap();
        store.save_session(&session(5)).unwrap();
        store.keep(root()).unwrap();
        store.begin_reap(&reap("done")).unwrap();
        store
            .finish_reap("done", Ok("{\"x\":1}"), &[session(5)])
            .unwrap();
        store.begin_reap(&reap("cut")).unwrap();
        drop(store);
        let store = open(dir.path(), "two").unwrap();
        assert!(store.sessions().unwrap().is_empty());
        assert!(store.kept().unwrap().is_empty());
        assert!(store.unfinished_reaps().unwrap().is_empty());
        let done = store.reap("done").unwrap().unwrap();
        assert_eq!(
            (done.state, done.report.as_deref()),
            (ReapState::Done, Some("{\"x\":1}"))
        );
        assert_eq!(
            store.reap("cut").unwrap().unwrap().state,
            ReapState::Interrupted
        );
    }

    #[test]
    fn a_reap_that_waits_keeps_its_report_and_its_place_in_a_full_history() {
        let dir = tempfile::tempdir().unwrap();
        let limits = Limits {
            reaps: 1,
            ..Limits::default()
        };
        let mut store = Store::open(&dir.path().join("state.db"), "one", limits).unwrap();
        store.begin_reap(&reap("w")).unwrap();
        store.postpone_reap("w", 7, Some("{}"), None).unwrap();
        for id in ["a", "b"] {
            store.begin_reap(&reap(id)).unwrap();
            store.finish_reap(id, Ok("{}"), &[]).unwrap();
        }
        let waiting = store.waiting_reaps().unwrap();
        assert_eq!(waiting.len(), 1);
        assert_eq!(
            (waiting[0].state, waiting[0].due_ms),
            (ReapState::Waiting, Some(7))
        );
        store.resume_reap("w", "{\"again\":1}").unwrap();
        let resumed = store.unfinished_reaps().unwrap();
        assert_eq!((resumed[0].attempts, resumed[0].due_ms), (2, None));
        assert_eq!(resumed[0].request, "{\"again\":1}");
        store.postpone_reap("w", 9, None, Some("hangs")).unwrap();
        store.give_up_reap("w", "enough").unwrap();
        let given_up = store.reap("w").unwrap().unwrap();
        assert_eq!(given_up.state, ReapState::Failed);
        assert_eq!(
            (given_up.report.as_deref(), given_up.error.as_deref()),
            (Some("{}"), Some("enough"))
        );
        assert!(given_up.finished_ms.is_some() && given_up.due_ms.is_none());
    }

    #[test]
    fn a_second_daemon_is_told_so() {
        let dir = tempfile::tempdir().unwrap();
        let _first = open(dir.path(), "one").unwrap();
        assert!(matches!(
            open(dir.path(), "one"),
            Err(StoreError::InUse { .. })
        ));
    }

    #[test]
    fn a_file_that_is_no_database_is_corrupt_and_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.db");
        std::fs::write(&path, [b'x'; 8192]).unwrap();
        assert!(matches!(
            open(dir.path(), "one"),
            Err(StoreError::Corrupt { .. })
        ));
        assert_eq!(std::fs::read(&path).unwrap(), [b'x'; 8192]);
    }

    #[test]
    fn a_damaged_page_is_corrupt() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path(), "one").unwrap();
        for id in 1..200 {
            store.save_session(&session(id)).unwrap();
        }
        drop(store);
        let path = dir.path().join("state.db");
        let mut bytes = std::fs::read(&path).unwrap();
        let end = bytes.len();
        bytes[4096..end].fill(0xa5);
        std::fs::write(&path, &bytes).unwrap();
        assert!(matches!(
            open(dir.path(), "one"),
            Err(StoreError::Corrupt { .. })
        ));
    }

    #[test]
    fn a_schema_of_the_future_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), "one").unwrap();
        store.db.pragma_update(None, "user_version", 99).unwrap();
        drop(store);
        assert!(matches!(
            open(dir.path(), "one"),
            Err(StoreError::Version { found: 99, .. })
        ));
    }

    #[test]
    fn a_full_disk_fails_the_request_and_loses_nothing_older() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path(), "one").unwrap();
        store.save_session(&session(5)).unwrap();
        let pages: i64 = store
            .db
            .pragma_query_value(None, "page_count", |row| row.get(0))
            .unwrap();
        // SQLite reports its own limit as it reports ENOSPC: SQLITE_FULL.
        store
            .db
            .pragma_update(None, "max_page_count", pages)
            .unwrap();
        let mut big = session(6);
        big.name = "x".repeat(1 << 20);
        assert!(matches!(
            store.save_session(&big),
            Err(StoreError::Full { .. })
        ));
        assert_eq!(store.sessions().unwrap().len(), 1);
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = open(&dir.path().join("none"), "one").unwrap_err();
        assert!(error.to_string().contains("none/state.db"), "{error}");
    }

    #[test]
    fn history_is_bounded_by_count_and_by_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let limits = Limits {
            reaps: 3,
            report_bytes: 100,
        };
        let mut store = Store::open(&dir.path().join("state.db"), "one", limits).unwrap();
        let mut finish = |id: &str, report: &str| {
            store.begin_reap(&reap(id)).unwrap();
            store.finish_reap(id, Ok(report), &[]).unwrap();
            store
                .reaps(None, None, 10)
                .unwrap()
                .into_iter()
                .map(|reap| reap.id)
                .collect::<Vec<_>>()
        };
        for id in ["a", "b", "c"] {
            finish(id, "{}");
        }
        assert_eq!(finish("d", "{}"), ["d", "c", "b"]);
        // One that is larger than the limit alone is kept: it was asked for just now.
        assert_eq!(finish("e", &"x".repeat(200)), ["e"]);
    }
}
