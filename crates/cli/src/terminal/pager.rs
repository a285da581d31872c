//! Text that is longer than the screen, through the program with which the person likes to read.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::{BUFFER, Out, size, stdout};
use crate::say;
use heapledger_launch::sys;

/// Lines of a terminal that does not say how many it has.
const HEIGHT: usize = 24;
/// Columns of such a terminal.
const COLUMNS: usize = 80;
/// What `less` is told unless `LESS` says something: leave if it fits on one screen, let colours through, and leave the
/// text on the screen.
const LESS: &str = "FRX";

/// A shell says with these that there is no such program, or that it cannot be executed.
const NOT_STARTED: [i32; 2] = [126, 127];

/// A terminal with a pager before it, which is started when the text turns out to be longer than the screen.
pub(crate) struct Pager {
    command: OsString,
    columns: usize,
    lines: usize,
    state: State,
}

enum State {
    /// It may still fit on one screen.
    Held(HeldText),
    /// It fits on one screen, or the pager could not be started.
    Direct(BufWriter<Out>),
    /// It goes through the pager.
    Running(Child, Option<BufWriter<ChildStdin>>),
}

#[derive(Default)]
struct HeldText {
    text: Vec<u8>,
    /// Lines on the screen that it takes, but for the one that is not ended yet.
    lines: usize,
    /// Columns of that one.
    columns: usize,
    escaping: bool,
}

impl Pager {
    /// With the person's pager; `None` if there is to be none.
    pub(crate) fn new() -> Option<Pager> {
        let chosen = ["HEAPLEDGER_PAGER", "PAGER"].into_iter().find_map(env::var_os);
        let command = chosen.unwrap_or_else(|| OsString::from("less"));
        let (columns, lines) = size().unwrap_or((COLUMNS, HEIGHT));
        let wanted = !command.as_bytes().trim_ascii().is_empty() && command != "cat";
        wanted.then(|| Pager { command, columns, lines, state: State::Held(HeldText::default()) })
    }

    /// What there is; more of it goes to the terminal itself. `None`: nothing is held back any more.
    fn end_waiting(&mut self) -> Option<Vec<u8>> {
        let State::Held(held) = &mut self.state else { return None };
        let text = std::mem::take(&mut held.text);
        self.state = State::Direct(BufWriter::with_capacity(BUFFER, stdout()));
        Some(text)
    }

    /// Shows what there is, and all that follows, without a pager.
    fn show_directly(&mut self) -> io::Result<()> {
        let Some(text) = self.end_waiting() else { return Ok(()) };
        self.write_all(&text)
    }

    /// The same in the pager, if that can be started.
    fn page(&mut self) -> io::Result<()> {
        let Some(text) = self.end_waiting() else { return Ok(()) };
        if let Ok((child, stdin)) = start(&self.command) {
            // Ctrl-C is for the pager: it goes to both, and the terminal must not be given back under it.
            sys::ignore(libc::SIGINT);
            sys::ignore(libc::SIGQUIT);
            self.state = State::Running(child, Some(stdin));
        }
        self.write_all(&text)
    }
}

/// Starts a pager. Without a shell where the words need none, because that tells whether there is such a program.
fn start(command: &OsStr) -> io::Result<(Child, BufWriter<ChildStdin>)> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" /._-+=:,@%".contains(byte);
    let bytes = command.as_bytes();
    let first = bytes.split(|byte| *byte == b' ').find(|word| !word.is_empty()).unwrap_or_default();
    let mut pager = if bytes.iter().all(plain) && !first.contains(&b'=') {
        let mut words = bytes.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).map(OsStr::from_bytes);
        let mut pager = Command::new(words.next().unwrap_or_default());
        pager.args(words);
        pager
    } else {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(command);
        shell
    };
    for (name, value) in [("LESS", LESS), ("LV", "-c")] {
        if env::var_os(name).is_none() {
            pager.env(name, value);
        }
    }
    let mut child = pager.stdin(Stdio::piped()).spawn()?;
    let stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    Ok((child, BufWriter::with_capacity(BUFFER, stdin)))
}

impl HeldText {
    /// Takes more text, and says how many lines of a screen all of it takes.
    fn add(&mut self, bytes: &[u8], width: usize) -> usize {
        for byte in bytes {
            match byte {
                b'\n' => {
                    self.lines += 1;
                    self.columns = 0;
                }
                // Our own escape sequences end in `m`; they and the later bytes of a letter take no room.
                0x1b => self.escaping = true,
                b'm' if self.escaping => self.escaping = false,
                0x80..=0xbf => {}
                _ if self.escaping => {}
                _ if self.columns == width => {
                    self.lines += 1;
                    self.columns = 1;
                }
                _ => self.columns += 1,
            }
        }
        self.text.extend_from_slice(bytes);
        self.lines + usize::from(self.columns != 0)
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.state {
            State::Held(held) => {
                // The last line of the screen is the shell's next prompt.
                if held.add(bytes, self.columns) >= self.lines {
                    self.page()?;
                }
                Ok(bytes.len())
            }
            State::Direct(out) => out.write(bytes),
            State::Running(_, Some(out)) => out.write(bytes),
            State::Running(_, None) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Shows what there is: whoever flushes wants it to be seen.
    fn flush(&mut self) -> io::Result<()> {
        self.show_directly()?;
        match &mut self.state {
            State::Held(_) | State::Running(_, None) => Ok(()),
            State::Direct(out) => out.flush(),
            State::Running(_, Some(out)) => out.flush(),
        }
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        // Whoever cares whether it could be written has flushed.
        let _ = self.flush();
        if let State::Running(child, stdin) = &mut self.state {
            // Its input must end before it is waited for. What it does not want any more is no failure.
            drop(stdin.take().map(BufWriter::into_parts));
            let ended = child.wait();
            if ended.is_ok_and(|status| status.code().is_some_and(|code| NOT_STARTED.contains(&code))) {
                let pager = self.command.to_string_lossy();
                say(&format!("the pager {pager} could not be started; --no-pager does without it"));
            }
            sys::set_default(libc::SIGINT);
            sys::set_default(libc::SIGQUIT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_screen_are_counted() {
        for (text, lines) in [
            ("", 0),
            ("a", 1),
            ("a\n", 1),
            ("a\nb", 2),
            ("0123456789\n", 1),
            ("0123456789x\n", 2),
            ("\x1b[1m0123456789\x1b[0m\n", 1),
            ("äöüäöüäöüä\n", 1),
        ] {
            assert_eq!(HeldText::default().add(text.as_bytes(), 10), lines, "{text:?}");
        }
    }
}
