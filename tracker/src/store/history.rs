//! Reaps: the ones that run, and those that are over.

use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use super::Store;
use super::error::StoreError;
use crate::lineage::SessionId;
use crate::session::Session;

/// How much of the past is kept. The oldest goes first.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Finished reaps.
    pub reaps: u32,
    /// Bytes of their reports. The last one is kept however large it is.
    pub report_bytes: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            reaps: 1000,
            report_bytes: 64 << 20,
        }
    }
}

/// A reap that is about to begin.
#[derive(Clone, Debug)]
pub struct NewReap {
    /// Names it.
    pub id: String,
    /// What was asked for: JSON.
    pub request: String,
    /// The session that it ends, if it is one.
    pub session: Option<SessionId>,
    /// The directory that it is about, or that its session works in, escaped.
    pub directory: Option<String>,
    /// Who asked for it.
    pub owner_uid: u32,
}

/// A reap as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReapRecord {
    /// Names it.
    pub id: String,
    /// Where it is in its life.
    pub state: ReapState,
    /// What was asked for: JSON.
    pub request: String,
    /// The session that it ends, if it is one.
    pub session: Option<String>,
    /// The directory that it is about, or that its session works in, escaped.
    pub directory: Option<String>,
    /// Who asked for it.
    pub owner_uid: u32,
    /// How often it was begun.
    pub attempts: u32,
    /// Unix time in milliseconds.
    pub requested_ms: i64,
    /// Unix time in milliseconds.
    pub finished_ms: Option<i64>,
    /// When the next attempt is due, while it waits: Unix time in milliseconds.
    pub due_ms: Option<i64>,
    /// The report of all attempts so far: JSON.
    pub report: Option<String>,
    /// Why there is no report, or no further attempt.
    pub error: Option<String>,
}

/// Where a reap is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReapState {
    /// Signals may have been sent.
    Running,
    /// An attempt has left somebody alive; there will be another.
    Waiting,
    /// There is a report.
    Done,
    /// It could not be done, or was given up.
    Failed,
    /// The host went down before it was over.
    Interrupted,
}

impl Store {
    /// Records a reap before its first signal.
    pub fn begin_reap(&mut self, reap: &NewReap) -> Result<(), StoreError> {
        let boot = self.boot.clone();
        self.write("record a reap in", |transaction| {
            transaction.execute(
                "INSERT INTO reaps (id, boot, state, session, directory, owner_uid, request, attempts, requested_ms)
                 VALUES (?1, ?2, 'running', ?3, ?4, ?5, ?6, 1, ?7)",
                params![
                    reap.id,
                    boot,
                    reap.session.map(|id| id.to_string()),
                    reap.directory,
                    reap.owner_uid,
                    reap.request,
                    unix_ms(),
                ],
            )?;
            Ok(())
        })
    }

    /// Records that a reap is begun once more, by this request.
    pub fn resume_reap(&mut self, id: &str, request: &str) -> Result<(), StoreError> {
        self.write("record a resumed reap in", |transaction| {
            transaction.execute(
                "UPDATE reaps SET state = 'running', due_ms = NULL, error = NULL,
                                  attempts = attempts + 1, request = ?2 WHERE id = ?1",
                [id, request],
            )?;
            Ok(())
        })
    }

    /// Records what an attempt has done, and when the next one is due. Without
    /// a report of its own, the one of the attempts before stays.
    pub fn postpone_reap(
        &mut self,
        id: &str,
        due_ms: i64,
        report: Option<&str>,
        error: Option<&str>,
    ) -> Result<(), StoreError> {
        self.write("record an attempt of a reap in", |transaction| {
            transaction.execute(
                "UPDATE reaps SET state = 'waiting', due_ms = ?2, report = ifnull(?3, report),
                                  error = ?4 WHERE id = ?1",
                params![id, due_ms, report, error],
            )?;
            Ok(())
        })
    }

    /// Records that there will be no further attempt. The report of those that
    /// were made stays.
    pub fn give_up_reap(&mut self, id: &str, why: &str) -> Result<(), StoreError> {
        self.write("record the end of a reap in", |transaction| {
            transaction.execute(
                "UPDATE reaps SET state = 'failed', due_ms = NULL, finished_ms = ?2, error = ?3
                 WHERE id = ?1",
                params![id, unix_ms(), why],
            )?;
            Ok(())
        })
    }

    /// Records the report of a reap, or why there is none, and that the
    /// sessions that it ended are over; forgets the oldest.
    pub fn finish_reap(
        &mut self,
        id: &str,
        outcome: Result<&str, &str>,
        closed: &[Session],
    ) -> Result<(), StoreError> {
        let limits = self.limits;
        self.write("record the outcome of a reap in", |transaction| {
            let state = if outcome.is_ok() { "done" } else { "failed" };
            transaction.execute(
                "UPDATE reaps SET state = ?2, due_ms = NULL, finished_ms = ?3,
                                  report = ifnull(?4, report), error = ?5
                 WHERE id = ?1",
                params![id, state, unix_ms(), outcome.ok(), outcome.err()],
            )?;
            for session in closed {
                transaction.execute(
                    "DELETE FROM sessions WHERE id = ?1",
                    [session.id.to_string()],
                )?;
            }
            transaction.execute(
                "DELETE FROM reaps WHERE number IN (
                   SELECT number FROM (
                     SELECT number, row_number() OVER newest AS place,
                            sum(ifnull(length(report), 0)) OVER newest AS bytes
                     FROM reaps WHERE state NOT IN ('running', 'waiting')
                     WINDOW newest AS (ORDER BY number DESC)
                   ) WHERE place > 1 AND (place > ?1 OR bytes > ?2))",
                [limits.reaps, limits.report_bytes],
            )?;
            Ok(())
        })
    }

    /// One reap.
    pub fn reap(&self, id: &str) -> Result<Option<ReapRecord>, StoreError> {
        self.read("read a reap of", |db| {
            db.query_row("SELECT * FROM reaps WHERE id = ?1", [id], read)
                .optional()
        })
    }

    /// Whether a reap of this directory, escaped, is remembered.
    pub fn knows_directory(&self, directory: &str) -> Result<bool, StoreError> {
        self.read("look up a directory in", |db| {
            db.prepare("SELECT 1 FROM reaps WHERE directory = ?1 LIMIT 1")?
                .exists([directory])
        })
    }

    /// The last `count` reaps, newest first: of one session, of one user, or all.
    pub fn reaps(
        &self,
        session: Option<&str>,
        owner_uid: Option<u32>,
        count: u32,
    ) -> Result<Vec<ReapRecord>, StoreError> {
        self.read("read the reaps of", |db| {
            db.prepare(
                "SELECT * FROM reaps
                 WHERE (?1 IS NULL OR session = ?1) AND (?2 IS NULL OR owner_uid = ?2)
                 ORDER BY number DESC LIMIT ?3",
            )?
            .query_map(params![session, owner_uid, count], read)?
            .collect()
        })
    }

    /// The reaps that a crash has cut short, oldest first.
    pub fn unfinished_reaps(&self) -> Result<Vec<ReapRecord>, StoreError> {
        self.reaps_in("running")
    }

    /// The reaps of which another attempt is due some time, oldest first.
    pub fn waiting_reaps(&self) -> Result<Vec<ReapRecord>, StoreError> {
        self.reaps_in("waiting")
    }

    fn reaps_in(&self, state: &str) -> Result<Vec<ReapRecord>, StoreError> {
        self.read("read the unfinished reaps of", |db| {
            db.prepare("SELECT * FROM reaps WHERE state = ?1 ORDER BY number")?
                .query_map([state], read)?
                .collect()
        })
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<ReapRecord> {
    let state: String = row.get("state")?;
    Ok(ReapRecord {
        id: row.get("id")?,
        // The table's own check leaves no other state.
        state: match state.as_str() {
            "running" => ReapState::Running,
            "waiting" => ReapState::Waiting,
            "done" => ReapState::Done,
            "failed" => ReapState::Failed,
            _ => ReapState::Interrupted,
        },
        request: row.get("request")?,
        session: row.get("session")?,
        directory: row.get("directory")?,
        owner_uid: row.get("owner_uid")?,
        attempts: row.get("attempts")?,
        requested_ms: row.get("requested_ms")?,
        finished_ms: row.get("finished_ms")?,
        due_ms: row.get("due_ms")?,
        report: row.get("report")?,
        error: row.get("error")?,
    })
}

/// Unix time in milliseconds.
pub fn unix_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
