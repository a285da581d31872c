//! Backtraces of libwebsockets, one by one as they were read: as its own tool prints them, or as JSON.

use std::io::{self, Write};

use heapledger_analysis::{NamedStack, Note, Seen};
use serde::Serialize;

use crate::Ending;
use crate::form::json::{HeaderLine, Hex, end, frames, line};
use crate::form::units::{Paint, counted};
use crate::record::frames;

/// A backtrace that was read.
#[derive(Clone, Debug)]
pub struct DecodedTrace<'a> {
    /// The line that it stood in, or its number among what was typed; from 1.
    pub line: u64,
    /// Bytes asked for.
    pub size: u64,
    /// Frames, innermost first.
    pub frames: &'a [u64],
    /// The dialect; `None` if it was in words.
    pub dialect: Option<&'static str>,
    /// Whether the upper bits of a value are lost.
    pub high_lost: bool,
    /// What is not as it should be, and from which bit on.
    pub lenient: Option<(u32, String)>,
    /// Its functions, if they were to be looked up.
    pub stack: Option<&'a NamedStack>,
}

impl DecodedTrace<'_> {
    /// Writes it as libwebsockets' tool does, with the functions below if they are known.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn text(&self, paint: Paint, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "~b#size: {}, ", self.size)?;
        self.frames.iter().try_for_each(|frame| write!(out, "{frame:#x} "))?;
        writeln!(out)?;
        self.stack.map_or(Ok(()), |stack| frames::stack(out, stack, paint))
    }

    /// Writes it as an object.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Lenient<'a> {
            bit: u32,
            text: &'a str,
        }
        #[derive(Serialize)]
        struct TraceLine<'a> {
            r#type: &'static str,
            line: u64,
            size: u64,
            addresses: Vec<Hex>,
            dialect: Option<&'static str>,
            high_lost: bool,
            lenient: Option<Lenient<'a>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            frames: Option<Named<'a>>,
        }
        #[derive(Serialize)]
        struct Named<'a>(#[serde(serialize_with = "frames")] &'a [heapledger_analysis::NamedFrame]);
        line(
            out,
            &TraceLine {
                r#type: "backtrace",
                line: self.line,
                size: self.size,
                addresses: self.frames.iter().copied().map(Hex).collect(),
                dialect: self.dialect,
                high_lost: self.high_lost,
                lenient: self.lenient.as_ref().map(|(bit, text)| Lenient { bit: *bit, text }),
                frames: self.stack.map(|stack| Named(&stack.frames)),
            },
        )
    }
}

/// The first line of such objects.
///
/// # Errors
/// If it cannot be written.
pub fn decoded_header(source: &str, out: &mut dyn Write) -> io::Result<()> {
    line(out, &HeaderLine::new("decode", source, None))
}

/// The last one: how many were read, and how many could not be.
///
/// # Errors
/// If it cannot be written.
pub fn decoded_end(shown: u64, unread: u64, out: &mut dyn Write) -> io::Result<()> {
    let lacks = (unread != 0)
        .then(|| Note::LogLacks(format!("{} did not decode.", counted(unread, "backtrace", "backtraces"))));
    let seen = Seen { notes: lacks.into_iter().collect() };
    end(out, Ending { shown, ..Ending::default() }, &seen)
}
