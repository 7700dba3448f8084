//! The sources that tracker can learn from.

/// A value of `--source`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The kernel probe.
    Ebpf,
    /// Snapshots of `/proc`.
    Procfs,
    /// The best that works.
    Auto,
}

impl Source {
    /// As the command line and the report spell it.
    pub fn name(self) -> &'static str {
        match self {
            Source::Ebpf => "ebpf",
            Source::Procfs => "procfs",
            Source::Auto => "auto",
        }
    }
}

/// Makes two tests of one: `NAME::ebpf` and `NAME::procfs`. After the name,
/// what else the test needs of the machine.
#[macro_export]
macro_rules! on_both_sources {
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
        }
    };
}
