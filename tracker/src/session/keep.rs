//! Keep rules: which members of a session a reap leaves alone.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::str::FromStr;

use globset::{GlobBuilder, GlobMatcher};

use crate::process::ProcessId;

/// Spares what it matches, and the descendants of that.
#[derive(Clone, Debug)]
pub enum KeepRule {
    /// A glob. With a `/` in it, it is compared with the path of the program;
    /// without, with the process's name and with the last part of that path.
    Pattern(Pattern),
    /// One process.
    Process(ProcessId),
}

/// A compiled glob that remembers how it was written.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    glob: GlobMatcher,
    whole_path: bool,
}

impl KeepRule {
    /// Whether the rule matches a process with this name and program.
    pub fn matches(&self, id: ProcessId, comm: &[u8], exe: &[u8]) -> bool {
        match self {
            KeepRule::Process(kept) => *kept == id,
            KeepRule::Pattern(pattern) => pattern.matches(comm, exe),
        }
    }
}

impl Pattern {
    fn matches(&self, comm: &[u8], exe: &[u8]) -> bool {
        let glob = |text: &[u8]| self.glob.is_match(Path::new(OsStr::from_bytes(text)));
        if self.whole_path {
            return glob(exe);
        }
        let name = exe.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        glob(comm) || (!name.is_empty() && glob(name))
    }
}

impl FromStr for KeepRule {
    type Err = ParseKeepRuleError;

    fn from_str(text: &str) -> Result<KeepRule, ParseKeepRuleError> {
        if text.is_empty() {
            return Err(ParseKeepRuleError::Empty);
        }
        if let Ok(id) = text.parse() {
            return Ok(KeepRule::Process(id));
        }
        let glob = GlobBuilder::new(text)
            .literal_separator(true)
            .build()
            .map_err(|error| ParseKeepRuleError::Glob(error.kind().to_string()))?;
        Ok(KeepRule::Pattern(Pattern {
            text: text.to_owned(),
            glob: glob.compile_matcher(),
            whole_path: text.contains('/'),
        }))
    }
}

impl fmt::Display for KeepRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeepRule::Pattern(pattern) => f.write_str(&pattern.text),
            KeepRule::Process(id) => id.fmt(f),
        }
    }
}

/// Why a text is no keep rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseKeepRuleError {
    /// Nothing would match, or everything: neither is what was meant.
    #[error("a keep rule is a name, a path or a pattern like 'redis-*', not an empty text")]
    Empty,
    /// The glob is malformed.
    #[error("a keep rule is a name, a path or a pattern like 'redis-*': {0}")]
    Glob(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Pid, StartTime};

    fn rule(text: &str) -> KeepRule {
        text.parse().unwrap()
    }

    fn id() -> ProcessId {
        ProcessId::new(Pid::new(7).unwrap(), StartTime::from_ticks(8))
    }

    #[test]
    fn a_name_matches_the_name_or_the_last_part_of_the_path() {
        let rule = rule("redis-*");
        assert!(rule.matches(id(), b"redis-server", b""));
        assert!(rule.matches(id(), b"main", b"/usr/bin/redis-server"));
        assert!(!rule.matches(id(), b"sh", b"/opt/redis-x/sh"));
    }

    #[test]
    fn a_path_matches_the_whole_path_only() {
        let rule = rule("/usr/bin/*");
        assert!(rule.matches(id(), b"x", b"/usr/bin/x"));
        assert!(!rule.matches(id(), b"x", b"/usr/bin/a/x"));
        assert!(!rule.matches(id(), b"/usr/bin/x", b"/bin/x"));
    }

    #[test]
    fn an_identity_matches_one_process() {
        assert!(rule("7@8").matches(id(), b"x", b"/x"));
        assert!(!rule("7@9").matches(id(), b"x", b"/x"));
    }

    #[test]
    fn names_are_bytes() {
        assert!(rule("a*").matches(id(), b"a\xff\n", b""));
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        assert_eq!(
            "".parse::<KeepRule>().unwrap_err(),
            ParseKeepRuleError::Empty
        );
        assert!(matches!(
            "[a".parse::<KeepRule>(),
            Err(ParseKeepRuleError::Glob(_))
        ));
    }
}
