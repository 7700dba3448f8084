//! Which tests run in a guest.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::Value;

/// A test program and its arguments.
#[derive(Debug)]
pub(crate) struct Suite {
    /// What `--only` calls it.
    pub(crate) name: &'static str,
    /// The file that cargo has made.
    pub(crate) executable: PathBuf,
    /// Names of tests, and flags.
    pub(crate) arguments: &'static [&'static str],
}

/// What of a test program is run.
struct Choice {
    name: &'static str,
    package: &'static str,
    /// `None` for the library's own tests.
    test: Option<&'static str>,
    /// Which of its tests; all if empty.
    arguments: &'static [&'static str],
}

const fn whole(package: &'static str, test: &'static str) -> Choice {
    Choice {
        name: test,
        package,
        test: Some(test),
        arguments: &[],
    }
}

const CHOICES: [Choice; 12] = [
    Choice {
        name: "verifier",
        package: "tracker",
        test: None,
        arguments: &["every_program_stays_below_its_ceiling", "--nocapture"],
    },
    // What does not depend on the kernel is tested where it was built.
    Choice {
        name: "lib",
        package: "tracker",
        test: None,
        arguments: &["source::", "process::"],
    },
    whole("tracker", "ebpf_live"),
    whole("tracker", "session_live"),
    whole("tracker-tests", "oracles"),
    whole("tracker-tests", "finds_every_descendant"),
    whole("tracker-tests", "identity"),
    whole("tracker-tests", "spares_everybody_else"),
    whole("tracker-tests", "works_without_ebpf"),
    Choice {
        name: "ends_what_it_found",
        package: "tracker-tests",
        test: Some("ends_what_it_found"),
        // Snapshots of so many take longer here than a test has patience, and
        // are the same on every kernel.
        arguments: &[
            "--skip",
            "eight_thousand_daemons_with_256_descriptors::procfs",
        ],
    },
    // This machine is theirs alone.
    Choice {
        name: "drills",
        package: "tracker",
        test: Some("drills"),
        arguments: &["--include-ignored", "--nocapture", "--test-threads=1"],
    },
    // The last one: the guest's init locks the kernel down for it, for good.
    Choice {
        name: "locked_down",
        package: "tracker-tests",
        test: Some("works_without_ebpf"),
        arguments: &["on_a_locked_down_kernel", "--nocapture"],
    },
];

/// Builds the tests; answers them, and the programs that they start.
pub(crate) fn build(root: &Path, only: &[String]) -> anyhow::Result<(Vec<Suite>, Vec<PathBuf>)> {
    let mut suites = Vec::new();
    for choice in CHOICES {
        if !only.is_empty() && only.iter().all(|name| name != choice.name) {
            continue;
        }
        let mut arguments = vec!["test", "--no-run", "--package", choice.package];
        match choice.test {
            Some(test) => arguments.extend(["--test", test]),
            None => arguments.push("--lib"),
        }
        let target = choice.test.unwrap_or(choice.package);
        let executable = cargo(root, &arguments, target)?;
        suites.push(Suite {
            name: choice.name,
            executable,
            arguments: choice.arguments,
        });
    }
    ensure!(
        !suites.is_empty(),
        "there is no suite named {}",
        only.join(" or ")
    );
    let tracker = cargo(
        root,
        &["build", "--package", "tracker", "--bin", "tracker"],
        "tracker",
    )?;
    let victim = ["build", "--package", "tracker-tests", "--bin", "victim"];
    let victim = cargo(root, &victim, "victim")?;
    Ok((suites, vec![tracker, victim]))
}

/// Has cargo build one target; answers its executable.
fn cargo(root: &Path, arguments: &[&str], target: &str) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(arguments)
        // Emulated code is slow enough as it is.
        .args([
            "--quiet",
            "--release",
            "--locked",
            "--message-format",
            "json-render-diagnostics",
        ])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo")?;
    ensure!(
        output.status.success(),
        "cargo {} failed",
        arguments.join(" ")
    );
    let text = String::from_utf8_lossy(&output.stdout);
    executable(&text, target).with_context(|| format!("cargo made no executable of {target}"))
}

/// From cargo's messages.
fn executable(messages: &str, target: &str) -> Option<PathBuf> {
    let mut messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.find_map(|message| {
        let is_it = message.pointer("/target/name")?.as_str()? == target;
        let executable = message.get("executable")?.as_str()?;
        is_it.then(|| PathBuf::from(executable))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_read_from_cargos_messages() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"other"},"executable":"/x"}
{"reason":"compiler-artifact","target":{"name":"it"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"it"},"executable":"/y"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable(messages, "it"), Some(PathBuf::from("/y")));
        assert_eq!(executable(messages, "none"), None);
    }
}
