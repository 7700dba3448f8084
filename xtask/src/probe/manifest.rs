//! What the committed object was made from, and with what.

use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// `tracker/probe/manifest.json`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    /// Of the probe's sources and of the versions of the crates in it.
    pub(crate) sources_sha256: String,
    /// Of the object.
    pub(crate) object_sha256: String,
    /// What made it.
    pub(crate) toolchain: Versions,
}

/// The versions that decide about the bytes of the object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Versions {
    /// As `rustc --version` prints it: with the commit, for nightlies.
    pub(crate) rustc: String,
    /// LLVM inside rustc.
    pub(crate) llvm: String,
    /// As `bpf-linker --version` prints it.
    pub(crate) bpf_linker: String,
}

impl Manifest {
    pub(crate) fn new(sources_sha256: String, object: &[u8], toolchain: Versions) -> Manifest {
        Manifest {
            sources_sha256,
            object_sha256: sha256(object),
            toolchain,
        }
    }

    pub(crate) fn from_json(text: &[u8]) -> anyhow::Result<Manifest> {
        Ok(serde_json::from_slice(text)?)
    }

    pub(crate) fn to_json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (LLVM {}), {}",
            self.rustc, self.llvm, self.bpf_linker
        )
    }
}

/// Of `content`, in hexadecimal digits.
pub(crate) fn sha256(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

/// In hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_reads_back_as_it_was_written() {
        let versions = Versions {
            rustc: "rustc 1.96.0".into(),
            llvm: "22.1.8".into(),
            bpf_linker: "bpf-linker 0.13.0".into(),
        };
        let manifest = Manifest::new("00".into(), b"object", versions);
        let text = manifest.to_json().unwrap();
        assert_eq!(Manifest::from_json(text.as_bytes()).unwrap(), manifest);
        assert!(Manifest::from_json(b"{}").is_err());
    }

    #[test]
    fn a_digest_is_the_known_one() {
        assert!(sha256(b"").starts_with("e3b0c44298fc1c14"));
    }
}
