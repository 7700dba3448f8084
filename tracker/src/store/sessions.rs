//! Sessions and kept processes.

use std::str::FromStr;

use rusqlite::{Row, params};

use super::Store;
use super::error::StoreError;
use crate::process::ProcessId;
use crate::session::{KeepRule, Session, SessionState};

impl Store {
    /// Writes a session, or what has changed of it.
    pub fn save_session(&mut self, session: &Session) -> Result<(), StoreError> {
        let boot = self.boot.clone();
        let roots = lines(&session.roots);
        let keep: serde_json::Value = session.keep.iter().map(ToString::to_string).collect();
        let workdir = session.workdir.as_ref().map(serde_json::to_string);
        let workdir = workdir
            .transpose()
            .map_err(|error| self.row("session", error.to_string()))?;
        self.write("write a session to", |transaction| {
            transaction.execute(
                "INSERT OR REPLACE INTO sessions
                 (id, boot, name, roots, parent, owner_uid, keep, late, opened_ns, workdir)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                params![
                    session.id.to_string(),
                    boot,
                    session.name,
                    roots,
                    session.parent.map(|id| id.to_string()),
                    session.owner_uid,
                    keep.to_string(),
                    session.late,
                    // Boot time fits in 63 bits for 292 years.
                    i64::try_from(session.opened_ns).unwrap_or(i64::MAX),
                    workdir,
                ],
            )?;
            Ok(())
        })
    }

    /// Forgets a session. Those inside it move up, as in the registry.
    pub fn remove_session(&mut self, session: &Session) -> Result<(), StoreError> {
        self.write("remove a session from", |transaction| {
            transaction.execute(
                "UPDATE sessions SET parent = ?1 WHERE parent = ?2",
                params![
                    session.parent.map(|id| id.to_string()),
                    session.id.to_string()
                ],
            )?;
            transaction.execute(
                "DELETE FROM sessions WHERE id = ?1",
                [session.id.to_string()],
            )?;
            Ok(())
        })
    }

    /// The sessions of this boot, oldest first.
    pub fn sessions(&self) -> Result<Vec<Session>, StoreError> {
        let rows = self.read("read the sessions of", |db| {
            db.prepare("SELECT * FROM sessions ORDER BY opened_ns, id")?
                .query_map([], SessionRow::read)?
                .collect::<rusqlite::Result<Vec<_>>>()
        })?;
        rows.into_iter()
            .map(|row| row.parse().map_err(|detail| self.row("session", detail)))
            .collect()
    }

    /// Writes that a process is kept.
    pub fn keep(&mut self, id: ProcessId) -> Result<(), StoreError> {
        let boot = self.boot.clone();
        self.write("write a kept process to", |transaction| {
            transaction.execute(
                "INSERT OR REPLACE INTO kept (process, boot) VALUES (?1, ?2)",
                params![id.to_string(), boot],
            )?;
            Ok(())
        })
    }

    /// Forgets the kept processes that `is_gone` says are gone.
    pub fn forget_kept(&mut self, is_gone: impl Fn(ProcessId) -> bool) -> Result<(), StoreError> {
        let gone: Vec<_> = self.kept()?.into_iter().filter(|id| is_gone(*id)).collect();
        self.write("remove kept processes from", |transaction| {
            for id in gone {
                transaction.execute("DELETE FROM kept WHERE process = ?1", [id.to_string()])?;
            }
            Ok(())
        })
    }

    /// The processes of this boot that were kept by hand.
    pub fn kept(&self) -> Result<Vec<ProcessId>, StoreError> {
        let rows = self.read("read the kept processes of", |db| {
            db.prepare("SELECT process FROM kept ORDER BY process")?
                .query_map([], |row| row.get::<_, String>(0))?
                .collect::<rusqlite::Result<Vec<_>>>()
        })?;
        rows.iter()
            .map(|row| parse(row).map_err(|detail| self.row("kept process", detail)))
            .collect()
    }

    fn row(&self, what: &'static str, detail: String) -> StoreError {
        StoreError::Row {
            what,
            path: self.path.clone(),
            detail,
        }
    }
}

/// A row as it is in the file.
struct SessionRow {
    id: String,
    name: String,
    roots: String,
    parent: Option<String>,
    owner_uid: u32,
    keep: String,
    late: bool,
    opened_ns: i64,
    workdir: Option<String>,
}

impl SessionRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
        Ok(SessionRow {
            id: row.get("id")?,
            name: row.get("name")?,
            roots: row.get("roots")?,
            parent: row.get("parent")?,
            owner_uid: row.get("owner_uid")?,
            keep: row.get("keep")?,
            late: row.get("late")?,
            opened_ns: row.get("opened_ns")?,
            workdir: row.get("workdir")?,
        })
    }

    fn parse(self) -> Result<Session, String> {
        let keep: Vec<String> = serde_json::from_str(&self.keep).map_err(|e| e.to_string())?;
        Ok(Session {
            id: parse(&self.id)?,
            name: self.name,
            roots: self.roots.lines().map(parse).collect::<Result<_, _>>()?,
            parent: self.parent.as_deref().map(parse).transpose()?,
            owner_uid: self.owner_uid,
            keep: keep
                .iter()
                .map(|rule| parse::<KeepRule>(rule))
                .collect::<Result<_, _>>()?,
            workdir: self
                .workdir
                .as_deref()
                .map(serde_json::from_str)
                .transpose()
                .map_err(|error| error.to_string())?,
            late: self.late,
            opened_ns: u64::try_from(self.opened_ns).map_err(|e| e.to_string())?,
            // A reap that was under way is a record of its own.
            state: SessionState::Open,
        })
    }
}

fn lines(ids: &[ProcessId]) -> String {
    ids.iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

fn parse<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|error: T::Err| format!("{text:?}: {error}"))
}
