//! Standard output, for all that is written there.

use std::io::{self, Stdout, Write};

use heapledger_launch::startup;

/// Standard output, which refuses what is written if it was closed when we were started. Rust's runtime puts `/dev/null` in its place
/// then: all would be well, and nobody would ever see any of it.
pub(crate) struct Out(Stdout);

/// Standard output.
pub(crate) fn stdout() -> Out {
    Out(io::stdout())
}

impl Out {
    fn is_there() -> io::Result<()> {
        const STDOUT: u8 = 1;
        if startup::was_closed(STDOUT) {
            return Err(io::Error::other("standard output is closed: there is nowhere to write to"));
        }
        Ok(())
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Out::is_there().and_then(|()| self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
