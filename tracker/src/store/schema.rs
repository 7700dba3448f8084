//! The tables, and the settings of the connection.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::error::StoreError;

/// Version of the tables, kept in the file as `user_version`.
const VERSION: i64 = 1;

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
        opened_ns INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE kept (
        process TEXT PRIMARY KEY,
        boot TEXT NOT NULL
    ) STRICT;
    CREATE TABLE reaps (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        boot TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'interrupted')),
        session TEXT,
        owner_uid INTEGER NOT NULL,
        request TEXT NOT NULL,
        attempts INTEGER NOT NULL,
        requested_ms INTEGER NOT NULL,
        finished_ms INTEGER,
        report TEXT,
        error TEXT
    ) STRICT;
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
    if found == 0 {
        let create = |db: &mut Connection| {
            let transaction = db.transaction()?;
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
            transaction.commit()
        };
        create(db).map_err(error("create"))?;
    }
    Ok(())
}
