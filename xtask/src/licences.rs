//! Checks that every dependency may be shipped under MIT OR Apache-2.0.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use spdx::{Expression, LicenseReq, ParseMode};

/// Licences that ask for nothing but attribution. No copyleft: btf-rs (LGPL)
/// is what this list keeps out.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
}

/// Fails with every dependency that is not allowed.
pub(crate) fn check() -> Result<()> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked"])
        .output()
        .context("cannot run cargo metadata")?;
    ensure!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Metadata = serde_json::from_slice(&output.stdout)
        .context("cannot read what cargo metadata printed")?;
    let refused: Vec<String> = metadata.packages.iter().filter_map(refusal).collect();
    if !refused.is_empty() {
        bail!(
            "these dependencies may not be shipped:\n{}",
            refused.join("\n")
        );
    }
    println!(
        "{} packages, all under allowed licences",
        metadata.packages.len()
    );
    Ok(())
}

fn refusal(package: &Package) -> Option<String> {
    let Package {
        name,
        version,
        license,
    } = package;
    let Some(license) = license else {
        return Some(format!("{name} {version}: no licence"));
    };
    match Expression::parse_mode(license, ParseMode::LAX) {
        Ok(expression) if expression.evaluate(is_allowed) => None,
        Ok(_) => Some(format!("{name} {version}: {license}")),
        Err(error) => Some(format!(
            "{name} {version}: {license:?} cannot be read: {}",
            error.reason
        )),
    }
}

fn is_allowed(requirement: &LicenseReq) -> bool {
    requirement
        .license
        .id()
        .is_some_and(|id| ALLOWED.contains(&id.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(license: Option<&str>) -> Package {
        Package {
            name: "x".to_owned(),
            version: "1.0.0".to_owned(),
            license: license.map(str::to_owned),
        }
    }

    #[test]
    fn one_allowed_choice_is_enough() {
        assert_eq!(refusal(&package(Some("GPL-2.0-only OR MIT"))), None);
        assert_eq!(refusal(&package(Some("MIT/Apache-2.0"))), None);
    }

    #[test]
    fn copyleft_and_no_licence_are_refused() {
        for license in [
            Some("LGPL-3.0-only"),
            Some("MIT AND GPL-2.0-only"),
            Some("nonsense"),
            None,
        ] {
            assert!(refusal(&package(license)).is_some(), "{license:?}");
        }
    }
}
