//! Why the probe cannot be used here: one line each, with the next step.

use std::error::Error;
use std::io;

use super::maps::MapsError;
use super::offsets::{LayoutError, PATH};
use super::pins::PinsError;
use crate::process::{ProcError, escape};
use crate::source::SourceError;
use crate::source::host::{Capabilities, Lockdown};

/// The probe cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The kernel does not describe its types.
    #[error("no BTF ({path}: {0}): a kernel with CONFIG_DEBUG_INFO_BTF=y is needed", path = PATH)]
    NoBtf(#[source] io::Error),
    /// The kernel lacks a field, a tracepoint or an iterator.
    #[error("this kernel has no {0}, which the probe reads: use --source procfs")]
    MissingField(String),
    /// The kernel's description of its types is not understood.
    #[error("the kernel's BTF is not understood ({0}): use --source procfs")]
    BadBtf(String),
    /// Capabilities are missing, or something else forbids it.
    #[error("{call}: permission denied: needs {needs}")]
    NoPermission {
        /// What was refused.
        call: String,
        /// What would help.
        needs: String,
    },
    /// `kernel_lockdown(7)`.
    #[error("the kernel is locked down (confidentiality), which forbids to read kernel memory")]
    Lockdown,
    /// The probe would record pids that mean nothing here.
    #[error("not in the host pid namespace: run tracker on the host, or with the host's pids")]
    NotHostPidNamespace,
    /// The kernel does not know something that the probe is made of.
    #[error("{what}: not known to this kernel ({source}): Linux 5.14 or later is needed")]
    TooOld {
        /// What.
        what: String,
        /// What it answered.
        source: io::Error,
    },
    /// The verifier refused a program.
    #[error("the kernel's verifier rejects the program {program} ({source}): {log}")]
    Verifier {
        /// Which one.
        program: &'static str,
        /// The end of what it said.
        log: String,
        /// What it answered.
        source: io::Error,
    },
    /// No memory for a map.
    #[error("no memory for {what}: raise the memory limit of the cgroup")]
    Memory {
        /// What.
        what: String,
    },
    /// The committed object is not the one that this tracker was written for.
    #[error("the probe's object is damaged ({0}): run `cargo xtask probe check`")]
    Object(String),
    /// Anything else that a system call answered.
    #[error("{call}: {source}")]
    Call {
        /// Which one.
        call: String,
        /// What it answered.
        source: io::Error,
    },
    /// The probe cannot be kept in bpffs.
    #[error(transparent)]
    Pins(#[from] PinsError),
    /// `/proc` cannot be read.
    #[error(transparent)]
    Proc(#[from] ProcError),
    /// It was loaded, but does not answer as it should.
    #[error("the probe does not see this process as /proc does: use --source procfs")]
    Disagrees,
    /// It was loaded, but cannot be asked.
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl From<LayoutError> for LoadError {
    fn from(error: LayoutError) -> LoadError {
        match error {
            LayoutError::Missing(name) => LoadError::MissingField(name),
            LayoutError::Malformed(error) => LoadError::BadBtf(error.to_string()),
        }
    }
}

impl From<MapsError> for LoadError {
    fn from(error: MapsError) -> LoadError {
        LoadError::Object(error.to_string())
    }
}

impl LoadError {
    /// From an error of aya while doing `call`. What decides is the error of the
    /// system call below it.
    pub(super) fn of(call: impl Into<String>, error: &(dyn Error + 'static)) -> LoadError {
        let call = call.into();
        let Some(source) = system_call(error) else {
            return LoadError::Object(escape(chain(error).as_bytes()));
        };
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => LoadError::denied(call),
            Some(libc::ENOSYS | libc::EINVAL | libc::ENOTSUP) => {
                LoadError::TooOld { what: call, source }
            }
            Some(libc::ENOMEM) => LoadError::Memory { what: call },
            _ => LoadError::Call { call, source },
        }
    }

    fn denied(call: String) -> LoadError {
        if let Some(error) = LoadError::missing_capabilities(&call) {
            return error;
        }
        if Lockdown::now() == Lockdown::Confidentiality {
            return LoadError::Lockdown;
        }
        LoadError::NoPermission {
            call,
            needs: "its capabilities in the initial user namespace, and a seccomp filter \
                    that lets bpf(2) pass"
                .to_owned(),
        }
    }

    /// When capabilities are missing, that is the cause, whatever fails first.
    pub(super) fn missing_capabilities(call: &str) -> Option<LoadError> {
        let missing = Capabilities::effective().missing_for_probe();
        let names: Vec<_> = missing.iter().map(|capability| capability.name()).collect();
        (!names.is_empty()).then(|| LoadError::NoPermission {
            call: call.to_owned(),
            needs: names.join(" and "),
        })
    }
}

/// What an error says, and what those below it say.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// The error of the system call at the bottom of one of aya's.
pub(super) fn system_call(error: &(dyn Error + 'static)) -> Option<io::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return error.raw_os_error().map(io::Error::from_raw_os_error);
        }
        cause = error.source();
    }
    None
}

/// The last words of the verifier, on one line. The very last are statistics.
pub(super) fn log_tail(log: &str) -> String {
    let lines: Vec<_> = log
        .lines()
        .map(str::trim)
        .filter(|line| {
            let statistics = ["processed ", "verification time", "stack depth"];
            !line.is_empty() && !statistics.iter().any(|start| line.starts_with(start))
        })
        .collect();
    let tail = lines.get(lines.len().saturating_sub(2)..).unwrap_or(&[]);
    escape(tail.join(" | ").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifiers_last_words_are_kept_and_its_statistics_are_not() {
        let log = "0: R1=ctx()\n5: (0f) r2 += r1\nmath is not allowed\nverification time 1 usec\n\
                   stack depth 0\nprocessed 5 insns (limit 1000000)\n";
        assert_eq!(log_tail(log), "5: (0f) r2 += r1 | math is not allowed");
        assert_eq!(log_tail(""), "");
    }

    #[test]
    fn the_system_call_at_the_bottom_decides() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Outer(#[source] io::Error);
        let of = |code| LoadError::of("x", &Outer(io::Error::from_raw_os_error(code)));
        assert!(matches!(of(libc::ENOMEM), LoadError::Memory { .. }));
        assert!(matches!(of(libc::ENOSYS), LoadError::TooOld { .. }));
        assert!(matches!(of(libc::EBADF), LoadError::Call { .. }));
    }

    #[test]
    fn every_error_is_one_line() {
        let errors = [
            LoadError::Lockdown,
            LoadError::NotHostPidNamespace,
            LoadError::MissingField("task_struct.pid".into()),
            LoadError::Memory { what: "x".into() },
        ];
        for error in errors {
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
