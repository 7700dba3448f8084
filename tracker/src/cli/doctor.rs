//! `tracker doctor`: what this host supports.

use std::fmt::Write;

use serde::Serialize;

use super::exit::{Exit, Failure};
use super::output;
use crate::source::SourceKind;
use crate::source::host::Host;

/// Say what this host supports, and which source `--source auto` takes
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The probe is loaded to find out, and removed again. Exit status: 0 when a source
works, 1 when none does.

Examples:
  tracker doctor
  tracker doctor --json")]
pub(super) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    version: &'static str,
    #[serde(flatten)]
    host: &'a Host,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let host = Host::probe();
    if args.json {
        output::print_json(&Document {
            schema: 1,
            version: env!("CARGO_PKG_VERSION"),
            host: &host,
        })?;
    } else {
        output::print(text(&host).trim_end())?;
    }
    Ok(if host.source.is_some() {
        Exit::SUCCESS
    } else {
        Exit::ERROR
    })
}

fn text(host: &Host) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<24}{value}");
    };
    let list = |names: &[&str]| match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    let yes = |yes: bool| if yes { "yes" } else { "no" };
    let number = |number: Option<u64>| number.map_or("unknown".to_owned(), |it| it.to_string());
    let path = |path: &Option<String>| path.clone().unwrap_or_else(|| "not mounted".to_owned());
    row("kernel", &host.kernel);
    row("BTF", yes(host.btf));
    row(
        "exit tells group death",
        host.exit_has_group_dead.map_or("unknown", yes),
    );
    row("capabilities", &list(&host.capabilities));
    row("missing for the probe", &list(&host.missing_capabilities));
    row("lockdown", host.lockdown.name());
    row("host pid namespace", yes(host.host_pid_namespace));
    row("host time namespace", yes(host.host_time_namespace));
    row(
        "unprivileged bpf off",
        &number(host.unprivileged_bpf_disabled.map(u64::from)),
    );
    row("pid_max", &number(host.pid_max.map(u64::from)));
    row(
        "memlock limit",
        &host
            .memlock_bytes
            .map_or("none".to_owned(), |bytes| format!("{bytes} bytes")),
    );
    row("cgroup2", &path(&host.cgroup2));
    row("bpffs", &path(&host.bpffs));
    let (source, cost) = match host.source {
        Some(SourceKind::Ebpf) => ("ebpf", "every descendant is recorded at its fork"),
        Some(SourceKind::Procfs) => (
            "procfs",
            "`run` finds orphans as their subreaper; all else may miss them and says so",
        ),
        None => ("none", "nothing can be tracked here"),
    };
    row("source taken by auto", &format!("{source}: {cost}"));
    for passed_over in &host.passed_over {
        row("passed over", &passed_over.to_string());
    }
    text
}
