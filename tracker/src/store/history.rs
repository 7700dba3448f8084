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
    /// Who asked for it.
    pub owner_uid: u32,
    /// How often it was begun; more than once after a crash of the daemon.
    pub attempts: u32,
    /// Unix time in milliseconds.
    pub requested_ms: i64,
    /// Unix time in milliseconds.
    pub finished_ms: Option<i64>,
    /// The report: JSON.
    pub report: Option<String>,
    /// Why there is no report.
    pub error: Option<String>,
}

/// Where a reap is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReapState {
    /// Signals may have been sent.
    Running,
    /// There is a report.
    Done,
    /// There is none, because of an error.
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
                "INSERT INTO reaps (id, boot, state, session, owner_uid, request, attempts, requested_ms)
                 VALUES (?1, ?2, 'running', ?3, ?4, ?5, 1, ?6)",
                params![
                    reap.id,
                    boot,
                    reap.session.map(|id| id.to_string()),
                    reap.owner_uid,
                    reap.request,
                    unix_ms(),
                ],
            )?;
            Ok(())
        })
    }

    /// Records that a reap is begun once more.
    pub fn resume_reap(&mut self, id: &str) -> Result<(), StoreError> {
        self.write("record a resumed reap in", |transaction| {
            transaction.execute(
                "UPDATE reaps SET attempts = attempts + 1 WHERE id = ?1",
                [id],
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
                "UPDATE reaps SET state = ?2, finished_ms = ?3, report = ?4, error = ?5 WHERE id = ?1",
                params![id, state, unix_ms(), outcome.ok(), outcome.err()],
            )?;
            for session in closed {
                transaction
                    .execute("DELETE FROM sessions WHERE id = ?1", [session.id.to_string()])?;
            }
            transaction.execute(
                "DELETE FROM reaps WHERE number IN (
                   SELECT number FROM (
                     SELECT number, row_number() OVER newest AS place,
                            sum(ifnull(length(report), 0)) OVER newest AS bytes
                     FROM reaps WHERE state <> 'running' WINDOW newest AS (ORDER BY number DESC)
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
        self.read("read the unfinished reaps of", |db| {
            db.prepare("SELECT * FROM reaps WHERE state = 'running' ORDER BY number")?
                .query_map([], read)?
                .collect()
        })
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<ReapRecord> {
    let state: String = row.get("state")?;
    Ok(ReapRecord {
        id: row.get("id")?,
        // The table's own check leaves no fifth state.
        state: match state.as_str() {
            "running" => ReapState::Running,
            "done" => ReapState::Done,
            "failed" => ReapState::Failed,
            _ => ReapState::Interrupted,
        },
        request: row.get("request")?,
        session: row.get("session")?,
        owner_uid: row.get("owner_uid")?,
        attempts: row.get("attempts")?,
        requested_ms: row.get("requested_ms")?,
        finished_ms: row.get("finished_ms")?,
        report: row.get("report")?,
        error: row.get("error")?,
    })
}

fn unix_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
