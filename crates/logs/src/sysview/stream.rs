//! The stream of SystemView: from bytes to events, one after another.
//!
//! An event is a number, a payload (with its length in front, from number 24 on) and how many ticks passed since the one
//! before. Numbers below 512 are SystemView's own and the operating system's; above, modules describe themselves.

use std::io::{self, BufRead};

/// Of these numbers on, the length of the payload stands before it.
const FIRST_WITH_LENGTH: u32 = 24;
/// Of these numbers on, events are those of modules.
pub(super) const FIRST_OF_MODULES: u32 = 512;
/// The bit of an event's number that says which core it is of, in streams that have both in one.
const CORE_BIT: u8 = 0x40;
/// Zeros that a stream begins with.
const SYNC_BYTES: usize = 10;
/// Most bytes of a heading line.
const HEADING_BYTES_MAX: usize = 4096;
/// Most lines before the stream.
const HEADING_LINES_MAX: usize = 100;

/// What is wrong with a stream, and at which byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) at_byte: u64,
    pub(super) what: &'static str,
}

/// Why there is no next event.
#[derive(Debug)]
pub(super) enum NoEvent {
    /// The stream is over; it may have been cut within an event.
    End {
        cut: bool,
    },
    Broken(Broken),
    Failed(io::Error),
}

impl From<io::Error> for NoEvent {
    fn from(error: io::Error) -> NoEvent {
        NoEvent::Failed(error)
    }
}

/// An event as far as heaps need it. Ticks are those since the event before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SysEvent {
    /// So many events were dropped on the device.
    Overflow(u32),
    IsrEnter(u32),
    IsrExit {
        to_scheduler: bool,
    },
    TaskStart(u32),
    TaskStop,
    Idle,
    /// A task: its number, its priority, its name.
    TaskInfo(u32, u32, String),
    TraceStart,
    /// A description of the system; `I#5=SysTick` names an interrupt.
    Description(String),
    /// A module: its number, that of its first event, and what it calls itself.
    Module(u32, u32, String),
    /// Ticks in a second.
    Init(u32),
    /// An event of a module: its number and its payload.
    OfModule(u32, Vec<u8>),
    /// A line of the device's log, and its level.
    Message(String, u32),
    /// Anything else: its number, and its figures as far as these are wanted.
    Other(u32, Vec<u32>),
}

/// A stream of one core, or of both in one.
pub(super) struct SysStream<R> {
    input: R,
    /// Bytes from the first one of the stream.
    at_byte: u64,
    /// Where it ends, if that is known.
    end: Option<u64>,
    both_cores: bool,
    core: u8,
    within: bool,
    /// Figures of all events are wanted.
    all_figures: bool,
}

/// What stands before the streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SysHeading {
    /// Where the stream of each core begins, from the first byte behind the heading; empty: there is one.
    pub(super) offsets: Vec<u64>,
    /// Each event says which core it is of.
    pub(super) both_cores: bool,
}

/// Reads the lines before the stream: up to the second one that is empty but for its first character.
pub(super) fn heading(input: &mut impl BufRead) -> io::Result<SysHeading> {
    let mut heading = SysHeading::default();
    let mut empty = 0;
    for _ in 0..HEADING_LINES_MAX {
        if input.fill_buf()?.first() != Some(&b';') {
            break;
        }
        let mut line = Vec::new();
        let mut limited = io::Read::take(&mut *input, HEADING_BYTES_MAX as u64);
        limited.read_until(b'\n', &mut line)?;
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_start_matches(';').trim();
        heading.both_cores |= text == "ESP_Extension";
        if let Some(rest) = text.strip_prefix("Offset Core") {
            let (core, at) = rest.split_once(' ').unwrap_or((rest, ""));
            if core.parse() == Ok(heading.offsets.len())
                && let Ok(at) = at.trim().parse()
            {
                heading.offsets.push(at);
            }
        }
        empty += u32::from(text.is_empty());
        if empty == 2 {
            break;
        }
    }
    Ok(heading)
}

impl<R: BufRead> SysStream<R> {
    /// The stream of `core` that begins `at_byte` and ends where the next one begins.
    pub(super) fn new(input: R, heading: &SysHeading, core: u8, at_byte: u64) -> SysStream<R> {
        let end = heading.offsets.get(usize::from(core) + 1).copied();
        SysStream { input, at_byte, end, both_cores: heading.both_cores, core, within: false, all_figures: false }
    }

    /// Figures of events that say nothing of heaps are wanted as well.
    pub(super) fn all_figures(&mut self, wanted: bool) {
        self.all_figures = wanted;
    }

    /// Passes over the zeros that streams synchronize by.
    pub(super) fn pass_over_zeros(&mut self) -> io::Result<()> {
        for _ in 0..SYNC_BYTES {
            if self.input.fill_buf()?.first() != Some(&0) {
                break;
            }
            self.input.consume(1);
            self.at_byte += 1;
        }
        Ok(())
    }

    /// What is left of the input, and where that is.
    pub(super) fn into_rest(self) -> (R, u64) {
        (self.input, self.at_byte)
    }

    /// Passes over what is left of this core.
    pub(super) fn pass_over_rest(&mut self) -> io::Result<()> {
        while self.end.is_some_and(|end| self.at_byte < end) {
            let part = self.input.fill_buf()?.len() as u64;
            if part == 0 {
                break;
            }
            let taken = part.min(self.end.unwrap_or(0) - self.at_byte);
            self.input.consume(taken as usize);
            self.at_byte += taken;
        }
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, NoEvent> {
        if self.end.is_some_and(|end| self.at_byte >= end) {
            return Err(NoEvent::End { cut: self.within });
        }
        let byte = loop {
            match self.input.fill_buf() {
                Ok(part) => break part.first().copied(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        };
        let byte = byte.ok_or(NoEvent::End { cut: self.within })?;
        self.input.consume(1);
        self.at_byte += 1;
        self.within = true;
        Ok(byte)
    }

    fn broken<T>(&self, what: &'static str) -> Result<T, NoEvent> {
        Err(NoEvent::Broken(Broken { at_byte: self.at_byte, what }))
    }

    /// Seven bits in each byte, the lowest first.
    fn number(&mut self) -> Result<u32, NoEvent> {
        let mut value = 0u64;
        for place in 0..5 {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                // Five bytes have room for more than a number can be.
                return Ok(value as u32);
            }
        }
        self.broken("a number has more than five bytes")
    }

    fn text(&mut self) -> Result<String, NoEvent> {
        let mut length = usize::from(self.byte()?);
        if length == 0xff {
            length = long([self.byte()?, self.byte()?]);
        }
        let bytes = self.bytes(length)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn bytes(&mut self, count: usize) -> Result<Vec<u8>, NoEvent> {
        let mut bytes = Vec::with_capacity(count.min(4096));
        for _ in 0..count {
            bytes.push(self.byte()?);
        }
        Ok(bytes)
    }

    /// The next event: its core, the event, and the ticks that passed before it.
    pub(super) fn next_event(&mut self) -> Result<(u8, SysEvent, u32), NoEvent> {
        self.within = false;
        let first = self.byte()?;
        let mut high = if first & 0x80 == 0 { first } else { self.byte()? };
        let mut core = self.core;
        if self.both_cores {
            core = u8::from(high & CORE_BIT != 0);
            high &= !CORE_BIT;
        }
        let id = if first & 0x80 == 0 { u32::from(high) } else { u32::from(high) << 7 | u32::from(first & 0x7f) };
        let event = if id >= FIRST_WITH_LENGTH { self.with_length(id)? } else { self.own(id)? };
        let ticks = self.number()?;
        self.within = false;
        Ok((core, event, ticks))
    }

    /// Events whose payload follows from their number.
    fn own(&mut self, id: u32) -> Result<SysEvent, NoEvent> {
        Ok(match id {
            1 => SysEvent::Overflow(self.number()?),
            2 => SysEvent::IsrEnter(self.number()?),
            3 | 18 => SysEvent::IsrExit { to_scheduler: id == 18 },
            4 => SysEvent::TaskStart(self.number()?),
            5 => SysEvent::TaskStop,
            9 => {
                let (task, priority) = (self.number()?, self.number()?);
                SysEvent::TaskInfo(task, priority, self.text()?)
            }
            10 => SysEvent::TraceStart,
            14 => SysEvent::Description(self.text()?),
            17 => SysEvent::Idle,
            22 => {
                let (module, first) = (self.number()?, self.number()?);
                SysEvent::Module(module, first, self.text()?)
            }
            23 => {
                // A sample of data: its number and its value.
                self.numbers(id, 2)?
            }
            6 | 8 | 12 | 15 | 16 | 19 => self.numbers(id, 1)?,
            7 | 13 => self.numbers(id, 2)?,
            21 => self.numbers(id, 4)?,
            _ => SysEvent::Other(id, Vec::new()),
        })
    }

    fn numbers(&mut self, id: u32, count: usize) -> Result<SysEvent, NoEvent> {
        let mut numbers = Vec::new();
        for _ in 0..count {
            let number = self.number()?;
            if self.all_figures {
                numbers.push(number);
            }
        }
        Ok(SysEvent::Other(id, numbers))
    }

    fn with_length(&mut self, id: u32) -> Result<SysEvent, NoEvent> {
        let first = self.byte()?;
        let mut length = usize::from(first & 0x7f);
        if first & 0x80 != 0 {
            length |= usize::from(self.byte()?) << 7;
        }
        let payload = self.bytes(length)?;
        Ok(match id {
            24 => match numbers_of(&payload).first() {
                Some(hertz) if *hertz != 0 => SysEvent::Init(*hertz),
                _ => return self.broken("the clock of the stream has no frequency"),
            },
            26 => {
                let (text, rest) = text_of(&payload);
                SysEvent::Message(text, numbers_of(rest).first().copied().unwrap_or(0))
            }
            FIRST_OF_MODULES.. => SysEvent::OfModule(id, payload),
            _ => SysEvent::Other(id, if self.all_figures { numbers_of(&payload) } else { Vec::new() }),
        })
    }
}

/// The length of a longer text. Described in one order, met in the other: such texts are not long, so the smaller number is meant.
fn long(bytes: [u8; 2]) -> usize {
    usize::from(u16::from_be_bytes(bytes).min(u16::from_le_bytes(bytes)))
}

/// The text that a payload begins with, as far as it is there, and what is behind it.
fn text_of(payload: &[u8]) -> (String, &[u8]) {
    let (length, rest) = match payload {
        [0xff, one, other, rest @ ..] => (long([*one, *other]), rest),
        [length, rest @ ..] => (usize::from(*length), rest),
        [] => (0, payload),
    };
    let (text, rest) = rest.split_at_checked(length).unwrap_or((rest, &[]));
    (String::from_utf8_lossy(text).into_owned(), rest)
}

/// All numbers of a payload; what is cut off at its end is none.
pub(super) fn numbers_of(payload: &[u8]) -> Vec<u32> {
    let (mut numbers, mut value, mut place) = (Vec::new(), 0u64, 0u32);
    for byte in payload {
        value |= u64::from(byte & 0x7f) << (7 * place.min(4));
        place += 1;
        if byte & 0x80 == 0 {
            numbers.push(value as u32);
            (value, place) = (0, 0);
        }
    }
    numbers
}
