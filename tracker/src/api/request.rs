//! Requests. An unknown field is an error: a misspelt `dry_run` must not kill.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::process_ref::ProcessRef;
use crate::lineage::SessionId;
use crate::process::FilePath;

/// The longest grace that can be asked for: a day, in milliseconds.
pub const MAX_GRACE_MS: u64 = 24 * 60 * 60 * 1000;

/// The longest name of a session, in bytes.
pub const MAX_NAME_LEN: usize = 255;

/// Opens a session for a process that is running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenSession {
    /// What to call it; `session-PID` when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The process that it is for. What it creates from now on are members;
    /// those of its descendants that can be found now are as well.
    pub pid: ProcessRef,
    /// Whom a reap spares: names, paths, patterns like `redis-*`, or `PID@START`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<String>,
    /// The directory that it works in and that goes away after it: whoever has
    /// its working directory there when the session is closed, and is nobody
    /// else's, is ended too. An absolute path of a directory that is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<FilePath>,
}

/// Ends a session: reaps what it owns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CloseSession {
    /// The time between SIGTERM and SIGKILL, milliseconds, up to a day.
    #[serde(default = "default_grace")]
    #[schema(default = 5000, maximum = 86_400_000)]
    pub grace_ms: u64,
    /// Only say what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

/// Ends processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReapRequest {
    /// Which.
    pub target: ReapTarget,
    /// The time between SIGTERM and SIGKILL, milliseconds, up to a day.
    #[serde(default = "default_grace")]
    #[schema(default = 5000, maximum = 86_400_000)]
    pub grace_ms: u64,
    /// Only say what would be done.
    #[serde(default)]
    pub dry_run: bool,
    /// Spare the process itself, or the session's roots.
    #[serde(default)]
    pub exclude_root: bool,
}

/// Which processes are to be ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ReapTarget {
    /// What a session owns. It stays open.
    Session {
        /// Its id or its name.
        session: String,
    },
    /// A process and its descendants.
    Process {
        /// Which one.
        pid: ProcessRef,
    },
    /// Whoever has its working directory in a directory, and is nobody else's.
    /// Tried again until nobody is left.
    Directory {
        /// An absolute path. Symbolic links are followed now.
        path: FilePath,
        /// It may be there still, as it is about to be removed.
        #[serde(default)]
        live: bool,
        /// Who uses files in it is ended as well.
        #[serde(default)]
        open_files: bool,
    },
}

/// Spares a process and its descendants in every reap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Keep {
    /// Which one. One that is no member of a session of the caller's may be kept by
    /// root only.
    pub pid: ProcessRef,
}

/// Which part of the tree to show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TreeQuery {
    /// The members of this session, by id or name, and of those inside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// This process and its descendants: `PID` or `PID@START`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<String>,
    /// The dead as well, as far as they are remembered.
    #[serde(default)]
    pub all: bool,
}

/// Which events to send.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// Those of this session, by id or name, and of those inside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// Which reaps to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ReapsQuery {
    /// Those of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub session: Option<SessionId>,
}

impl Default for CloseSession {
    fn default() -> CloseSession {
        CloseSession {
            grace_ms: default_grace(),
            dry_run: false,
        }
    }
}

fn default_grace() -> u64 {
    5000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_field_is_an_error() {
        for json in [r#"{"dryrun":true}"#, r#"{"grace":1}"#] {
            assert!(
                serde_json::from_str::<CloseSession>(json).is_err(),
                "{json}"
            );
        }
        let json = r#"{"target":{"kind":"session","session":"a","pid":1}}"#;
        assert!(serde_json::from_str::<ReapRequest>(json).is_err());
    }

    #[test]
    fn an_empty_request_has_the_defaults_of_the_command_line() {
        let request: CloseSession = serde_json::from_str("{}").unwrap();
        assert_eq!(
            request,
            CloseSession {
                grace_ms: 5000,
                dry_run: false
            }
        );
    }
}
