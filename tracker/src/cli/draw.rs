//! Processes as lines of a terminal.

use std::collections::HashMap;
use std::fmt::Write;
use std::io::IsTerminal;

use unicode_width::UnicodeWidthChar;

use super::daemon::shown;
use crate::api::{Exit, Process, ProcessKey};
use crate::process::Clock;

/// Deeper levels are not indented any more.
const MAX_INDENT: usize = 40;

/// How to write on stdout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    width: Option<usize>,
    colour: bool,
    clock: Clock,
}

impl Style {
    /// Cut and coloured on a terminal, and neither elsewhere.
    pub(super) fn of_stdout(clock: Clock) -> Style {
        let out = std::io::stdout();
        let terminal = out.is_terminal();
        let width = rustix::termios::tcgetwinsize(&out)
            .ok()
            .map(|size| usize::from(size.ws_col))
            .filter(|columns| terminal && *columns > 0);
        let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Style {
            width,
            colour,
            clock,
        }
    }

    /// `PID@START`.
    pub(super) fn id(self, key: ProcessKey) -> String {
        shown(self.clock, key.pid, key.start_ticks)
    }

    /// One line for a process: who, what, and how it ended.
    pub(super) fn line(self, prefix: &str, process: &Process, head: &str) -> String {
        let mut plain = format!("{prefix}{head} {}", words(process));
        if process.kept {
            plain.push_str(" [kept]");
        }
        let end = process
            .exit
            .map(|exit| format!(" [{}]", end_in_words(process, exit)));
        let end = end.unwrap_or_default();
        // How it ended is at the end of the line, and must not be cut off.
        let room = self.width.map(|width| width.saturating_sub(end.len()));
        let text = cut(&plain, room);
        if process.exit.is_some() && self.colour {
            return format!("\x1b[2m{text}{end}\x1b[0m");
        }
        format!("{text}{end}")
    }

    /// A tree of lines. Each process lies below the one that it names.
    pub(super) fn forest(self, processes: &[Process]) -> String {
        let mut children: HashMap<Option<ProcessKey>, Vec<&Process>> = HashMap::new();
        for process in processes {
            children.entry(process.below).or_default().push(process);
        }
        let mut out = String::new();
        let mut pending: Vec<(&Process, usize, String, bool)> = Vec::new();
        let roots = children.remove(&None).unwrap_or_default();
        pending.extend(
            roots
                .into_iter()
                .rev()
                .map(|root| (root, 0, String::new(), true)),
        );
        while let Some((process, depth, indent, last)) = pending.pop() {
            let branch = match (depth, last) {
                (0, _) => "",
                (_, true) => "└─ ",
                (_, false) => "├─ ",
            };
            let head = process.id.pid.to_string();
            let _ = writeln!(
                out,
                "{}",
                self.line(&format!("{indent}{branch}"), process, &head)
            );
            let below = match (depth, last) {
                (0, _) => String::new(),
                (MAX_INDENT.., _) => indent,
                (_, true) => format!("{indent}   "),
                (_, false) => format!("{indent}│  "),
            };
            let children = children.remove(&Some(process.id)).unwrap_or_default();
            let count = children.len();
            let placed = children.into_iter().enumerate().rev();
            pending.extend(
                placed.map(|(at, child)| (child, depth + 1, below.clone(), at + 1 == count)),
            );
        }
        out
    }
}

/// The command line, or the name of a process that has none.
fn words(process: &Process) -> String {
    match &process.cmdline {
        Some(words) if !words.is_empty() => {
            let more = if process.truncated { " ..." } else { "" };
            format!("{}{more}", words.join(" "))
        }
        _ if process.comm.is_empty() => "?".to_owned(),
        _ => format!("({})", process.comm),
    }
}

fn end_in_words(process: &Process, exit: Exit) -> String {
    let how = match (exit.code, exit.signal) {
        (Some(code), _) => format!("exit {code}"),
        (_, Some(signal)) => format!("signal {signal}"),
        (None, None) => "dead".to_owned(),
    };
    let lived = exit.time_ns.saturating_sub(process.fork_ns);
    format!(
        "{how}, ran {}.{:03} s",
        lived / 1_000_000_000,
        lived / 1_000_000 % 1000
    )
}

/// The beginning of a line that fits, with a mark where it was cut.
fn cut(line: &str, room: Option<usize>) -> String {
    let Some(room) = room else {
        return line.to_owned();
    };
    let mut used = 0;
    for (at, char) in line.char_indices() {
        used += char.width().unwrap_or(0);
        if used > room {
            return shorter(line.get(..at).unwrap_or_default());
        }
    }
    line.to_owned()
}

fn shorter(line: &str) -> String {
    let mut line = line.to_owned();
    line.pop();
    line.push('…');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Pid;

    fn process(pid: i64, below: Option<i64>) -> Process {
        let key = |pid| ProcessKey {
            pid: Pid::new(pid).unwrap(),
            start_ticks: 1,
        };
        Process {
            id: key(pid),
            creator: below.map(key),
            skipped_ancestors: 0,
            below: below.map(key),
            session: None,
            kept: false,
            comm: "sh".to_owned(),
            exe: None,
            cmdline: Some(vec![
                "sh".to_owned(),
                "-c".to_owned(),
                "sleep 600".to_owned(),
            ]),
            truncated: false,
            uid: None,
            fork_ns: 0,
            exec_ns: None,
            exit: None,
        }
    }

    fn style(width: Option<usize>) -> Style {
        Style {
            width,
            colour: false,
            clock: Clock::default(),
        }
    }

    #[test]
    fn a_tree_has_lines_that_show_who_created_whom() {
        let mut processes = vec![
            process(1, None),
            process(2, Some(1)),
            process(4, Some(2)),
            process(3, Some(1)),
        ];
        processes[3].exit = Some(Exit {
            time_ns: 1_500_000_000,
            code: Some(3),
            signal: None,
        });
        assert_eq!(
            style(None).forest(&processes),
            "1 sh -c sleep 600\n\
             ├─ 2 sh -c sleep 600\n\
             │  └─ 4 sh -c sleep 600\n\
             └─ 3 sh -c sleep 600 [exit 3, ran 1.500 s]\n"
        );
    }

    #[test]
    fn a_line_is_cut_at_the_edge_but_its_end_is_not() {
        let mut one = process(1, None);
        one.exit = Some(Exit {
            time_ns: 0,
            code: None,
            signal: Some(9),
        });
        let line = style(Some(30)).line("", &one, "1");
        assert_eq!(line, "1 sh … [signal 9, ran 0.000 s]");
    }

    #[test]
    fn a_long_chain_is_not_indented_for_ever() {
        let chain: Vec<_> = (1..5000)
            .map(|pid| process(pid, (pid > 1).then_some(pid - 1)))
            .collect();
        let drawn = style(None).forest(&chain);
        assert_eq!(drawn.lines().count(), chain.len());
        assert!(drawn.lines().all(|line| line.chars().count() < 200));
    }
}
