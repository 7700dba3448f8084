//! Who is at the other end of a Unix socket.
#![expect(
    unsafe_code,
    reason = "no crate in use wraps SO_PEERGROUPS, and /proc would tell of whoever has the pid by now"
)]

use std::os::fd::{AsFd, AsRawFd};

/// The supplementary groups that the peer had when it connected
/// (`SO_PEERGROUPS`, Linux 4.13).
pub fn peer_groups(socket: impl AsFd) -> std::io::Result<Vec<u32>> {
    let mut groups = vec![0u32; 64];
    loop {
        let room = groups.len() * size_of::<u32>();
        let mut len = libc::socklen_t::try_from(room).unwrap_or(libc::socklen_t::MAX);
        // SAFETY: `groups` has room for `len` bytes, into which the kernel
        // writes gids, and `len` is a valid place for the length; both outlive
        // the call. Any bytes are valid `u32`s.
        let answer = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        let needed = usize::try_from(len).unwrap_or(0) / size_of::<u32>();
        if answer == 0 {
            groups.truncate(needed);
            return Ok(groups);
        }
        let error = std::io::Error::last_os_error();
        // With ERANGE the kernel says how much room it needs.
        if error.raw_os_error() != Some(libc::ERANGE) || needed <= groups.len() {
            return Err(error);
        }
        groups.resize(needed, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_of_a_pair_has_the_groups_of_this_process() {
        let (one, _two) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut own: Vec<u32> = nix::unistd::getgroups()
            .unwrap()
            .into_iter()
            .map(nix::unistd::Gid::as_raw)
            .collect();
        let mut seen = peer_groups(&one).unwrap();
        own.sort_unstable();
        seen.sort_unstable();
        assert_eq!(seen, own);
    }

    #[test]
    fn what_is_no_socket_is_an_error() {
        assert!(peer_groups(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
