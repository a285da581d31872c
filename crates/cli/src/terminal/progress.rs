//! How far work is that takes long: one line on standard error, written over itself and in the end taken away.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use heapledger_report::Figures;

use super::{renew, stderr_width};

/// How long a person waits before being told.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the line changes.
const INTERVAL: Duration = Duration::from_millis(100);

/// The line. It goes when this value does.
#[derive(Debug)]
pub(crate) struct Progress {
    what: String,
    began: Instant,
    patience: Duration,
    shown: Option<Instant>,
    to: Option<To>,
}

/// Where the line goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    /// Renewed again and again.
    Terminal,
    /// Written once: into a file, a pipe.
    Elsewhere,
}

impl Progress {
    /// Of work for which somebody waits; on a terminal only.
    pub(crate) fn new(what: &str) -> Progress {
        let to = io::stderr().is_terminal().then_some(To::Terminal);
        Progress { what: what.to_owned(), began: Instant::now(), patience: PATIENCE, shown: None, to }
    }

    /// Of work that nobody asked for in so many words: `run` tells of it wherever its messages go, unless it is to be quiet.
    pub(crate) fn of_ours(what: &str, quiet: bool) -> Progress {
        let mut line = Progress::new(&format!("heapledger: {what}"));
        line.to = (!quiet).then(|| line.to.unwrap_or(To::Elsewhere));
        line
    }

    /// The same, but a person is told after this time, and on whatever takes it for a terminal.
    pub(super) fn impatient(what: &str, patience: Duration) -> Progress {
        let mut line = Progress::new(what);
        (line.patience, line.to) = (patience, Some(To::Terminal));
        line
    }

    /// `part` is from 0 to 1.
    pub(crate) fn show(&mut self, part: f32) {
        self.line(|what, _| format!("{what}: {:.0}% ", part * 100.0));
    }

    /// `done` of `all` bytes.
    pub(crate) fn bytes(&mut self, done: u64, all: u64) {
        let percent = done.saturating_mul(100).checked_div(all).unwrap_or(100).min(100);
        self.line(|what, _| format!("{what}: {percent}% of {}", Figures::default().bytes(all)));
    }

    /// What is made of the words about the work and the time that it has taken, if it is time to say something.
    pub(super) fn line(&mut self, text: impl FnOnce(&str, Duration) -> String) {
        let now = Instant::now();
        let due = match (self.shown, self.to) {
            (_, None) | (Some(_), Some(To::Elsewhere)) => false,
            (None, _) => now >= self.began + self.patience,
            (Some(last), _) => now >= last + INTERVAL,
        };
        if !due {
            return;
        }
        self.shown = Some(now);
        let text = text(&self.what, now.duration_since(self.began));
        if self.to == Some(To::Terminal) {
            let width = stderr_width().saturating_sub(1);
            renew(&text.chars().take(width).collect::<String>());
        } else {
            // Where it cannot be said there is nowhere to say that.
            let _ = writeln!(io::stderr(), "{text}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() && self.to == Some(To::Terminal) {
            renew("");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_before_its_time_or_twice_in_a_file() {
        let mut said = 0;
        let mut line = Progress::of_ours("testing progress", false);
        line.to = Some(To::Elsewhere);
        let mut say = |line: &mut Progress| {
            line.line(|what, _| {
                said += 1;
                what.to_owned()
            });
            said
        };
        assert_eq!(say(&mut line), 0, "a person waits for a second");
        line.patience = Duration::ZERO;
        assert_eq!([say(&mut line), say(&mut line)], [1, 1]);
        line.to = None;
        line.shown = None;
        assert_eq!(say(&mut line), 1);
        assert_eq!(Progress::of_ours("x", true).to, None);
        assert_eq!(Progress::of_ours("x", false).what, "heapledger: x");
    }
}
