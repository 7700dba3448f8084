//! As whom a process runs.

use super::identity::Pid;
use super::proc::{Proc, ProcError, words};

/// As whom a process runs, from `status`, which everybody may read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Its real, effective, saved and file system uids.
    pub uids: Vec<u32>,
    /// It has capabilities, or could have them at will (`CapPrm`).
    pub privileged: bool,
}

impl Credentials {
    fn parse(status: &[u8]) -> Credentials {
        let uids = words(status, b"Uid:").filter_map(|word| word.parse().ok());
        let permitted = words(status, b"CapPrm:").next();
        let permitted = permitted.and_then(|word| u64::from_str_radix(word, 16).ok());
        Credentials {
            uids: uids.collect(),
            privileged: permitted != Some(0),
        }
    }

    /// Whether this process may signal one that runs so, as `kill(2)` has it.
    pub fn may_be_signalled(&self) -> bool {
        let own = [rustix::process::getuid(), rustix::process::geteuid()];
        // Its real and its saved uid count.
        let theirs = [self.uids.first(), self.uids.get(2)];
        own.iter()
            .any(|own| own.is_root() || theirs.contains(&Some(&own.as_raw())))
    }
}

impl Proc {
    /// As whom a process runs; `None` when it is gone.
    pub fn credentials(&self, pid: Pid) -> Result<Option<Credentials>, ProcError> {
        let status = self.read(&format!("{pid}/status"))?;
        Ok(status.map(|status| Credentials::parse(&status)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_and_capabilities_are_read() {
        let status = b"Name:\tx\nUid:\t1\t2\t3\t4\nCapPrm:\t0000000000000000\n";
        let expected = Credentials {
            uids: vec![1, 2, 3, 4],
            privileged: false,
        };
        assert_eq!(Credentials::parse(status), expected);
        assert!(Credentials::parse(b"CapPrm:\t0000000000000002\n").privileged);
        // What is not told is no proof of a lack.
        assert!(Credentials::parse(b"").privileged);
    }

    #[test]
    fn the_test_itself_has_some() {
        let own = Proc::open().unwrap().credentials(Pid::own()).unwrap();
        let uids = own.unwrap().uids;
        assert_eq!(uids.len(), 4);
        assert!(uids.contains(&rustix::process::getuid().as_raw()));
        let own = Proc::open().unwrap().credentials(Pid::own()).unwrap();
        assert!(own.unwrap().may_be_signalled());
    }
}
