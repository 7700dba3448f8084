//! The whole daemon: from an empty process to the last answer.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};

use super::connection;
use super::exporter::Exporter;
use super::listen::{ListenError, Listener};
use super::routes;
use crate::process::{Proc, ProcError};
use crate::service::{Drain, Service, ServiceError};
use crate::session::Tracking;
use crate::store::{self, Limits, Store, StoreError};

/// Threads for requests that block. They take turns at one lock, so more of
/// them would only take memory.
const BLOCKING_THREADS: usize = 8;

/// What a daemon needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen, unless the service manager passed a socket.
    pub socket: PathBuf,
    /// Where the durable state lies. Created with mode 0700.
    pub state_dir: PathBuf,
    /// The group whose members may do all that root may.
    pub group: String,
    /// Where the metrics can be read over TCP, by anybody.
    pub metrics: Option<SocketAddr>,
}

/// A daemon that has its socket and its state, and tracks nothing yet. So a
/// second daemon ends before it touches what the first one tracks.
#[derive(Debug)]
pub struct Daemon {
    listener: Listener,
    exporter: Option<Exporter>,
    store: Store,
    group: Option<u32>,
}

impl Daemon {
    /// Takes the socket and the state, or says who has them.
    pub fn new(config: &Config) -> Result<Daemon, DaemonError> {
        let listener = match passed_socket()? {
            Some(socket) => Listener::passed(socket)?,
            None => Listener::bind(&config.socket)?,
        };
        let exporter = config.metrics.map(Exporter::bind).transpose()?;
        make_state_dir(&config.state_dir)?;
        let boot = store::boot_id().map_err(DaemonError::BootId)?;
        let store = Store::open(&config.state_dir.join("state.db"), &boot, Limits::default())?;
        let group =
            nix::unistd::Group::from_name(&config.group).map_err(|errno| DaemonError::Group {
                name: config.group.clone(),
                source: errno.into(),
            })?;
        if group.is_none() {
            tracing::info!("there is no group '{}': only root may do all", config.group);
        }
        raise_descriptor_limit();
        Ok(Daemon {
            listener,
            exporter,
            store,
            group: group.map(|group| group.gid.as_raw()),
        })
    }

    /// Takes over from the daemon before, then answers requests until SIGTERM
    /// or SIGINT.
    pub fn run(self, tracking: Tracking) -> Result<(), DaemonError> {
        let proc = Proc::open()?;
        let service =
            Service::new(tracking, self.store, Proc::open()?).map_err(DaemonError::System)?;
        let recovered = service.recover()?;
        if recovered.sessions + recovered.reaps > 0 {
            tracing::info!(
                "took over {} sessions and {} reaps",
                recovered.sessions,
                recovered.reaps
            );
        }
        let drain = Drain::start(&service).map_err(DaemonError::System)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS)
            .build()
            .map_err(DaemonError::System)?;
        let served = runtime.block_on(async {
            let stop = stop_signal(Arc::clone(&service)).map_err(DaemonError::System)?;
            let listener = self.listener.to_tokio().map_err(DaemonError::System)?;
            let router = routes::router(Arc::clone(&service));
            if let Some(exporter) = self.exporter {
                let router = routes::metrics_only(Arc::clone(&service));
                exporter.spawn(router).map_err(DaemonError::System)?;
            }
            tell_service_manager(&[sd_notify::NotifyState::Ready]);
            connection::accept(listener, router, &proc, self.group, stop).await;
            Ok(())
        });
        // Also when serving failed: the threads must not outlive this.
        service.shut_down();
        drain.join();
        served
    }
}

/// Ready at SIGTERM or SIGINT, when the reaps under way have stopped.
fn stop_signal(service: Arc<Service>) -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("ending; tracking goes on in the kernel where it is pinned");
        tell_service_manager(&[sd_notify::NotifyState::Stopping]);
        // A panic in there must not keep the daemon from ending.
        let _ = tokio::task::spawn_blocking(move || service.shut_down()).await;
    })
}

/// The socket of `tracker.socket`, if this process was started by it.
fn passed_socket() -> Result<Option<std::os::unix::net::UnixListener>, DaemonError> {
    listenfd::ListenFd::from_env()
        .take_unix_listener(0)
        .map_err(DaemonError::Passed)
}

fn make_state_dir(path: &Path) -> Result<(), DaemonError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
        .create(path)
        .map_err(|source| DaemonError::StateDir {
            path: path.to_owned(),
            source,
        })
}

/// Every connection is a descriptor, and the usual soft limit is 1,024.
fn raise_descriptor_limit() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(errno) = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised) {
        tracing::warn!("cannot raise the limit of open files: {errno}");
    }
}

/// Nobody listens when no service manager started this process.
fn tell_service_manager(state: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!("cannot tell the service manager: {error}");
    }
}

/// The daemon cannot run.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// No socket.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The service manager passed something else.
    #[error("the socket that the service manager passed cannot be used: {0}")]
    Passed(#[source] io::Error),
    /// No state directory.
    #[error("cannot create {}: {source}", path.display())]
    StateDir {
        /// Which one.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The boot has no id.
    #[error("cannot read the boot id: {0}")]
    BootId(#[source] io::Error),
    /// The state cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The group cannot be looked up.
    #[error("cannot look up the group '{name}': {source}")]
    Group {
        /// Its name.
        name: String,
        /// Why not.
        source: io::Error,
    },
    /// The state of the daemon before could not be taken over.
    #[error("cannot take over from the daemon before: {0}")]
    Recover(#[from] ServiceError),
    /// `/proc` cannot be read.
    #[error(transparent)]
    Proc(#[from] ProcError),
    /// No thread, no descriptor, no signal handler.
    #[error("cannot start: {0}")]
    System(#[source] io::Error),
}
