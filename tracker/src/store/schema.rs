//! The tables, and the settings of the connection.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::error::StoreError;

/// Version of the tables, kept in the file as `user_version`.
const VERSION: i64 = 2;

/// Identities and ids are text as users see them, so that the file can be
/// read with `sqlite3` when all else is broken.
const TABLES: &str = "
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY,
        boot TEXT NOT NULL,
        name TEXT NOT NULL,
        roots TEXT NOT NULL,
        parent TEXT,
        owner_uid INTEGER NOT NULL,
        keep TEXT NOT NULL,
        late INTEGER NOT NULL,
        opened_ns INTEGER NOT NULL,
        workdir TEXT
    ) STRICT;
    CREATE TABLE kept (
        process TEXT PRIMARY KEY,
        boot TEXT NOT NULL
    ) STRICT;
";

const REAPS: &str = "
    CREATE TABLE reaps (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        boot TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('running', 'waiting', 'done', 'failed', 'interrupted')),
        session TEXT,
        owner_uid INTEGER NOT NULL,
        request TEXT NOT NULL,
        attempts INTEGER NOT NULL,
        requested_ms INTEGER NOT NULL,
        finished_ms INTEGER,
        report TEXT,
        error TEXT,
        directory TEXT,
        due_ms INTEGER
    ) STRICT;
";

/// What brings a file of version 1 to version 2, together with [`REAPS`]: a
/// table's check cannot be changed.
const FROM_1: &str = "
    ALTER TABLE sessions ADD COLUMN workdir TEXT;
    ALTER TABLE reaps RENAME TO reaps_1;
";
const FROM_1_COPY: &str = "
    INSERT INTO reaps (number, id, boot, state, session, owner_uid, request, attempts,
                       requested_ms, finished_ms, report, error)
    SELECT number, id, boot, state, session, owner_uid, request, attempts,
           requested_ms, finished_ms, report, error FROM reaps_1;
    DROP TABLE reaps_1;
";

/// Makes a new file ready, or checks an old one. Nothing is written to a file
/// that is not understood.
pub(super) fn prepare(db: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let error = |what| move |error| StoreError::at(path, what, error);
    db.busy_timeout(Duration::ZERO).map_err(error("open"))?;
    // Exclusive for as long as the connection lives: two daemons on one file
    // would each answer for sessions that the other one ends.
    db.pragma_update(None, "locking_mode", "EXCLUSIVE")
        .map_err(error("lock"))?;
    let found: i64 = db
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(error("read"))?;
    if !(0..=VERSION).contains(&found) {
        return Err(StoreError::Version {
            path: path.to_owned(),
            found,
            known: VERSION,
        });
    }
    let check: String = db
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(error("check"))?;
    if check != "ok" {
        return Err(StoreError::Corrupt {
            path: path.to_owned(),
            detail: check,
        });
    }
    db.pragma_update(None, "journal_mode", "WAL")
        .map_err(error("write"))?;
    db.pragma_update(None, "synchronous", "FULL")
        .map_err(error("write"))?;
    // A hundred pages of log are enough for what is written here.
    db.pragma_update(None, "journal_size_limit", 1 << 20)
        .map_err(error("write"))?;
    match found {
        0 => change(db, &[TABLES, REAPS]).map_err(error("create")),
        1 => change(db, &[FROM_1, REAPS, FROM_1_COPY]).map_err(error("bring up to date")),
        _ => Ok(()),
    }
}

/// All of it, with the version that it leads to, or nothing.
fn change(db: &mut Connection, statements: &[&str]) -> rusqlite::Result<()> {
    let transaction = db.transaction()?;
    for statement in statements {
        transaction.execute_batch(statement)?;
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, Store};

    #[test]
    fn a_file_of_the_first_version_is_brought_up_to_date() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.db");
        let db = rusqlite::Connection::open(&path).unwrap();
        db.execute_batch(include_str!("version_1.sql")).unwrap();
        drop(db);
        let mut store = Store::open(&path, "one", Limits::default()).unwrap();
        let sessions = store.sessions().unwrap();
        assert_eq!((sessions.len(), sessions[0].name.as_str()), (1, "job"));
        assert!(sessions[0].workdir.is_none());
        let reaps = store.reaps(None, None, 10).unwrap();
        let ids: Vec<_> = reaps.iter().map(|reap| reap.id.as_str()).collect();
        assert_eq!(ids, ["second", "first"]);
        assert_eq!(store.unfinished_reaps().unwrap().len(), 1);
        // Its reaps can wait, as those of this version.
        store.postpone_reap("second", 5, None, Some("no")).unwrap();
        drop(store);
        let store = Store::open(&path, "one", Limits::default()).unwrap();
        assert_eq!(store.waiting_reaps().unwrap()[0].due_ms, Some(5));
    }
}
