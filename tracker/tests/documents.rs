//! The documents stay true: what they name exists.
#![expect(
    clippy::expect_used,
    reason = "a test fails by panicking; its helpers are not marked as tests"
)]

use std::fs;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).expect(path)
}

/// What stands between back quotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_test_that_holds_a_guarantee_exists() {
    let text = read("docs/guarantees.md");
    let mut source = String::new();
    let mut names = 0;
    // The title and the first paragraph name this file only.
    let (_, guarantees) = text.split_once("## G1").expect("a first guarantee");
    for word in quoted(guarantees) {
        if Path::new(word)
            .extension()
            .is_some_and(|extension| extension == "rs")
        {
            source = read(word);
        } else if word.contains('_')
            && word
                .chars()
                .all(|char| char.is_ascii_lowercase() || char == '_' || char.is_ascii_digit())
        {
            assert!(
                source.contains(word),
                "docs/guarantees.md names {word}, which does not exist"
            );
            names += 1;
        }
    }
    assert!(
        names > 20,
        "only {names} tests were found in docs/guarantees.md"
    );
}

#[test]
fn every_link_of_the_documents_leads_somewhere() {
    for document in [
        "README.md",
        "docs/architecture.md",
        "docs/guarantees.md",
        "docs/limits.md",
    ] {
        let text = read(document);
        let folder = repository().join(document);
        let folder = folder.parent().expect("a folder");
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            assert!(
                target.contains("://") || folder.join(target).exists(),
                "{document}: {target}"
            );
        }
    }
}
