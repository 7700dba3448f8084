//! `docs/performance.md`.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use super::Row;

/// The whole document.
pub(crate) fn document(rows: &[Row]) -> String {
    let mut text = String::from(
        "# Performance\n\n\
         Written by `cargo xtask bench`; measured, not asserted: no test holds these figures.\n\n",
    );
    let _ = writeln!(text, "- Machine: {}", machine());
    let _ = writeln!(text, "- Kernel: {}", output("uname", &["-srv"]));
    let _ = writeln!(
        text,
        "- Date: {}",
        output("date", &["-u", "+%Y-%m-%d %H:%M UTC"])
    );
    text.push('\n');
    text.push_str(
        "Each figure is a median, with the quartiles and the number of runs in brackets. What is\n\
         compared was run in turn, in pairs whose order alternates. Other work on the machine\n\
         moves the figures; the pairs keep it from favouring one side.\n\n\
         | what | target | measured | met | others in the same run |\n|---|---|---|---|---|\n",
    );
    for row in rows {
        let _ = writeln!(text, "{}", line(row));
    }
    text
}

/// A row of the table.
pub(crate) fn line(row: &Row) -> String {
    let met = match row.met {
        Some(true) => "yes",
        Some(false) => "**no**",
        None => "",
    };
    let Row {
        what,
        target,
        measured,
        peers,
        ..
    } = row;
    format!("| {what} | {target} | {measured} | {met} | {peers} |")
}

/// The load of this machine now.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn machine() -> String {
    let field = |file: &str, name: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_once(':'));
        value.map_or_else(|| "?".to_owned(), |(_, value)| value.trim().to_owned())
    };
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let cpu = field("/proc/cpuinfo", "model name");
    let memory = field("/proc/meminfo", "MemTotal");
    format!("{cpus} CPUs ({cpu}), {memory}")
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(
        |_| "?".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
