//! A real terminal: tmux. Keys go in, the screen comes out.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::PATIENCE;
use crate::tools::command;
use crate::{Result, check, process};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A terminal with a shell in it, gone when dropped.
pub struct Terminal {
    socket: String,
}

impl Terminal {
    /// So many columns and lines. Its environment has these settings and those of the test.
    pub fn new(width: u16, height: u16, settings: &[(&str, &str)]) -> Result<Terminal> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let terminal = Terminal { socket: format!("heapledger-e2e-{}-{number}", std::process::id()) };
        let mut start = terminal.tmux();
        start.args(["-f", "/dev/null", "-u", "new-session", "-d", "-x", &width.to_string(), "-y", &height.to_string()]);
        start.arg("env");
        start.args(settings.iter().map(|(name, value)| format!("{name}={value}")));
        // A prompt that is known, in a shell that stops and continues jobs.
        start.args(["PS1=ready> ", "bash", "--norc", "--noprofile"]);
        process::run(&mut start)?.good()?;
        terminal.until("ready>")?;
        Ok(terminal)
    }

    fn tmux(&self) -> Command {
        let mut tmux = command("tmux");
        tmux.env_remove("TMUX").args(["-L", &self.socket]);
        tmux
    }

    fn send(&self, words: &[&str]) -> Result {
        let mut send = self.tmux();
        process::run(send.args(["send-keys"]).args(words))?.good().map(drop)
    }

    /// Presses keys by the names that tmux has for them: `m`, `Enter`, `C-z`.
    pub fn press(&self, keys: &[&str]) -> Result {
        self.send(keys)
    }

    /// Types a line into the shell.
    pub fn line(&self, text: &str) -> Result {
        self.send(&["-l", text])?;
        self.send(&["Enter"])
    }

    /// What is on the screen.
    pub fn screen(&self) -> Result<String> {
        let mut capture = self.tmux();
        Ok(process::run(capture.args(["capture-pane", "-p"]))?.good()?.out())
    }

    /// Gives the terminal another size.
    pub fn resize(&self, width: u16, height: u16) -> Result {
        let mut resize = self.tmux();
        resize.args(["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
        process::run(&mut resize)?.good().map(drop)
    }

    /// Waits until the screen is as wanted; returns it.
    pub fn until_screen(&self, what: &str, holds: impl Fn(&str) -> bool) -> Result<String> {
        let began = Instant::now();
        loop {
            let screen = self.screen()?;
            if holds(&screen) {
                return Ok(screen);
            }
            check!(began.elapsed() < PATIENCE, "the screen never showed {what}:\n{screen}");
            thread::sleep(Duration::from_millis(30));
        }
    }

    /// Waits until a text is on the screen.
    pub fn until(&self, text: &str) -> Result<String> {
        self.until_screen(text, |screen| screen.contains(text))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = process::run(self.tmux().arg("kill-server"));
    }
}
