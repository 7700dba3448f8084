//! The shape of the source: which module may use which, where `unsafe` may be,
//! how long a file may get. Exceptions are listed here, and one that is no
//! longer needed fails the test, so that the lists can only shrink.
#![cfg(test)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Each module with those that it may use, the lowest first. `cli` and the
/// files at the top may use all.
const MAY_USE: &[(&str, &[&str])] = &[
    ("process", &[]),
    ("lineage", &["process"]),
    ("source", &["lineage", "process"]),
    ("session", &["source", "lineage", "process"]),
    ("reap", &["session", "source", "lineage", "process"]),
    ("store", &["session", "lineage", "process"]),
    (
        "standalone",
        &["reap", "session", "source", "lineage", "process"],
    ),
    (
        "api",
        &["store", "reap", "session", "source", "lineage", "process"],
    ),
    (
        "service",
        &[
            "api", "store", "reap", "session", "source", "lineage", "process",
        ],
    ),
    (
        "embedded",
        &[
            "service", "api", "store", "reap", "session", "source", "lineage", "process",
        ],
    ),
    (
        "client",
        &[
            "api", "store", "reap", "session", "source", "lineage", "process",
        ],
    ),
    (
        "server",
        &[
            "service", "api", "store", "reap", "session", "source", "lineage", "process",
        ],
    ),
];

const USES_ALL: &[&str] = &["cli", "lib", "main"];

/// Files that use what they may not: `(file, module)`.
const EXCEPTIONS: &[(&str, &str)] = &[];

/// What is I/O or a clock has no place in `lineage`.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::process",
    "std::time",
    "Read",
    "Write",
    "File",
    "nix",
    "libc",
    "rustix",
    "tokio",
    "Proc",
    "PidFd",
    "Clock",
    "now_boot_ns",
    "Instant",
    "SystemTime",
];

/// Where `lineage` does I/O all the same.
const IMPURE_EXCEPTIONS: &[(&str, &str)] = &[
    // Session ids are random.
    ("lineage/tag.rs", "rustix"),
];

/// Where `unsafe` may be: a file, or all of a folder.
const UNSAFE: &[&str] = &["process/", "source/ebpf/maps.rs"];

/// A file beyond this is about more than one thing.
const LONGEST: usize = 450;

/// Files that are longer.
const LONG: &[&str] = &[];

struct Source {
    /// Below `src`.
    path: String,
    text: String,
    /// Without comments and literals.
    code: String,
}

impl Source {
    /// The module at the top that it belongs to.
    fn module(&self) -> &str {
        let first = self.path.split('/').next().unwrap_or_default();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    /// How many modules it is in, itself counted.
    fn depth(&self) -> usize {
        let depth = self.path.split('/').count();
        depth - usize::from(self.path.ends_with("/mod.rs"))
    }
}

fn sources() -> Vec<Source> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = Vec::new();
    let mut open = vec![src.clone()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let path = path
                    .strip_prefix(&src)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                sources.push(Source {
                    path,
                    code: code_of(&text),
                    text,
                });
            }
        }
    }
    assert!(sources.len() > 30, "the sources were not found");
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

/// The text without comments, and with empty string and character literals.
fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skip = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = raw_string(rest, &code) {
            length
        } else if first == '"' {
            quoted(rest, '"')
        } else if first == '\'' && is_character(rest) {
            quoted(rest, '\'')
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        code.push(' ');
        rest = &rest[skip..];
    }
    code
}

/// The length of the raw string that `rest` begins with.
fn raw_string(rest: &str, before: &str) -> Option<usize> {
    if before.ends_with(|char: char| char.is_alphanumeric() && char != 'b' || char == '_') {
        return None;
    }
    let hashes = rest.strip_prefix('r')?.find('"')?;
    let opening = rest.get(1..=hashes)?;
    if !opening.bytes().all(|byte| byte == b'#') {
        return None;
    }
    let end = format!("\"{opening}");
    let body = hashes + 2;
    Some(
        rest[body..]
            .find(&end)
            .map_or(rest.len(), |at| body + at + end.len()),
    )
}

/// A lifetime begins with a quote too, but does not end with one.
fn is_character(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    chars.next() == Some('\\') || chars.next() == Some('\'')
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, char) in rest.char_indices().skip(1) {
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if char == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Words and `::` and single characters, without space.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |char: char| char.is_alphanumeric() || char == '_';
        let length = if is_word(first) {
            rest.find(|char| !is_word(char)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}

/// What follows the path `prefix::`: a name, or those at the top of `{...}`.
fn names_after<'a>(tokens: &[&'a str]) -> Vec<&'a str> {
    match tokens {
        ["{", group @ ..] => {
            let mut names = Vec::new();
            let mut depth = 0;
            let mut at_start = true;
            for token in group {
                match *token {
                    "{" => depth += 1,
                    "}" if depth == 0 => break,
                    "}" => depth -= 1,
                    "," if depth == 0 => at_start = true,
                    name if depth == 0 && at_start => {
                        names.push(name);
                        at_start = false;
                    }
                    _ => {}
                }
            }
            names
        }
        [name, ..] => vec![name],
        [] => Vec::new(),
    }
}

/// The names at the top of the crate that a file at this depth refers to, by
/// `crate::` or by as many `super::` as lead there.
fn used(code: &str, depth: usize) -> BTreeSet<String> {
    let tokens = tokens(code);
    let mut used = BTreeSet::new();
    for at in 0..tokens.len() {
        let after = match &tokens[at..] {
            ["crate", "::", ..] => 2,
            ["super", "::", ..] if at < 2 || tokens[at - 2] != "super" => {
                let supers = tokens[at..]
                    .chunks(2)
                    .take_while(|pair| *pair == ["super", "::"]);
                let supers = supers.count();
                if supers < depth {
                    continue;
                }
                2 * supers
            }
            _ => continue,
        };
        used.extend(
            names_after(&tokens[at + after..])
                .into_iter()
                .map(str::to_owned),
        );
    }
    used
}

/// Fails for what was found and is not listed, and for what is listed and was not found.
#[track_caller]
fn assert_exceptions<T: Ord + Copy + std::fmt::Debug>(
    found: &BTreeSet<T>,
    listed: &[T],
    what: &str,
) {
    let listed: BTreeSet<T> = listed.iter().copied().collect();
    let new: Vec<_> = found.difference(&listed).collect();
    assert!(new.is_empty(), "{what}: {new:#?}");
    let stale: Vec<_> = listed.difference(found).collect();
    assert!(
        stale.is_empty(),
        "no longer an exception, take it off the list: {stale:#?}"
    );
}

#[test]
fn modules_only_use_those_below_them() {
    let sources = sources();
    let modules: BTreeSet<&str> = sources.iter().map(Source::module).collect();
    let mut found = BTreeSet::new();
    let mut uses = 0;
    for source in &sources {
        let module = source.module();
        if USES_ALL.contains(&module) {
            continue;
        }
        let (_, allowed) = MAY_USE
            .iter()
            .find(|(name, _)| *name == module)
            .unwrap_or_else(|| panic!("say in MAY_USE what {module} may use"));
        for name in used(&source.code, source.depth()) {
            let Some(other) = modules.get(name.as_str()).filter(|other| **other != module) else {
                continue;
            };
            uses += 1;
            if !allowed.contains(other) {
                found.insert((source.path.as_str(), *other));
            }
        }
    }
    assert!(uses > 50, "the uses were not found");
    assert_exceptions(&found, EXCEPTIONS, "uses of a module above");
}

#[test]
fn the_table_has_no_circle() {
    for (at, (module, allowed)) in MAY_USE.iter().enumerate() {
        for other in *allowed {
            let below = MAY_USE[..at].iter().any(|(name, _)| name == other);
            assert!(
                below,
                "{module} uses {other}, which does not come before it"
            );
        }
    }
}

#[test]
fn the_map_does_no_io_and_reads_no_clock() {
    let sources = sources();
    let mut found = BTreeSet::new();
    for source in sources.iter().filter(|source| source.module() == "lineage") {
        let tokens = tokens(&source.code);
        for impure in IMPURE {
            let path = self::tokens(impure);
            if tokens.windows(path.len()).any(|window| window == path) {
                found.insert((source.path.as_str(), *impure));
            }
        }
    }
    assert_exceptions(&found, IMPURE_EXCEPTIONS, "I/O or a clock in lineage");
    let tag = sources
        .iter()
        .find(|source| source.path == "lineage/tag.rs")
        .unwrap();
    assert_eq!(
        tag.code.matches("rustix::").count(),
        tag.code.matches("rustix::rand::").count(),
        "only for random numbers"
    );
}

#[test]
fn unsafe_code_is_where_it_may_be_and_says_why() {
    let sources = sources();
    let mut places = BTreeSet::new();
    for source in &sources {
        if !tokens(&source.code).contains(&"unsafe") {
            continue;
        }
        let place = UNSAFE.iter().find(|place| source.path.starts_with(**place));
        let place = place.unwrap_or_else(|| panic!("unsafe code in {}", source.path));
        places.insert(*place);
        assert!(
            source.code.contains("#![expect(") && source.code.contains("unsafe_code"),
            "{} does not say why it has unsafe code",
            source.path
        );
    }
    assert_exceptions(&places, UNSAFE, "unsafe code");
}

#[test]
fn no_file_is_too_long() {
    let sources = sources();
    let long: BTreeSet<&str> = sources
        .iter()
        .filter(|source| source.text.lines().count() > LONGEST)
        .map(|source| source.path.as_str())
        .collect();
    assert_exceptions(&long, LONG, "files of more than 450 lines");
}

#[test]
fn uses_are_found_in_every_form() {
    let found = |code: &str, depth| {
        used(&code_of(code), depth)
            .into_iter()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        found("use crate::a::B; crate::c::d(); pub use crate :: e;", 1),
        "a c e"
    );
    assert_eq!(found("use crate::{a::{B, c}, d, e as f};", 1), "a d e");
    assert_eq!(found("use super::super::a::B;", 2), "a");
    assert_eq!(found("use super::super::{a, b::C};", 2), "a b");
    assert_eq!(found("use super::super::a::B;", 3), "");
    assert_eq!(
        found(
            "// crate::a\n/* crate::b */ \"crate::c\" '\"' crate::d \"\\\"\" 'x'",
            1
        ),
        "d"
    );
    assert_eq!(
        found("fn f<'a>(x: &'a crate::a::T) { r#\"crate::b \" \"# }", 1),
        "a"
    );
}
