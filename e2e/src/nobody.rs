//! A user that nobody else is: for tests of the default places, which are the same for everybody.
//!
//! Ledgers lie in a directory `heapledger-UID` in each place. In a user namespace of its own a process has whatever
//! number it asks for, so the default places of a test are as private as its scratch directory.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process;
use crate::tools::{command_of_a_user, find, products};

/// Above what systems give to people and containers, with room for the number of a process.
const FIRST_UID: u32 = 3_000_000_000;

/// The places where ledgers go if nobody says otherwise, and that no variable names.
const PLACES: [&str; 3] = ["/dev/shm", "/tmp", "/var/tmp"];

/// A user with a number of its own; what it left in the default places goes when it is dropped.
#[derive(Debug)]
pub struct Nobody {
    unshare: PathBuf,
    uid: u32,
}

impl Nobody {
    /// For the one test of a process that needs it. `None` where users cannot be made up.
    pub fn new() -> Option<Nobody> {
        let nobody = Nobody { unshare: find(&["unshare"])?, uid: FIRST_UID + std::process::id() };
        let ran = process::run(nobody.command("id").arg("-u")).ok()?;
        (ran.status.success() && ran.out().trim() == nobody.uid.to_string()).then_some(nobody)
    }

    /// A command of this user, with nothing of ours in its environment.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = command_of_a_user(&self.unshare);
        command.arg("--user").arg(format!("--map-user={}", self.uid)).arg("--").arg(program);
        command.env("XDG_CACHE_HOME", products().join("cache-of-nobody"));
        command
    }

    /// The name of the directory of ledgers, in whatever place.
    pub fn directory(&self) -> String {
        format!("heapledger-{}", self.uid)
    }

    /// The directory of ledgers in a place.
    pub fn directory_in(&self, place: impl AsRef<Path>) -> PathBuf {
        place.as_ref().join(self.directory())
    }
}

impl Drop for Nobody {
    fn drop(&mut self) {
        for place in PLACES {
            let _ = fs::remove_dir_all(self.directory_in(place));
        }
    }
}
