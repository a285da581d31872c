//! Live blocks as lines of libwebsockets, written by the program itself.
#![forbid(unsafe_code)]

use crate::NotWritten;
use core::fmt;

/// All live blocks as lines of libwebsockets, oldest first, which its tools and `heapledger decode`, `heapmap`, and every other command read:
/// `~m#…`, a compressed backtrace with the block's size, or `~b#size: …`, the same in words.
///
/// Blocks are those of the ledger: all of the process's, under `heapledger run` as well; of a [sampled](crate::Options::sampled) one the
/// samples. They are gathered first, in memory that is not the program's allocator's, and no lock is held while they are written: whoever
/// takes the text may allocate, and other threads go on. What this thread has done before is in them exactly; of what others do meanwhile some
/// is there and some is not.
///
/// libwebsockets' own format holds 31 frames below 2³¹, so not the addresses of programs that lie anywhere: such lines are in an extension that
/// libwebsockets' tool refuses and ours reads. With [`of_program`](LiveLines::of_program) frames are by their addresses in the program's file, so
/// that they fit, and `--exe FILE` names them wherever the program has lain. Of more than 255 frames the innermost are written.
///
/// ```
/// use heapledger::{Heapledger, LiveLines};
/// use std::alloc::System;
///
/// #[global_allocator]
/// static HEAP: Heapledger<System> = Heapledger::system();
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     # if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) { return Ok(()) }
///     let kept = vec![0u8; 12_345];
///     let mut text = String::new();
///     let lines = LiveLines::plain().write_text(&mut text)?;
///     assert_eq!(text.lines().count() as u64, lines);
///     assert!(text.contains("~b#size: 12345, 0x"));
///     LiveLines::compressed().of_program().write(&mut std::io::sink())?;
///     # drop(kept);
///     # heapledger::discard();
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "nothing is written before it is asked for"]
pub struct LiveLines {
    is_plain: bool,
    is_of_program: bool,
}

impl LiveLines {
    /// As lines `~m#…`.
    pub const fn compressed() -> LiveLines {
        LiveLines { is_plain: false, is_of_program: false }
    }

    /// As lines `~b#size: …`.
    pub const fn plain() -> LiveLines {
        LiveLines { is_plain: true, is_of_program: false }
    }

    /// Frames are the program's own, by their addresses in its file; those of libraries are left out.
    pub const fn of_program(self) -> LiveLines {
        LiveLines { is_of_program: true, ..self }
    }

    /// Writes them, each with a line end, and gives how many there are.
    ///
    /// # Errors
    /// [`NotWritten::NotRecorded`], [`NotWritten::System`] (no memory: 12; others allocate faster than blocks are gathered: 11), or
    /// [`NotWritten::Refused`] if `out` says no; what has been written before stays written.
    pub fn write_text(self, out: &mut impl fmt::Write) -> Result<u64, NotWritten> {
        here::write(self, &mut |text| core::str::from_utf8(text).is_ok_and(|text| out.write_str(text).is_ok()))
    }

    /// The same to a file or another stream.
    ///
    /// # Errors
    /// As those of [`write_text`](LiveLines::write_text); what the stream says is in [`NotWritten::System`], if it has a number.
    #[cfg(feature = "std")]
    pub fn write(self, out: &mut impl std::io::Write) -> Result<u64, NotWritten> {
        let mut failed = None;
        let written = here::write(self, &mut |text| {
            failed = out.write_all(text).err();
            failed.is_none()
        });
        match failed.and_then(|error| error.raw_os_error()) {
            Some(number) => Err(NotWritten::System(number)),
            None => written,
        }
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod here {
    use super::{LiveLines, NotWritten};
    use core::fmt;
    use heapledger_linux::syscall::Errno;
    use heapledger_process::live_lines::{self, LineAddresses, LineForm, LinesEnd};
    use heapledger_process::switch::Recording;
    use heapledger_process::ways;
    use heapledger_recorder::inspect::text::{Sink, Writer};

    /// A function that takes pieces of text.
    struct Takes<'f>(&'f mut dyn FnMut(&[u8]) -> bool);

    impl Sink for Takes<'_> {
        fn take(&mut self, text: &[u8]) -> bool {
            (self.0)(text)
        }
    }

    /// Text in pieces that are not too small.
    struct Gathers<'a, 'f>(Writer<'a, Takes<'f>>);

    impl fmt::Write for Gathers<'_, '_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.push(text.as_bytes());
            if self.0.is_refused() { Err(fmt::Error) } else { Ok(()) }
        }
    }

    pub(super) fn write(lines: LiveLines, take: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, NotWritten> {
        let recorder = ways::recorder().filter(|way| way.recording() != Recording::Off);
        let way = recorder.ok_or(NotWritten::NotRecorded)?;
        let form = if lines.is_plain { LineForm::Plain } else { LineForm::Compressed };
        let addresses = if lines.is_of_program { LineAddresses::OfProgram } else { LineAddresses::InMemory };
        let mut takes = Takes(take);
        let mut gathers = Gathers(Writer::new(&mut takes));
        let written = live_lines::write(way, form, addresses, &mut gathers);
        let is_taken = gathers.0.end();
        match written {
            Ok(lines) if is_taken => Ok(lines),
            Ok(_) | Err(LinesEnd::Refused) => Err(NotWritten::Refused),
            Err(LinesEnd::NoMemory) => Err(NotWritten::System(Errno::NOMEM.0)),
            Err(LinesEnd::Busy) => Err(NotWritten::System(Errno::AGAIN.0)),
        }
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod here {
    use super::{LiveLines, NotWritten};

    pub(super) fn write(_: LiveLines, _: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, NotWritten> {
        Err(NotWritten::NotRecorded)
    }
}
