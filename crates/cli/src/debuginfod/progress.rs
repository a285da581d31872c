//! How far a transfer is, in one line on a terminal.

use std::time::{Duration, Instant};

use heapledger_report::{Figures, clean};

use crate::terminal;

/// How long a person waits before being told.
const PATIENCE: Duration = Duration::from_millis(300);
/// How often the line changes.
const INTERVAL: Duration = Duration::from_millis(100);
/// Columns of the bar.
const BAR: u64 = 20;

/// The line. It goes when the transfer ends.
pub(super) struct Progress {
    module: String,
    enabled: bool,
    began: Instant,
    shown: Option<Instant>,
}

impl Progress {
    pub(super) fn new(module: &str, enabled: bool) -> Progress {
        Progress { module: clean(module).into_owned(), enabled, began: Instant::now(), shown: None }
    }

    /// So much is there; `size` is 0 if nobody knows how much it will be.
    pub(super) fn bytes(&mut self, got: u64, size: u64) {
        let now = Instant::now();
        let due = self.shown.map_or(self.began + PATIENCE, |shown| shown + INTERVAL);
        if !self.enabled || now < due {
            return;
        }
        self.shown = Some(now);
        let line = line(&self.module, got, size, now.duration_since(self.began).as_secs());
        let width = terminal::stderr_width().saturating_sub(1);
        let line: String = line.chars().take(width).collect();
        terminal::renew(&line);
    }
}

fn line(module: &str, got: u64, size: u64, seconds: u64) -> String {
    let bytes = |number| Figures::default().bytes(number);
    match (got, size) {
        (0, _) => format!("asking for debug information of {module}, {seconds} s"),
        (_, 0) => format!("fetching debug information of {module}: {}", bytes(got)),
        _ => {
            let done = (u128::from(got.min(size)) * u128::from(BAR) / u128::from(size)) as usize;
            let bar = format!("{}{}", "#".repeat(done), ".".repeat(BAR as usize - done));
            format!("fetching debug information of {module}: [{bar}] {} of {}", bytes(got), bytes(size))
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            terminal::renew("");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_it_is() {
        assert_eq!(line("libjq.so.1", 0, 0, 3), "asking for debug information of libjq.so.1, 3 s");
        assert_eq!(line("jq", 2048, 0, 3), "fetching debug information of jq: 2.00 KiB");
        assert_eq!(
            line("jq", 1 << 20, 4 << 20, 3),
            "fetching debug information of jq: [#####...............] 1.00 MiB of 4.00 MiB"
        );
        // A size that was a lie.
        assert!(line("jq", u64::MAX, 1, 3).contains("[####################]"));
    }
}
