//! The memory of a program for those who may not trace it themselves: where only a program's parent may, `run`, which is its parent, opens it
//! and hands the open file to who asks, if that is of the same user or root.
//!
//! The door is a socket without a file (an abstract name, of the network namespace), so nothing is left behind by a `run` that is killed.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{ControlMessage, MsgFlags, getsockopt, sendmsg};
use nix::unistd::geteuid;

use crate::sys;

/// How long an answer may take: one call of the kernel on the other side.
const PATIENCE: Duration = Duration::from_secs(2);
/// What is sent with the file.
const ANSWER: &[u8] = b"m";
const ANSWERS_AT_ONCE: usize = 16;

/// Whether the other side is of this user, or root.
fn is_ours(other: &UnixStream) -> io::Result<bool> {
    let user = getsockopt(other, PeerCredentials)?.uid();
    Ok(user == 0 || user == geteuid().as_raw())
}

fn address(session: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("heapledger-memory-{session}"))
}

/// Where others ask for the memory of a program that is our child.
pub struct Door {
    listener: UnixListener,
    pid: i32,
}

impl Door {
    /// Opens it; `None` if that cannot be done: then only who may trace the program reads its memory.
    pub fn open(session: &str, pid: i32) -> Option<Door> {
        let listener = UnixListener::bind_addr(&address(session).ok()?).ok()?;
        listener.set_nonblocking(true).ok()?;
        Some(Door { listener, pid })
    }

    /// Becomes readable when somebody asks.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Answers those who have asked by now, but not without end: `run` has its program to look after.
    pub fn answer(&self) {
        for (asker, _) in (0..ANSWERS_AT_ONCE).map_while(|_| self.listener.accept().ok()) {
            // Who gets nothing is told so by the end of the connection.
            let _ = self.hand_out(&asker);
        }
    }

    fn hand_out(&self, asker: &UnixStream) -> io::Result<()> {
        if !is_ours(asker)? {
            return Ok(());
        }
        let memory = File::open(format!("/proc/{}/mem", self.pid))?;
        let descriptors = [memory.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&descriptors)];
        sendmsg::<()>(asker.as_raw_fd(), &[IoSlice::new(ANSWER)], &rights, MsgFlags::MSG_NOSIGNAL, None)?;
        Ok(())
    }
}

/// The memory of the program that the `run` of a session has started, from that one.
///
/// # Errors
/// If there is no such `run`, or it gives nothing.
pub fn ask(session: &str) -> io::Result<File> {
    let stream = UnixStream::connect_addr(&address(session)?)?;
    // Anybody can have a socket of that name.
    if !is_ours(&stream)? && !geteuid().is_root() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    sys::receive_file(&stream)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn who_asks_has_the_memory_of_the_program() {
        static WORD: [u8; 4] = *b"here";
        let session = format!("test-{}", std::process::id());
        assert!(ask(&session).is_err(), "nobody is there");
        let own = i32::try_from(std::process::id()).expect("a number");
        let door = Door::open(&session, own).expect("a door");
        assert!(Door::open(&session, own).is_none(), "there is one already");
        let memory = std::thread::scope(|scope| {
            let asking = scope.spawn(|| ask(&session));
            while !asking.is_finished() {
                door.answer();
            }
            asking.join().expect("no panic")
        });
        let mut found = [0; 4];
        memory.expect("memory").read_exact_at(&mut found, WORD.as_ptr() as u64).expect("it is there");
        assert_eq!(found, WORD);
        drop(door);
        assert!(ask(&session).is_err());
        // Whoever is told nothing sees the end.
        let gone = Door::open(&session, i32::MAX).expect("another one");
        let mut stream = UnixStream::connect_addr(&address(&session).expect("an address")).expect("connected");
        gone.answer();
        assert_eq!(stream.read(&mut [0]).expect("the end"), 0);
    }
}
