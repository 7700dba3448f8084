//! The socket: one daemon has it, with the right mode from its first instant.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

/// Anybody may connect; what they may do is decided by who they are.
const SOCKET_MODE: u32 = 0o666;

/// A listening socket. The path is removed when it is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    /// The lock, and the path that it stands for. `None` for a socket that was
    /// passed in, which belongs to whoever passed it.
    place: Option<(File, PathBuf)>,
}

impl Listener {
    /// Takes `path`, also from a daemon that died.
    ///
    /// Who holds the lock beside the socket owns the path, so that two daemons
    /// that start at once cannot both think that the socket is stale. The
    /// socket is made in a directory that nobody else may enter, gets its mode
    /// there, and is then renamed onto the path: `bind` applies the umask, and
    /// at no time is there a socket with another mode, nor, when a stale one is
    /// replaced, no socket.
    pub fn bind(path: &Path) -> Result<Listener, ListenError> {
        let lock = lock(path)?;
        let error = |source| ListenError::Bind {
            path: path.to_owned(),
            source,
        };
        let private = private_directory(path).map_err(error)?;
        let made = private.join("socket");
        let bound = UnixListener::bind(&made).and_then(|socket| {
            fs::set_permissions(&made, fs::Permissions::from_mode(SOCKET_MODE))?;
            fs::rename(&made, path)?;
            Ok(socket)
        });
        if bound.is_err() {
            let _ = fs::remove_file(&made);
        }
        let _ = fs::remove_dir(&private);
        let socket = bound.map_err(error)?;
        socket.set_nonblocking(true).map_err(error)?;
        Ok(Listener {
            socket,
            place: Some((lock, path.to_owned())),
        })
    }

    /// Uses a socket that the service manager made.
    pub fn passed(socket: UnixListener) -> Result<Listener, ListenError> {
        socket
            .set_nonblocking(true)
            .map_err(|source| ListenError::Bind {
                path: PathBuf::from("(passed)"),
                source,
            })?;
        Ok(Listener {
            socket,
            place: None,
        })
    }

    /// The socket, for the async runtime.
    pub(super) fn to_tokio(&self) -> io::Result<tokio::net::UnixListener> {
        tokio::net::UnixListener::from_std(self.socket.try_clone()?)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some((_lock, path)) = &self.place {
            // The lock is still held, so it is this daemon's own socket.
            let _ = fs::remove_file(path);
        }
    }
}

/// Locks `path` + `.lock`. The file stays when the daemon ends: removing a lock
/// file lets two processes hold two files of one name.
fn lock(path: &Path) -> Result<File, ListenError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&name)
        .map_err(|source| ListenError::Lock {
            path: name.clone(),
            source,
        })?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(ListenError::InUse {
            path: path.to_owned(),
        }),
        Err(errno) => Err(ListenError::Lock {
            path: name,
            source: errno.into(),
        }),
    }
}

/// A new directory beside the socket that only this user may enter.
fn private_directory(path: &Path) -> io::Result<PathBuf> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let template = parent.join(".tracker-XXXXXX");
    Ok(nix::unistd::mkdtemp(&template)?)
}

/// The socket could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another daemon has it.
    #[error("another tracker daemon serves {} already", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// The lock file could not be used.
    #[error("cannot lock {}: {source}", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The port could not be had.
    #[error("cannot listen on {address}: {source}")]
    Port {
        /// The address.
        address: std::net::SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The socket could not be made.
    #[error("cannot listen on {}: {source}", path.display())]
    Bind {
        /// The socket.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileTypeExt;
    use std::os::unix::net::UnixStream;

    #[test]
    fn anybody_may_connect_whatever_the_umask_says() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let _listener = Listener::bind(&path).unwrap();
        let meta = fs::symlink_metadata(&path).unwrap();
        assert!(meta.file_type().is_socket());
        assert_eq!(meta.permissions().mode() & 0o777, SOCKET_MODE);
        UnixStream::connect(&path).unwrap();
        let mut names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["s.sock", "s.sock.lock"], "nothing else is left");
    }

    #[test]
    fn the_second_is_told_that_there_is_a_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let first = Listener::bind(&path).unwrap();
        assert!(matches!(
            Listener::bind(&path),
            Err(ListenError::InUse { .. })
        ));
        UnixStream::connect(&path).unwrap();
        drop(first);
        assert!(!path.exists());
        Listener::bind(&path).unwrap();
    }

    #[test]
    fn a_stale_socket_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(UnixStream::connect(&path).is_err());
        let _listener = Listener::bind(&path).unwrap();
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = Listener::bind(Path::new("/nonexistent/s.sock")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/s.sock"), "{error}");
    }
}
