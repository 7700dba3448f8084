//! Talking to the daemon.

use std::path::PathBuf;

use super::exit::{Exit, Failure};
use crate::api::{ErrorCode, ProcessRef};
use crate::client::{ClientError, blocking, default_socket};
use crate::process::{Clock, Pid, Proc, ProcessId, StartTime};

/// Which daemon.
#[derive(Debug, clap::Args)]
pub(super) struct Connect {
    /// The daemon's socket [default: $`TRACKER_SOCKET`, or /run/tracker/tracker.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Connect {
    /// A client of it. Whether it is there shows with the first request.
    pub(super) fn client(&self) -> Result<blocking::Client, ClientError> {
        blocking::Client::new(self.socket.clone().unwrap_or_else(default_socket))
    }
}

/// An error of the daemon's with the exit status that fits: what it refuses
/// for want of permission is refused.
pub(super) fn failure(error: ClientError) -> Failure {
    match &error {
        ClientError::Refused(detail)
            if matches!(detail.code, ErrorCode::Forbidden | ErrorCode::Refused) =>
        {
            Failure::new(Exit::REFUSED, error)
        }
        ClientError::Refused(detail) if detail.code == ErrorCode::BadRequest => {
            Failure::new(Exit::USAGE, error)
        }
        _ => error.into(),
    }
}

/// The process that started this one: the shell that `--self` means.
pub(super) fn parent() -> Result<ProcessRef, Failure> {
    let proc = Proc::open()?;
    let own = proc.seen(Pid::own())?;
    let parent = match own.and_then(|own| own.stat.parent) {
        Some(parent) => proc.seen(parent)?,
        None => None,
    };
    let parent = parent.ok_or_else(|| anyhow::anyhow!("the parent of this process is gone"))?;
    Ok(ProcessRef::Exact(parent.id))
}

/// `PID@START` as `/proc` shows it here.
pub(super) fn shown(clock: Clock, pid: Pid, start_ticks: u64) -> String {
    ProcessId::new(pid, clock.to_shown(StartTime::from_ticks(start_ticks))).to_string()
}
