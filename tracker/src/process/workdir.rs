//! The directory that somebody works in, found by its name and remembered by
//! what it is.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::bytes::Escaped;
use super::dir::{Device, Dir, DirId};
use super::file_path;
use super::identity::Pid;
use super::proc::{Proc, ProcError};

/// A directory as it was when it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workdir {
    /// Its path then, without symbolic links.
    #[serde(with = "file_path")]
    pub path: PathBuf,
    /// Which one it is.
    pub id: DirId,
    /// The device of its file system, as `mountinfo` shows it.
    pub file_system: Device,
    /// Its path in that file system.
    #[serde(with = "file_path")]
    pub inside: PathBuf,
    /// The uid that it belonged to.
    pub owner_uid: u32,
}

/// A directory that is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedDir {
    /// Its path, without symbolic links.
    #[serde(with = "file_path")]
    pub path: PathBuf,
    /// The nearest directory around it that is there.
    #[serde(with = "file_path")]
    pub around: PathBuf,
    /// Which one that is.
    pub around_id: DirId,
}

/// What a path led to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// A directory. It may be removed by now.
    Known(Workdir),
    /// Nothing. If a directory was there once, then nobody knows which one.
    Removed(RemovedDir),
}

/// Symbolic links that are followed before it is a loop, as in `path_resolution(7)`.
const LINKS: usize = 40;

impl Place {
    /// Where an absolute path leads. Can take for ever on a file system that
    /// does not answer.
    pub fn find(proc: &Proc, path: &Path) -> Result<Place, PlaceError> {
        if !path.is_absolute() {
            return Err(PlaceError::Relative(path.to_owned()));
        }
        let mut at = path.to_owned();
        // What is not there, the innermost first.
        let mut missing: Vec<OsString> = Vec::new();
        let mut links = 0;
        loop {
            match Dir::open(&at) {
                Ok(dir) if missing.is_empty() => {
                    return Ok(Place::Known(Workdir::of(proc, &dir, path)?));
                }
                Ok(dir) => {
                    let around = dir.path().map_err(|errno| PlaceError::io(path, errno))?;
                    let mut removed = around.clone();
                    removed.extend(missing.iter().rev());
                    return Ok(Place::Removed(RemovedDir {
                        path: removed,
                        around,
                        around_id: dir.id(),
                    }));
                }
                Err(Errno::NOENT) => {}
                Err(Errno::NOTDIR) => return Err(PlaceError::NotADirectory(path.to_owned())),
                Err(errno) => return Err(PlaceError::io(path, errno)),
            }
            // A symbolic link that leads to what is removed, or no file at all.
            if let Ok(target) = rustix::fs::readlink(&at, Vec::new()) {
                links += 1;
                if links > LINKS {
                    return Err(PlaceError::io(path, Errno::LOOP));
                }
                at.pop();
                at.push(OsString::from_vec(target.into_bytes()));
                continue;
            }
            // `..` behind what is not there leads nobody knows where.
            let Some(name) = at.file_name() else {
                return Err(PlaceError::io(path, Errno::NOENT));
            };
            missing.push(name.to_owned());
            at.pop();
        }
    }

    /// Its path, without symbolic links.
    pub fn path(&self) -> &Path {
        match self {
            Place::Known(workdir) => &workdir.path,
            Place::Removed(removed) => &removed.path,
        }
    }
}

impl Workdir {
    /// The directory that an absolute path leads to, like [`Place::find`].
    pub fn find(proc: &Proc, path: &Path) -> Result<Workdir, PlaceError> {
        match Place::find(proc, path)? {
            Place::Known(workdir) => Ok(workdir),
            Place::Removed(_) => Err(PlaceError::Missing(path.to_owned())),
        }
    }

    fn of(proc: &Proc, dir: &Dir, given: &Path) -> Result<Workdir, PlaceError> {
        let path = dir.path().map_err(|errno| PlaceError::io(given, errno))?;
        if path == Path::new("/") {
            return Err(PlaceError::Root);
        }
        // The path of a directory that was removed since is none.
        let again = Dir::open(&path).map_err(|errno| PlaceError::io(given, errno))?;
        if !again.id().is(dir.id()) {
            return Err(PlaceError::io(given, Errno::NOENT));
        }
        let table = proc.mounts(Pid::own())?.unwrap_or_default();
        let mount = table.by_id(dir.mount_id());
        let inside = mount.and_then(|mount| mount.in_file_system(&path));
        Ok(Workdir {
            id: dir.id(),
            owner_uid: dir.mode().1,
            // Where the mount is not known, so that it lies outside of this
            // process's root, the best guess.
            file_system: mount.map_or(dir.id().device, |mount| mount.device),
            inside: inside.unwrap_or_else(|| path.clone()),
            path,
        })
    }
}

/// A path leads to no directory that could be worked in.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// It depends on where the reader is.
    #[error("{} is not an absolute path", shown(.0))]
    Relative(PathBuf),
    /// It does not exist.
    #[error("there is no directory {}", shown(.0))]
    Missing(PathBuf),
    /// Something else is there.
    #[error("{} is not a directory", shown(.0))]
    NotADirectory(PathBuf),
    /// It is `/`.
    #[error("/ is nobody's working directory alone")]
    Root,
    /// The kernel did not say.
    #[error("cannot look at {}: {errno}", shown(path))]
    Io {
        /// The path that was given.
        path: PathBuf,
        /// What the kernel answered.
        errno: Errno,
    },
    /// `/proc` could not be read.
    #[error(transparent)]
    Proc(#[from] ProcError),
}

impl PlaceError {
    fn io(path: &Path, errno: Errno) -> PlaceError {
        PlaceError::Io {
            path: path.to_owned(),
            errno,
        }
    }
}

fn shown(path: &Path) -> Escaped<'_> {
    Escaped(path.as_os_str().as_encoded_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn find(path: impl AsRef<Path>) -> Result<Place, PlaceError> {
        Place::find(&Proc::open().unwrap(), path.as_ref())
    }

    struct Scene {
        _dir: tempfile::TempDir,
        real: PathBuf,
    }

    /// `w/job` is there, `l` leads to `w`, `to-job` to `l/job`.
    fn scene() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let real = std::fs::canonicalize(dir.path()).unwrap();
        std::fs::create_dir_all(real.join("w/job")).unwrap();
        symlink("w", real.join("l")).unwrap();
        symlink("l/job", real.join("to-job")).unwrap();
        Scene { _dir: dir, real }
    }

    #[test]
    fn symbolic_links_are_followed_to_what_is_there() {
        let scene = scene();
        for name in ["w/job", "l/job", "to-job", "w/../l/job/."] {
            let Place::Known(found) = find(scene.real.join(name)).unwrap() else {
                panic!("{name}")
            };
            assert_eq!(found.path, scene.real.join("w/job"), "{name}");
            assert!(found.id.is(Dir::open(&found.path).unwrap().id()));
            assert!(found.inside.ends_with("w/job"), "{found:?}");
        }
    }

    #[test]
    fn symbolic_links_are_followed_to_what_is_removed() {
        let scene = scene();
        std::fs::remove_dir(scene.real.join("w/job")).unwrap();
        let around_id = Dir::open(&scene.real.join("w")).unwrap().id();
        for (name, removed) in [
            ("l/job", "w/job"),
            ("to-job", "w/job"),
            ("to-job/a/b", "w/job/a/b"),
        ] {
            let expected = RemovedDir {
                path: scene.real.join(removed),
                around: scene.real.join("w"),
                around_id,
            };
            assert_eq!(
                find(scene.real.join(name)).unwrap(),
                Place::Removed(expected),
                "{name}"
            );
        }
    }

    #[test]
    fn only_a_missing_file_means_removed() {
        let scene = scene();
        std::fs::write(scene.real.join("file"), "").unwrap();
        symlink("b", scene.real.join("a")).unwrap();
        symlink("a", scene.real.join("b")).unwrap();
        for name in ["file", "file/x"] {
            let found = find(scene.real.join(name));
            assert!(
                matches!(found, Err(PlaceError::NotADirectory(_))),
                "{found:?}"
            );
        }
        for name in ["a", "a/x", "gone/../w"] {
            let found = find(scene.real.join(name));
            assert!(matches!(found, Err(PlaceError::Io { .. })), "{found:?}");
        }
        assert!(matches!(find("w/job"), Err(PlaceError::Relative(_))));
        assert!(matches!(
            find("/w/.."),
            Err(PlaceError::Io { .. } | PlaceError::Root)
        ));
        assert!(matches!(find("/"), Err(PlaceError::Root)));
    }

    #[test]
    fn an_error_shows_a_path_on_one_line() {
        let error = find("a\nb").unwrap_err();
        assert_eq!(error.to_string(), "a\\nb is not an absolute path");
    }
}
