//! The oracle that cannot be fooled by a process table: a pipe whose write end
//! every descendant inherits. The kernel closes it when the last of them dies.

use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

/// The pipe.
#[derive(Debug)]
pub struct Lifeline {
    read: OwnedFd,
    write: Option<OwnedFd>,
    inode: u64,
}

impl Lifeline {
    /// A new pipe that nobody has inherited.
    pub fn new() -> Lifeline {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let inode = rustix::fs::fstat(&read).expect("fstat of a pipe").st_ino;
        Lifeline {
            read,
            write: Some(write),
            inode,
        }
    }

    /// Lets what `command` starts inherit it, as a descriptor of 3 or higher.
    /// The command has to be spawned before [`Lifeline::all_dead`] is asked.
    pub fn hand_to(&self, command: &mut Command) {
        let write = self.write.as_ref().expect("nothing is started any more");
        crate::raw::inherit(command, write.as_raw_fd());
    }

    /// Names the pipe in `/proc/PID/fd`.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Whether everybody who inherited it is dead within `limit`. Zombies are
    /// dead: their descriptors are closed. Ends the handing out.
    pub fn all_dead(&mut self, limit: Duration) -> bool {
        self.write = None;
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).expect("a limit that fits");
            let mut fds = [PollFd::new(&self.read, PollFlags::IN)];
            match rustix::event::poll(&mut fds, Some(&left)) {
                Ok(0) => return false,
                // A victim that writes to it is alive, and the pipe stays so.
                Ok(_) if fds[0].revents().contains(PollFlags::IN) => {
                    let mut byte = [0; 64];
                    let _ = rustix::io::read(&self.read, &mut byte);
                }
                Ok(_) => return true,
                Err(Errno::INTR) => {}
                Err(errno) => panic!("poll of the lifeline: {errno}"),
            }
        }
    }
}

impl Default for Lifeline {
    fn default() -> Self {
        Self::new()
    }
}
