//! Paths as JSON has them. A path is bytes, and JSON is text.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path: text where it is UTF-8, and else an array of its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum FilePath {
    /// It is UTF-8. Not escaped.
    Text(String),
    /// It is not.
    Bytes(Vec<u8>),
}

impl From<&Path> for FilePath {
    fn from(path: &Path) -> FilePath {
        match path.to_str() {
            Some(text) => FilePath::Text(text.to_owned()),
            None => FilePath::Bytes(path.as_os_str().as_bytes().to_vec()),
        }
    }
}

impl From<FilePath> for PathBuf {
    fn from(path: FilePath) -> PathBuf {
        match path {
            FilePath::Text(text) => PathBuf::from(text),
            FilePath::Bytes(bytes) => PathBuf::from(OsString::from_vec(bytes)),
        }
    }
}

/// Writes a path as a [`FilePath`]: for `#[serde(with)]`.
pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    FilePath::from(path).serialize(serializer)
}

/// Reads a path from a [`FilePath`]: for `#[serde(with)]`.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    FilePath::deserialize(deserializer).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_path_comes_back_as_it_was(bytes: Vec<u8>) {
            let path = PathBuf::from(OsString::from_vec(bytes));
            let json = serde_json::to_string(&FilePath::from(path.as_path())).unwrap();
            let back: FilePath = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(PathBuf::from(back), path);
        }
    }

    #[test]
    fn text_is_text() {
        let json = serde_json::to_string(&FilePath::from(Path::new("/w/\u{e9} \n"))).unwrap();
        assert_eq!(json, "\"/w/\u{e9} \\n\"");
    }
}
