//! A process outside of everything, which must live.

use std::process::{Child, Command, Stdio};

use crate::proc::{Life, Who};

/// A `sleep`. Whatever signal reaches it ends or stops it, and that shows.
#[derive(Debug)]
pub struct Canary {
    child: Child,
    who: Who,
}

impl Canary {
    /// Starts one. It is the calling process's child.
    #[track_caller]
    pub fn new() -> Canary {
        Canary::from_command(Command::new("sleep").arg("600"))
    }

    /// Starts this command as one.
    #[track_caller]
    pub fn from_command(command: &mut Command) -> Canary {
        let child = command
            .stdin(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let who = Who::with_pid(child.id());
        Canary { child, who }
    }

    /// Who it is.
    pub fn who(&self) -> Who {
        self.who
    }

    /// Fails the test when it is dead or stopped, or when its pid is another's.
    #[track_caller]
    pub fn assert_lives(&self) {
        match self.who.life() {
            Life::Alive(stat) => assert!(
                !matches!(stat.state, 'T' | 't'),
                "the canary {} was stopped",
                self.who
            ),
            life => panic!("the canary {} is not alive but {life:?}", self.who),
        }
    }
}

impl Default for Canary {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
