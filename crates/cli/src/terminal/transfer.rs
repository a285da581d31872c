//! What the client of debuginfod servers is given: programs that are installed, our figures, and a line on the terminal
//! while something is on its way.

use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use heapledger_debuginfod::Host;
use heapledger_report::{Figures, clean};

use super::progress::Progress;
use heapledger_launch::exec;

/// How long a person waits before being told.
const PATIENCE: Duration = Duration::from_millis(300);
/// Columns of the bar.
const BAR: u64 = 20;

/// The terminal.
#[derive(Debug)]
pub(crate) struct Transfers {
    talks: bool,
    line: Option<Progress>,
}

impl Transfers {
    /// Those that a person waits for.
    pub(crate) fn shown() -> Transfers {
        let asked = std::env::var_os("DEBUGINFOD_PROGRESS").is_some();
        Transfers { talks: asked || io::stderr().is_terminal(), line: None }
    }

    /// Those beside which something else is drawn on the terminal.
    pub(crate) fn quiet() -> Transfers {
        Transfers { talks: false, line: None }
    }
}

impl Host for Transfers {
    fn program(&self, name: &str) -> Option<PathBuf> {
        exec::find(OsStr::new(name)).ok()
    }

    fn bytes(&self, bytes: u64) -> String {
        Figures::default().bytes(bytes)
    }

    fn transferring(&mut self, module: &str, got: u64, size: u64) {
        if self.talks {
            let line = self.line.get_or_insert_with(|| Progress::impatient(&clean(module), PATIENCE));
            line.line(|module, passed| transfer(module, got, size, passed.as_secs()));
        }
    }

    fn transferred(&mut self) {
        self.line = None;
    }
}

fn transfer(module: &str, got: u64, size: u64, seconds: u64) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_it_is() {
        assert_eq!(transfer("libjq.so.1", 0, 0, 3), "asking for debug information of libjq.so.1, 3 s");
        assert_eq!(transfer("jq", 2048, 0, 3), "fetching debug information of jq: 2.00 KiB");
        assert_eq!(
            transfer("jq", 1 << 20, 4 << 20, 3),
            "fetching debug information of jq: [#####...............] 1.00 MiB of 4.00 MiB"
        );
        // A size that was a lie.
        assert!(transfer("jq", u64::MAX, 1, 3).contains("[####################]"));
    }
}
