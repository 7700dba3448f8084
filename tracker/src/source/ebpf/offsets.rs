//! Where the probe finds what it reads in this kernel.

use tracker_ebpf::NO_FIELD;

use super::btf::{Btf, Malformed, Named};

/// Where the kernel keeps its type information.
pub(super) const PATH: &str = "/sys/kernel/btf/vmlinux";

const EXIT: &str = "btf_trace_sched_process_exit";

const SYSCALL_EXIT: &str = "btf_trace_sys_exit";

/// The names that are looked for.
const WANTED: [(Named, &str); 10] = [
    (Named::Struct, "task_struct"),
    (Named::Struct, "signal_struct"),
    (Named::Struct, "mm_struct"),
    (Named::Struct, "linux_binprm"),
    (Named::Typedef, "btf_trace_sched_process_fork"),
    (Named::Typedef, "btf_trace_sched_process_exec"),
    (Named::Typedef, EXIT),
    (Named::Typedef, "btf_trace_sched_process_free"),
    (Named::Function, "bpf_iter_task"),
    (Named::Typedef, SYSCALL_EXIT),
];

/// Without these the probe does less, but nothing wrong.
const OPTIONAL: [&str; 1] = [SYSCALL_EXIT];

/// A field that the probe reads.
#[derive(Clone, Copy, Debug)]
struct Field {
    /// The probe's global for it.
    global: &'static str,
    of: &'static str,
    member: &'static str,
    /// Without it nobody can be identified. Without another one, a detail of
    /// the history is missing.
    required: bool,
}

const fn field(
    global: &'static str,
    of: &'static str,
    member: &'static str,
    required: bool,
) -> Field {
    Field {
        global,
        of,
        member,
        required,
    }
}

const FIELDS: [Field; 15] = [
    field("TASK_PID", "task_struct", "pid", true),
    field("TASK_TGID", "task_struct", "tgid", true),
    field("TASK_START", "task_struct", "start_boottime", true),
    field("TASK_LEADER", "task_struct", "group_leader", true),
    field("TASK_PARENT", "task_struct", "real_parent", true),
    field("TASK_COMM", "task_struct", "comm", true),
    field("TASK_SIGNAL", "task_struct", "signal", true),
    field("SIGNAL_LIVE", "signal_struct", "live", true),
    field("TASK_EXIT_CODE", "task_struct", "exit_code", false),
    field("SIGNAL_FLAGS", "signal_struct", "flags", false),
    field(
        "SIGNAL_EXIT_CODE",
        "signal_struct",
        "group_exit_code",
        false,
    ),
    field("TASK_MM", "task_struct", "mm", false),
    field("MM_ARG_START", "mm_struct", "arg_start", false),
    field("MM_ARG_END", "mm_struct", "arg_end", false),
    field("BPRM_FILENAME", "linux_binprm", "filename", false),
];

/// What the probe is told of this kernel, and what aya has to know of it.
#[derive(Debug)]
pub(super) struct Layout {
    /// The probe's globals and their values.
    pub(super) offsets: Vec<(&'static str, u32)>,
    /// Whether `sched_process_exit` says that the thread group is dead (6.16).
    pub(super) exit_has_group_dead: bool,
    /// Whether there is a tracepoint at the end of system calls.
    pub(super) has_syscall_exit: bool,
    /// Type information with nothing but the ids of what is attached to.
    pub(super) reduced: Vec<u8>,
}

impl Layout {
    /// From the kernel's type information.
    pub(super) fn find(data: &[u8]) -> Result<Layout, LayoutError> {
        let btf = Btf::scan(data, &WANTED)?;
        for (kind, name) in WANTED {
            if btf.id(kind, name).is_none() && !OPTIONAL.contains(&name) {
                return Err(LayoutError::Missing(name.to_owned()));
            }
        }
        let mut offsets = Vec::with_capacity(FIELDS.len());
        for field in FIELDS {
            let offset = btf.offset(field.of, field.member)?;
            if offset.is_none() && field.required {
                let name = format!("{}.{}", field.of, field.member);
                return Err(LayoutError::Missing(name));
            }
            offsets.push((field.global, offset.unwrap_or(NO_FIELD)));
        }
        Ok(Layout {
            offsets,
            exit_has_group_dead: btf.arguments(EXIT)? == Some(2),
            has_syscall_exit: btf.id(Named::Typedef, SYSCALL_EXIT).is_some(),
            reduced: btf.reduced(),
        })
    }
}

/// The kernel is not one that the probe can read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LayoutError {
    /// A field, tracepoint or iterator is not there.
    #[error("this kernel has no {0}")]
    Missing(String),
    /// The type information is broken, or of a later format.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_has_every_field() {
        let Ok(data) = std::fs::read(PATH) else {
            assert!(
                std::env::var_os("TRACKER_REQUIRE_EBPF").is_none(),
                "{PATH} cannot be read"
            );
            eprintln!("skipped: this kernel has no {PATH}");
            return;
        };
        let layout = Layout::find(&data).unwrap();
        for (name, offset) in layout.offsets {
            assert!(offset < 65536, "{name} {offset}");
        }
    }
}
