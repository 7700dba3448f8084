//! `tracker serve`: the sidecar.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::daemon::PIN_DIR;
use super::exit::{Exit, Failure};
use super::output;
use crate::client::default_socket;
use crate::lineage::Limits;
use crate::process::Proc;
use crate::server::{Config, Daemon};
use crate::session::Tracking;
use crate::source::ebpf::unpin;
use crate::source::{self, SourceChoice};

/// Tracks all processes of the host from now on, and serves sessions, queries
/// and reaps on a Unix socket.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Root and the group may do all; anybody else may open sessions for processes of
their own, and see and end what these own. SIGTERM ends the daemon; what it tracks
is tracked on in the kernel, and the next daemon takes over. See docs/operations.md.")]
pub(super) struct Args {
    /// Where to listen [default: $`TRACKER_SOCKET`, or /run/tracker/tracker.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Where sessions and reaps are recorded
    #[arg(long, value_name = "DIR", default_value = "/var/lib/tracker")]
    state_dir: PathBuf,
    /// Who may do all that root may
    #[arg(long, value_name = "NAME", default_value = "tracker")]
    group: String,
    /// Where the knowledge comes from: auto, ebpf or procfs
    #[arg(long, value_enum, default_value_t)]
    source: SourceChoice,
    /// Where the kernel probe is kept, on a bpffs, so that it goes on without a daemon
    #[arg(long, value_name = "DIR", default_value = PIN_DIR)]
    pin_dir: PathBuf,
    /// Let Prometheus read /metrics here, too: an IP address and a port. There is no
    /// authentication: whoever can reach it can read it
    #[arg(long, value_name = "ADDR", value_parser = address)]
    metrics: Option<SocketAddr>,
    /// End the tracking that a daemon left in the kernel, and do not serve
    #[arg(long)]
    unpin: bool,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    if args.unpin {
        if !unpin(&args.pin_dir)? {
            output::print("nothing is tracked")?;
        }
        return Ok(Exit::SUCCESS);
    }
    let config = Config {
        socket: args.socket.clone().unwrap_or_else(default_socket),
        state_dir: args.state_dir.clone(),
        group: args.group.clone(),
        metrics: args.metrics,
    };
    let daemon = Daemon::new(&config)?;
    let opened = source::open_pinned(args.source, &args.pin_dir)?;
    for passed_over in &opened.passed_over {
        tracing::warn!("{passed_over}");
    }
    daemon.run(Tracking::new(
        opened.source,
        Proc::open()?,
        Limits::default(),
    ))?;
    Ok(Exit::SUCCESS)
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse()
        .map_err(|_| "an IP address and a port are needed, like 127.0.0.1:9464")
}
