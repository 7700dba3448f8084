//! Somebody who lives in a directory.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use crate::proc::Who;
use crate::scene::Scene;
use crate::wait::until;

/// A `sleep` of the scene with this working directory, in no session. Ended
/// when it is dropped.
#[derive(Debug)]
pub struct Dweller {
    child: Child,
    who: Who,
}

impl Dweller {
    /// Starts one. Makes the directory if it is not there.
    #[track_caller]
    pub fn new(scene: &Scene, dir: &Path) -> Dweller {
        fs::create_dir_all(dir).expect("a directory");
        Dweller::from_command(scene.command("sleep").arg("600").current_dir(dir))
    }

    /// Starts this command as one.
    #[track_caller]
    pub fn from_command(command: &mut Command) -> Dweller {
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let who = Who::with_pid(child.id());
        Dweller { child, who }
    }

    /// Who it is.
    pub fn who(&self) -> Who {
        self.who
    }

    /// Whether it lives.
    pub fn is_alive(&self) -> bool {
        self.who.is_alive()
    }

    /// Waits until its program is called so.
    #[track_caller]
    pub fn await_comm(&self, comm: &str) {
        until(&format!("{comm} to run"), || {
            let stat = crate::proc::stat(self.who.pid)?;
            (stat.comm == comm.as_bytes()).then_some(())
        });
    }
}

impl Drop for Dweller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
