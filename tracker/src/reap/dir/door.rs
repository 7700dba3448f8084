//! Who cannot be in a directory, though where they are may not be read.

use std::path::Path;

use crate::process::{Credentials, Dir};

/// The directories around one, and itself, that only their owners may enter.
#[derive(Clone, Debug, Default)]
pub(super) struct Door {
    owners: Vec<u32>,
}

/// Search permission of the group and of everybody. Where an access control
/// list lets others in, the bit of the group is set too: `acl(5)`.
const OPEN: u32 = 0o011;

impl Door {
    /// Of a path; of one that cannot be looked at, nobody is kept out.
    pub(super) fn of(path: &Path) -> Door {
        let mut owners = Vec::new();
        let mut next = Dir::open(path).ok();
        while let Some(dir) = next {
            let (mode, owner) = dir.mode();
            if mode & OPEN == 0 {
                owners.push(owner);
            }
            next = dir.parent().ok().flatten();
        }
        Door { owners }
    }

    /// Whether somebody can have entered.
    pub(super) fn lets_in(&self, who: &Credentials) -> bool {
        who.privileged
            || who.uids.contains(&0)
            || self.owners.iter().all(|owner| who.uids.contains(owner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    fn user(uid: u32) -> Credentials {
        Credentials {
            uids: vec![uid; 4],
            privileged: false,
        }
    }

    #[test]
    fn a_closed_directory_keeps_others_out_and_privileges_do_not_care() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a");
        std::fs::create_dir(&inner).unwrap();
        set_permissions(&inner, Permissions::from_mode(0o755)).unwrap();
        set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
        let door = Door::of(&inner);
        let own = rustix::process::getuid().as_raw();
        assert!(door.lets_in(&user(own)));
        assert!(!door.lets_in(&user(own + 1)));
        assert!(door.lets_in(&user(0)));
        let able = Credentials {
            privileged: true,
            ..user(own + 1)
        };
        assert!(door.lets_in(&able));
        // What a group may do, an access control list may let anybody do.
        set_permissions(dir.path(), Permissions::from_mode(0o710)).unwrap();
        assert!(Door::of(&inner).lets_in(&user(own + 1)));
    }
}
