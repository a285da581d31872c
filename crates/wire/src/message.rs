//! What stands in a frame.
//!
//! ```text
//! device 1 | sequence 1 | time 4, little-endian, in ticks | message | message | … | CRC-16 of all before, 2, big-endian
//!
//! message: kind in bits 0–2 of its first byte, a small figure in bits 3–7; then
//!   0 begin   version 1, word bytes 1, nanoseconds of a tick, boot
//!   1 alloc   function (31: one more byte), address, size, stack, ticks
//!   2 free    function, address, stack, ticks
//!   3 stack   frames (31: one more byte), number, first frame, steps
//!   4 task    bytes of the name, number, name
//!   5 switch  0, task
//!   6 lost    0, events
//!   7 mark    0 starts, 1 stops, 2 pauses, 3 resumes, 4 all live blocks follow, 5 these were all, 6 a call that failed: size
//! ```
//!
//! Numbers have seven bits in each byte, the lowest first. Addresses are steps from the address before, in the frame, and
//! frames of a stack from the one before: twice the step, and 1 less if it is negative. Ticks are those since the event
//! before, or since the time in front.

use crate::DEPTH_MAX;
use crate::crc::crc16;
use crate::varint::In;

/// Bytes in front of the messages.
pub const HEAD_BYTES: usize = 6;
/// Bytes behind them.
pub const CRC_BYTES: usize = 2;

/// Kinds of messages.
pub(crate) mod tag {
    pub(crate) const BEGIN: u8 = 0;
    pub(crate) const ALLOC: u8 = 1;
    pub(crate) const FREE: u8 = 2;
    pub(crate) const STACK: u8 = 3;
    pub(crate) const TASK: u8 = 4;
    pub(crate) const SWITCH: u8 = 5;
    pub(crate) const LOST: u8 = 6;
    pub(crate) const MARK: u8 = 7;
}
/// A small figure that stands in a byte of its own.
pub(crate) const FOLLOWS: u8 = 31;

/// What a mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A window starts.
    Starts,
    /// It stops.
    Stops,
    /// Allocations are passed over, frees are followed.
    Pauses,
    /// They are sent again.
    Resumes,
    /// What follows are all blocks that live.
    LiveBegins,
    /// These were all.
    LiveEnds,
    /// A call that gave no block: bytes asked for.
    Failed(u32),
}

/// A message of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'f> {
    /// The device began to send: stacks and tasks from before are forgotten.
    Begin {
        /// See [`crate::VERSION`].
        version: u8,
        /// Bytes of an address.
        word_bytes: u8,
        /// Nanoseconds of a tick, 0 if that is not known.
        tick_ns: u32,
        /// A number that differs from start to start.
        boot: u32,
    },
    /// A block was given.
    Alloc {
        /// The function, as ledgers number them.
        kind: u8,
        /// Where it lies.
        address: u32,
        /// Bytes asked for.
        size: u32,
        /// Number of the stack, 0 for none.
        stack: u32,
        /// When, in ticks.
        time: u32,
    },
    /// A block was given back.
    Free {
        /// The function.
        kind: u8,
        /// Where it lay.
        address: u32,
        /// Number of the stack.
        stack: u32,
        /// When.
        time: u32,
    },
    /// A stack, from here on told by its number.
    Stack {
        /// Its number.
        number: u32,
        /// Return addresses, innermost first; zeros behind them.
        frames: [u32; DEPTH_MAX],
    },
    /// A task.
    Task {
        /// Its number.
        number: u32,
        /// Its name.
        name: &'f [u8],
    },
    /// What follows is done by this task.
    Switch(u32),
    /// So many events were dropped before.
    Lost(u32),
    /// Something else.
    Mark(Mark),
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadFrame {
    /// They are fewer than any frame has.
    Short,
    /// The checksum is another one.
    Checksum,
}

/// A frame whose checksum is right.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'f> {
    /// Which device on the line.
    pub device: u8,
    /// Counts frames; wraps.
    pub sequence: u8,
    /// When it was begun, in ticks.
    pub time: u32,
    body: &'f [u8],
}

impl<'f> Frame<'f> {
    /// Takes a frame apart.
    ///
    /// # Errors
    /// If it is none, or was damaged.
    pub fn parse(bytes: &'f [u8]) -> Result<Frame<'f>, BadFrame> {
        let (whole, crc) = bytes.split_last_chunk::<CRC_BYTES>().ok_or(BadFrame::Short)?;
        let (head, body) = whole.split_first_chunk::<HEAD_BYTES>().ok_or(BadFrame::Short)?;
        if crc16(whole) != u16::from_be_bytes(*crc) {
            return Err(BadFrame::Checksum);
        }
        let [device, sequence, time @ ..] = *head;
        Ok(Frame { device, sequence, time: u32::from_le_bytes(time), body })
    }

    /// Its messages.
    pub fn messages(&self) -> Messages<'f> {
        Messages { rest: In { bytes: self.body }, address: 0, time: self.time, whole: true }
    }
}

/// The messages of a frame, one after another.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'f> {
    rest: In<'f>,
    address: u32,
    time: u32,
    /// False if it ended within a message, or in one of a later version.
    pub whole: bool,
}

impl<'f> Iterator for Messages<'f> {
    type Item = Message<'f>;

    fn next(&mut self) -> Option<Message<'f>> {
        if self.rest.bytes.is_empty() || !self.whole {
            return None;
        }
        let message = self.read();
        self.whole = message.is_some();
        message
    }
}

impl<'f> Messages<'f> {
    fn read(&mut self) -> Option<Message<'f>> {
        let first = self.rest.byte()?;
        let (kind, small) = (first & 7, first >> 3);
        Some(match kind {
            tag::BEGIN => Message::Begin {
                version: self.rest.byte()?,
                word_bytes: self.rest.byte()?,
                tick_ns: self.rest.number()?,
                boot: self.rest.number()?,
            },
            tag::ALLOC => {
                let kind = self.figure(small)?;
                self.address = self.rest.step(self.address)?;
                let (size, stack) = (self.rest.number()?, self.rest.number()?);
                self.time = self.time.wrapping_add(self.rest.number()?);
                Message::Alloc { kind, address: self.address, size, stack, time: self.time }
            }
            tag::FREE => {
                let kind = self.figure(small)?;
                self.address = self.rest.step(self.address)?;
                let stack = self.rest.number()?;
                self.time = self.time.wrapping_add(self.rest.number()?);
                Message::Free { kind, address: self.address, stack, time: self.time }
            }
            tag::STACK => {
                let depth = usize::from(self.figure(small)?);
                let number = self.rest.number()?;
                let (mut frames, mut last) = ([0; DEPTH_MAX], 0);
                for place in frames.get_mut(..depth)? {
                    last = self.rest.step(last)?;
                    *place = last;
                }
                Message::Stack { number, frames }
            }
            tag::TASK => {
                let number = self.rest.number()?;
                Message::Task { number, name: self.rest.take(usize::from(small))? }
            }
            tag::SWITCH => Message::Switch(self.rest.number()?),
            tag::LOST => Message::Lost(self.rest.number()?),
            _ => Message::Mark(match small {
                0 => Mark::Starts,
                1 => Mark::Stops,
                2 => Mark::Pauses,
                3 => Mark::Resumes,
                4 => Mark::LiveBegins,
                5 => Mark::LiveEnds,
                6 => Mark::Failed(self.rest.number()?),
                _ => return None,
            }),
        })
    }

    fn figure(&mut self, small: u8) -> Option<u8> {
        if small == FOLLOWS { self.rest.byte() } else { Some(small) }
    }
}
