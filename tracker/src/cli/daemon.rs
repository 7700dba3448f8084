//! Talking to the daemon.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tracker_ebpf::ABI;

use super::exit::{Exit, Failure};
use super::process_arg::ProcessArg;
use crate::api::{ErrorCode, ProcessRef};
use crate::client::{ClientError, DEFAULT_SOCKET, blocking, default_socket};
use crate::process::{Clock, Pid, Proc, ProcessId, StartTime};

/// Where the daemon of the host keeps its probe.
pub(super) const PIN_DIR: &str = "/sys/fs/bpf/tracker";

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

/// A question about one process.
#[derive(Debug, clap::Args)]
pub(super) struct Question {
    /// The process: PID or PID@START
    #[arg(value_name = "PID")]
    process: ProcessArg,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    connect: Connect,
}

impl Question {
    /// Puts it to the daemon.
    pub(super) fn ask<T>(
        &self,
        proc: &Proc,
        ask: impl FnOnce(&blocking::Client, ProcessRef) -> Result<T, ClientError>,
    ) -> Result<T, Failure> {
        let process = self.process.for_daemon(proc);
        let client = self.connect.client()?;
        ask(&client, process).map_err(failure)
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

/// Whether there is nobody to ask, and nobody's sessions to harm: an error when
/// a daemon has been there and is down, for whose the processes are is not known
/// without it.
pub(super) fn is_without_daemon(error: &ClientError) -> Result<bool, Failure> {
    let ClientError::NoDaemon { socket, source } = error else {
        return Ok(false);
    };
    let is_usual = socket == Path::new(DEFAULT_SOCKET);
    let is_pinned = is_usual && Path::new(PIN_DIR).join(format!("v{ABI}")).exists();
    if source.kind() == ErrorKind::NotFound && !is_pinned {
        return Ok(true);
    }
    let why = format!(
        "the daemon at {} is down, and whose the processes are is not known without it; \
         start it again ('tracker serve'), or say --standalone to end them all the same",
        socket.display()
    );
    Err(Failure::new(Exit::REFUSED, anyhow::anyhow!(why)))
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
