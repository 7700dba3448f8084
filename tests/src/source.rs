//! The sources that tracker can learn from.

/// Where `tracker run` gets its knowledge from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The kernel probe.
    Ebpf,
    /// Snapshots of `/proc`.
    Procfs,
    /// The best that works.
    Auto,
    /// A daemon that has the kernel probe: the one that all tests of a program
    /// share.
    Daemon,
}

impl Source {
    /// As the report spells it.
    pub fn name(self) -> &'static str {
        match self {
            Source::Ebpf | Source::Daemon => "ebpf",
            Source::Procfs => "procfs",
            Source::Auto => "auto",
        }
    }

    /// The value of `--source`.
    pub fn flag(self) -> &'static str {
        match self {
            Source::Daemon => "auto",
            other => other.name(),
        }
    }

    /// Whether the kernel tells of every fork.
    pub fn sees_forks(self) -> bool {
        matches!(self, Source::Ebpf | Source::Daemon)
    }
}

/// Makes three tests of one: `NAME::ebpf` and `NAME::procfs`, where `tracker
/// run` works alone, and `NAME::daemon`, where it asks a daemon. After the
/// name, what else the test needs of the machine.
#[macro_export]
macro_rules! on_all_sources {
    ($(#[doc = $doc:literal])* $name:ident $(needs [$($need:expr),* $(,)?])?, |$source:ident| $body:block) => {
        $(#[doc = $doc])*
        mod $name {
            use super::*;

            fn body($source: $crate::Source) $body

            #[test]
            fn ebpf() {
                if $crate::able(&[$crate::Need::Ebpf, $($($need),*)?]) {
                    body($crate::Source::Ebpf);
                }
            }

            #[test]
            fn procfs() {
                if $crate::able(&[$($($need),*)?]) {
                    body($crate::Source::Procfs);
                }
            }

            #[test]
            fn daemon() {
                if $crate::able(&[$crate::Need::Ebpf, $($($need),*)?]) {
                    body($crate::Source::Daemon);
                }
            }
        }
    };
}
