//! What this process may do.

use std::fs;

use serde::Serialize;

/// A capability that matters, by its number in `include/uapi/linux/capability.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Capability {
    /// Signal processes of other users.
    CapKill = 5,
    /// Look into processes of other users.
    CapSysPtrace = 19,
    /// Includes the next two.
    CapSysAdmin = 21,
    /// Load tracing programs.
    CapPerfmon = 38,
    /// Load programs and create maps.
    CapBpf = 39,
}

impl Capability {
    /// All of them.
    pub const ALL: [Capability; 5] = [
        Capability::CapKill,
        Capability::CapSysPtrace,
        Capability::CapSysAdmin,
        Capability::CapPerfmon,
        Capability::CapBpf,
    ];

    /// As the manual writes it.
    pub fn name(self) -> &'static str {
        match self {
            Capability::CapKill => "CAP_KILL",
            Capability::CapSysPtrace => "CAP_SYS_PTRACE",
            Capability::CapSysAdmin => "CAP_SYS_ADMIN",
            Capability::CapPerfmon => "CAP_PERFMON",
            Capability::CapBpf => "CAP_BPF",
        }
    }
}

/// The effective capabilities of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(u64);

impl Capabilities {
    /// Of this thread; none when `/proc` does not tell.
    pub fn effective() -> Capabilities {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        Capabilities::parse(&status)
    }

    fn parse(status: &str) -> Capabilities {
        let bits = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))
            .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        Capabilities(bits.unwrap_or(0))
    }

    /// Whether it is among them.
    pub fn has(self, capability: Capability) -> bool {
        self.0 & 1 << capability as u32 != 0
    }

    /// What the probe needs and is not there.
    pub fn missing_for_probe(self) -> Vec<Capability> {
        if self.has(Capability::CapSysAdmin) {
            return Vec::new();
        }
        [Capability::CapBpf, Capability::CapPerfmon]
            .into_iter()
            .filter(|capability| !self.has(*capability))
            .collect()
    }
}

/// Kernel lockdown, `kernel_lockdown(7)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lockdown {
    /// Off, or not built in.
    None,
    /// The kernel cannot be changed.
    Integrity,
    /// Nor can its memory be read, which the probe does.
    Confidentiality,
}

impl Lockdown {
    /// As `/sys/kernel/security/lockdown` writes it.
    pub fn name(self) -> &'static str {
        match self {
            Lockdown::None => "none",
            Lockdown::Integrity => "integrity",
            Lockdown::Confidentiality => "confidentiality",
        }
    }

    /// As it is now.
    pub fn now() -> Lockdown {
        let text = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
        Lockdown::parse(&text)
    }

    fn parse(text: &str) -> Lockdown {
        let chosen = text
            .split_ascii_whitespace()
            .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
        match chosen {
            Some("integrity") => Lockdown::Integrity,
            Some("confidentiality") => Lockdown::Confidentiality,
            _ => Lockdown::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_needs_bpf_and_perfmon_or_admin() {
        let of = |bits: u64| Capabilities::parse(&format!("Name:\tx\nCapEff:\t{bits:016x}\n"));
        assert_eq!(
            of(0).missing_for_probe(),
            [Capability::CapBpf, Capability::CapPerfmon]
        );
        assert_eq!(of(1 << 39).missing_for_probe(), [Capability::CapPerfmon]);
        assert!(of(1 << 39 | 1 << 38).missing_for_probe().is_empty());
        assert!(of(1 << 21).missing_for_probe().is_empty());
        assert_eq!(Capabilities::parse("garbage"), Capabilities::default());
    }

    #[test]
    fn lockdown_is_the_word_in_brackets() {
        assert_eq!(
            Lockdown::parse("none integrity [confidentiality]\n"),
            Lockdown::Confidentiality
        );
        assert_eq!(
            Lockdown::parse("[none] integrity confidentiality\n"),
            Lockdown::None
        );
        assert_eq!(Lockdown::parse(""), Lockdown::None);
    }
}
