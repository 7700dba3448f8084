//! `tracker status`: how the daemon is.

use super::daemon::{Connect, failure};
use super::exit::{Exit, Failure};
use super::output;

/// Shows how the daemon is: what it tracks, and what it lost.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let status = args.connect.client()?.status().map_err(failure)?;
    if args.json {
        output::print_json(&status)?;
        return Ok(Exit::SUCCESS);
    }
    let source = match status.source {
        crate::source::SourceKind::Ebpf => "ebpf",
        crate::source::SourceKind::Procfs => "procfs",
    };
    let mut lines = vec![
        format!(
            "daemon     {} (pid {}), up {} s",
            status.version, status.pid, status.uptime_s
        ),
        format!("source     {source}"),
        format!("sessions   {}", status.sessions),
        format!("reaps      {} under way", status.reaps_running),
        format!(
            "processes  {} alive, {} dead remembered, {} forgotten",
            status.processes_live, status.processes_dead, status.processes_evicted
        ),
    ];
    if let Some(kernel) = status.kernel {
        lines.push(format!(
            "events     {} forks, {} execs, {} exits",
            kernel.forks, kernel.execs, kernel.exits
        ));
        lines.push(format!(
            "lost       {} records (history), {} members",
            kernel.ring_full, kernel.insert_failed
        ));
    }
    output::print(lines.join("\n"))?;
    Ok(Exit::SUCCESS)
}
