//! What can go wrong with the durable state.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// The durable state could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the file.
    #[error("{} is in use by another tracker daemon", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged, or is something else.
    #[error(
        "{} is damaged or no database ({detail}); move it away to start with nothing",
        path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// A newer tracker wrote it.
    #[error(
        "{} has format {found}, and this tracker knows up to {known}; use the newer tracker, or move it away",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest one that is known.
        known: i64,
    },
    /// No room is left.
    #[error("cannot write {}: the disk is full", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// Something else, like a directory that is missing or must not be written.
    #[error("cannot {what} {}: {source}", path.display())]
    Sql {
        /// What was tried, as a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// SQLite's answer.
        source: rusqlite::Error,
    },
    /// A row does not hold what was written there.
    #[error("{} holds a {what} that cannot be read: {detail}", path.display())]
    Row {
        /// Of which kind.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
}

impl StoreError {
    pub(super) fn at(path: &Path, what: &'static str, source: rusqlite::Error) -> StoreError {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::InUse { path },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt {
                path,
                detail: source.to_string(),
            },
            Some(ErrorCode::DiskFull) => StoreError::Full { path },
            _ => StoreError::Sql { what, path, source },
        }
    }
}
