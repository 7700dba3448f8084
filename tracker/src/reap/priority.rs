//! CPU time for the thread that reaps.

/// The nice value that gets the most CPU time.
const HIGHEST: i32 = -20;

/// Puts the calling thread before others as long as it exists. Against a
/// thousand processes that fork in a loop, a thread with an ordinary share of
/// the CPUs needs a minute for what takes it a moment. Without the capability
/// (`CAP_SYS_NICE`) nothing changes.
///
/// Not a real-time policy: on a single CPU that would keep the processes that
/// were killed from dying.
#[derive(Debug)]
pub(super) struct Priority(Option<i32>);

impl Priority {
    pub(super) fn raise() -> Priority {
        // For the kernel these are of a thread: setpriority(2), BUGS.
        let before = rustix::process::getpriority_process(None).ok();
        let raised = rustix::process::setpriority_process(None, HIGHEST).is_ok();
        Priority(before.filter(|_| raised))
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            // Giving it back is always allowed.
            let _ = rustix::process::setpriority_process(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_priority_is_given_back() {
        let now = || rustix::process::getpriority_process(None).unwrap();
        let before = now();
        let priority = Priority::raise();
        if rustix::process::geteuid().is_root() {
            assert_eq!(now(), HIGHEST);
        }
        drop(priority);
        assert_eq!(now(), before);
    }
}
