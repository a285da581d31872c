//! Events that devices with [`heapledger_wire`] send: frames between zeros, or lines of text between others.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use heapledger_lws::base64;
use heapledger_wire::line::LEAD_IN;
use heapledger_wire::{FRAME_BYTES_MAX, Frame, cobs};

use crate::counted;
use crate::lines::LINE_BYTES_MAX;
use crate::log::{LogKind, LogLedger};
use crate::made::MadeLedgers;

mod device;

use device::{DeviceBooks, Taken};

/// Most bytes between two zeros that may be a frame.
const PACKED_BYTES_MAX: usize = FRAME_BYTES_MAX + cobs::OVERHEAD_BYTES;
/// Most starts of devices that are kept apart.
const STARTS_MAX: usize = 256;

/// Books of all devices on a line.
#[derive(Debug, Default)]
pub struct EventBooks {
    /// Those that send, by their numbers.
    devices: BTreeMap<u8, DeviceBooks>,
    /// Those whose device has started anew meanwhile.
    over: Vec<(u8, DeviceBooks)>,
    /// Bytes since the last zero.
    packed: Vec<u8>,
    too_long: bool,
    zeros: u64,
    bad_frames: u64,
    starts_left: u64,
}

impl EventBooks {
    /// Takes bytes of a line of its own, as they come.
    ///
    /// # Errors
    /// If the ledger cannot be written.
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        for byte in bytes {
            if *byte != 0 {
                self.too_long |= self.packed.len() >= PACKED_BYTES_MAX;
                if !self.too_long {
                    self.packed.push(*byte);
                }
                continue;
            }
            self.zeros += 1;
            let mut packed = std::mem::take(&mut self.packed);
            let too_long = std::mem::take(&mut self.too_long);
            if packed.is_empty() {
                continue;
            }
            match cobs::unpack(&mut packed).filter(|_| !too_long) {
                Some(count) => self.frame(packed.get(..count).unwrap_or(&[]))?,
                None => self.bad_frames += 1,
            }
            packed.clear();
            self.packed = packed;
        }
        Ok(())
    }

    /// Takes a line of a log; other text says nothing.
    ///
    /// # Errors
    /// If the ledger cannot be written.
    pub fn line(&mut self, line: &[u8]) -> io::Result<()> {
        let lead_in = LEAD_IN.as_bytes();
        let mut rest = line;
        while let Some(at) = memchr::memmem::find(rest, lead_in) {
            rest = rest.get(at + lead_in.len()..).unwrap_or(&[]);
            let end = rest.iter().position(|byte| base64::digit(*byte).is_none() && *byte != b'=');
            let text = rest.get(..end.unwrap_or(rest.len())).unwrap_or(&[]);
            let mut frame = [0; FRAME_BYTES_MAX];
            match base64::read(text, &mut frame) {
                Ok(count) => self.frame(frame.get(..count).unwrap_or(&[]))?,
                Err(_) => self.bad_frames += 1,
            }
        }
        Ok(())
    }

    fn frame(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Ok(frame) = Frame::parse(bytes) else {
            self.bad_frames += 1;
            return Ok(());
        };
        let books = self.devices.entry(frame.device).or_insert_with(DeviceBooks::new);
        if books.frame(&frame)? == Taken::Yes {
            return Ok(());
        }
        let before = std::mem::replace(books, DeviceBooks::new());
        books.frame(&frame)?;
        if self.over.len() < STARTS_MAX {
            self.over.push((frame.device, before));
        } else {
            self.starts_left += 1;
        }
        Ok(())
    }

    /// Nothing more comes: what is there of a frame was cut.
    pub fn end(&mut self) {
        if !std::mem::take(&mut self.packed).is_empty() {
            self.bad_frames += 1;
        }
    }

    /// Events that were taken so far.
    pub fn events(&self) -> u64 {
        self.devices.values().chain(self.over.iter().map(|(_, books)| books)).map(|books| books.events).sum()
    }

    /// Whether any frame was whole.
    pub fn is_any(&self) -> bool {
        !self.devices.is_empty()
    }

    /// The ledgers of what is known now, one for each start of each device, in order. The books go on.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn ledgers(&self) -> io::Result<Vec<LogLedger>> {
        let over = self.over.iter().map(|(device, books)| (*device, books, true));
        let now = self.devices.iter().map(|(device, books)| (*device, books, false));
        let several = self.devices.len() > 1;
        let mut made = MadeLedgers::default();
        for (number, (device, books, started_anew)) in (0..).zip(over.chain(now)) {
            // Nobody knows whose the damaged frames were.
            let mut draft = books.ledger(if started_anew { 0 } else { self.bad_frames })?;
            if started_anew {
                draft.remark("The device started anew; what it did then is another ledger.");
            }
            if several {
                draft.remark(&format!("Several devices send on this line; this is number {device}."));
            }
            if self.starts_left != 0 && !started_anew {
                draft.missing("The device started more often than ledgers are kept: some starts are in none.");
            }
            let name = format!("{} of device {device}", counted(books.events, "event", "events"));
            made.add(number, draft, LogKind::Events, name)?;
        }
        Ok(made.end())
    }
}

/// A line on which frames come, between zeros or as lines of text: bytes as they come.
#[derive(Debug, Default)]
pub struct EventLine {
    books: EventBooks,
    text: Vec<u8>,
}

impl EventLine {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// If the ledger cannot be written.
    pub fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.books.bytes(bytes)?;
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE_BYTES_MAX.saturating_sub(self.text.len()).min(part.len());
            self.text.extend_from_slice(part.get(..room).unwrap_or(&[]));
            if part.ends_with(b"\n") {
                self.books.line(&self.text)?;
                self.text.clear();
            }
        }
        Ok(())
    }

    /// Nothing more comes.
    ///
    /// # Errors
    /// If the ledger cannot be written.
    pub fn end(&mut self) -> io::Result<()> {
        self.books.line(&std::mem::take(&mut self.text))?;
        // Text has no zeros: what stands there is none of a frame.
        if self.books.zeros != 0 {
            self.books.end();
        }
        Ok(())
    }

    /// What is known.
    pub fn books(&self) -> &EventBooks {
        &self.books
    }
}

/// Whether a file begins with frames of a line of its own.
pub(crate) fn is_stream(begin: &[u8]) -> bool {
    begin.split(|byte| *byte == 0).take(64).any(|packed| {
        let mut packed = packed.get(..PACKED_BYTES_MAX).unwrap_or(packed).to_vec();
        let count = cobs::unpack(&mut packed).unwrap_or(0);
        Frame::parse(packed.get(..count).unwrap_or(&[])).is_ok_and(|frame| {
            let mut messages = frame.messages();
            messages.by_ref().count() != 0 && messages.whole
        })
    })
}

/// Reads a whole file of such frames.
pub(crate) fn read_stream(mut input: impl BufRead) -> io::Result<Vec<LogLedger>> {
    let mut books = EventBooks::default();
    loop {
        let count = match input.fill_buf() {
            Ok([]) => break,
            Ok(part) => {
                books.bytes(part)?;
                part.len()
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        input.consume(count);
    }
    books.end();
    books.ledgers()
}
