//! A call, and what it accesses: reads and writes of so many bytes, texts, what came.
#![forbid(unsafe_code)]

use crate::frame::Frame;
use crate::list::Hook;
use crate::measure::{self, ALL};
use crate::next;
use core::cell::Cell;
use heapledger_guard::judging::{Judging, NAME_BYTES, WrongCall};
use heapledger_linux::syscall;

/// More parts than that the kernel refuses.
const PARTS_MAX: usize = 1024;

/// A byte, or a character of 32 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Byte = 1,
    Wide = 4,
}

impl Unit {
    pub(crate) const fn bytes(self) -> usize {
        self as usize
    }

    /// How many fit into so many bytes.
    pub(crate) const fn in_bytes(self, bytes: usize) -> usize {
        match self {
            Unit::Byte => bytes,
            Unit::Wide => bytes / 4,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// Whether the real function has been called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Before,
    After,
}

/// How many bytes a text takes.
#[derive(Clone, Copy)]
pub(crate) struct Text {
    /// With its end, if that is there.
    pub(crate) bytes: usize,
    /// Whether it is.
    pub(crate) has_end: bool,
}

/// A call that is judged.
pub(crate) struct Call<'f> {
    frame: &'f Frame,
    hook: Hook,
    judging: Option<&'static Judging>,
    stage: Stage,
    is_wrong: Cell<bool>,
}

/// Judges a call, or makes it.
#[inline(always)]
pub(crate) fn before<R>(frame: &Frame, hook: Hook, judge: impl FnOnce(&Call) -> R) -> R {
    judge(&Call::new(frame, hook, Stage::Before))
}

/// Judges a call by its arguments, or with another stage by its result.
#[inline(always)]
pub(crate) fn around<R>(frame: &Frame, hook: Hook, stage: usize, judge: impl FnOnce(&Call) -> R) {
    judge(&Call::new(frame, hook, if stage == 0 { Stage::Before } else { Stage::After }));
}

impl Call<'_> {
    fn new(frame: &Frame, hook: Hook, stage: Stage) -> Call<'_> {
        Call { frame, hook, judging: next::judging(), stage, is_wrong: Cell::new(false) }
    }

    pub(crate) fn frame(&self) -> &Frame {
        self.frame
    }

    /// An argument.
    #[inline(always)]
    pub(crate) fn arg(&self, index: usize) -> usize {
        self.frame.argument(index)
    }

    /// What the real function returned.
    pub(crate) fn result(&self) -> isize {
        self.frame.rax as isize
    }

    /// Whether something was wrong with it so far.
    pub(crate) fn is_wrong(&self) -> bool {
        self.is_wrong.get()
    }

    /// Whether an address lies where blocks do.
    pub(crate) fn concerns(&self, address: usize) -> bool {
        self.judging.is_some_and(|judging| {
            let [first, bytes] =
                judging.range().each_ref().map(|word| word.load(core::sync::atomic::Ordering::Relaxed));
            (address as u64).wrapping_sub(first) < bytes
        })
    }

    /// The argument at this place is read from.
    #[inline(always)]
    pub(crate) fn reads(&self, index: usize, bytes: usize) {
        self.access(self.arg(index), bytes, Direction::Read);
    }

    /// It is written to.
    #[inline(always)]
    pub(crate) fn writes(&self, index: usize, bytes: usize) {
        self.access(self.arg(index), bytes, Direction::Write);
    }

    /// So many bytes are accessed before the call is over, whatever comes of it.
    pub(crate) fn access(&self, address: usize, bytes: usize, direction: Direction) {
        if self.stage == Stage::Before {
            self.judge(address, bytes, direction);
        }
    }

    #[inline(always)]
    fn judge(&self, address: usize, bytes: usize, direction: Direction) {
        let is_right = |judging: &Judging| judging.is_right(address as u64, bytes as u64);
        if bytes != 0 && !self.judging.is_none_or(is_right) {
            self.judge_slowly(address, bytes, direction);
        }
    }

    /// It is wrong, or not known as soon.
    #[cold]
    #[inline(never)]
    fn judge_slowly(&self, address: usize, bytes: usize, direction: Direction) {
        let Some(place) = self.judging.and_then(|judging| judging.find(address as u64)) else { return };
        let inside = (address as u64).wrapping_sub(place.start);
        let is_right = place.is_freed == 0 && inside < place.bytes && bytes as u64 <= place.bytes.wrapping_sub(inside);
        if !is_right {
            self.tell(address, bytes, direction);
        }
    }

    /// How many bytes can be read from an address on, as far as is known; if none, that was told.
    pub(crate) fn room(&self, address: usize, unit: Unit) -> Option<usize> {
        if !self.concerns(address) {
            return Some(ALL);
        }
        let place = self.judging.and_then(|judging| judging.find(address as u64))?;
        let inside = (address as u64).wrapping_sub(place.start);
        if place.is_freed == 0 && inside < place.bytes {
            return Some(place.bytes.wrapping_sub(inside) as usize);
        }
        if self.stage == Stage::Before {
            self.tell(address, unit.bytes(), Direction::Read);
        }
        None
    }

    /// What is wrong with the call.
    #[cold]
    #[inline(never)]
    pub(crate) fn tell(&self, address: usize, bytes: usize, direction: Direction) {
        self.tell_beside((address, bytes), direction, (0, 0));
    }

    fn tell_beside(&self, (address, bytes): (usize, usize), direction: Direction, other: (usize, usize)) {
        self.is_wrong.set(true);
        let mut function = [0; NAME_BYTES];
        function.iter_mut().zip(next::name(self.hook as usize)).for_each(|(place, byte)| *place = *byte);
        if let Some(judging) = self.judging {
            judging.report(&WrongCall {
                registers: self.frame.registers,
                address: address as u64,
                bytes: bytes as u64,
                writes: u64::from(direction == Direction::Write),
                other: [other.0 as u64, other.1 as u64],
                function,
            });
        }
    }

    /// The range that is written and the one that is read have no byte in common, or are one: that is a call that compilers make.
    #[inline(always)]
    fn are_apart(&self, (to, written): (usize, usize), (from, read): (usize, usize)) {
        let is_apart = from.wrapping_sub(to) >= written && to.wrapping_sub(from) >= read;
        if !is_apart && to != from {
            self.tell_overlap((to, written), (from, read));
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_overlap(&self, to: (usize, usize), from: (usize, usize)) {
        if self.stage != Stage::Before || self.is_wrong() || to.1 == 0 || from.1 == 0 {
            return;
        }
        if self.concerns(to.0) {
            self.tell_beside(to, Direction::Write, from);
        } else if self.concerns(from.0) {
            self.tell_beside(from, Direction::Read, to);
        }
    }

    /// Reads units until one of two, and no more than `most`. `None`: that is wrong, or not to be known.
    pub(crate) fn until(&self, address: usize, most: usize, (one, other): (u32, u32), unit: Unit) -> Option<Text> {
        if self.stage == Stage::After {
            return None;
        }
        if most == 0 {
            return Some(Text { bytes: 0, has_end: false });
        }
        let room = self.room(address, unit)?;
        let units = most.min(unit.in_bytes(room));
        let found = match unit {
            Unit::Byte => measure::first_of(address, units, one as u8, other as u8),
            Unit::Wide => measure::first_wide_of(address, units, one, other),
        };
        let bytes = |units: usize| units.saturating_mul(unit.bytes());
        match found {
            Some(before) => Some(Text { bytes: bytes(before.saturating_add(1)), has_end: true }),
            None if units == most => Some(Text { bytes: bytes(most), has_end: false }),
            None => {
                self.tell(address, bytes(units.saturating_add(1)), Direction::Read);
                None
            }
        }
    }

    /// Reads a text to its end, of at most so many units.
    pub(crate) fn text_at(&self, address: usize, most: usize, unit: Unit) -> Option<Text> {
        self.until(address, most, (0, 0), unit)
    }

    /// The argument at this place is a text.
    pub(crate) fn text(&self, index: usize) {
        self.text_up_to(index, ALL, Unit::Byte);
    }

    /// The same of 32 bits.
    pub(crate) fn wide_text(&self, index: usize) {
        self.text_up_to(index, ALL, Unit::Wide);
    }

    /// Is a text, of which so many units are read at most. One that concerns nobody is not looked at: the kernel may find that it is none.
    pub(crate) fn text_up_to(&self, index: usize, most: usize, unit: Unit) {
        if self.concerns(self.arg(index)) {
            self.text_at(self.arg(index), most, unit);
        }
    }

    /// Copies so many bytes.
    #[inline(always)]
    pub(crate) fn copies(&self, to: usize, from: usize, bytes: usize) {
        self.writes(to, bytes);
        self.reads(from, bytes);
    }

    /// The same between ranges that must be apart.
    #[inline(always)]
    pub(crate) fn copies_apart(&self, to: usize, from: usize, bytes: usize) {
        self.copies(to, from, bytes);
        self.are_apart((self.arg(to), bytes), (self.arg(from), bytes));
    }

    /// Copies bytes until it has copied this one, but no more than so many. (`memccpy`)
    pub(crate) fn copies_until(&self, most: usize) {
        let last = u32::from(self.arg(2) as u8);
        let bytes = self.until(self.arg(1), most, (last, last), Unit::Byte).map_or(most.min(1), |text| text.bytes);
        self.writes(0, bytes);
    }

    /// Looks for a unit, the second argument, among so many.
    pub(crate) fn finds(&self, most: usize, unit: Unit) {
        let wanted = self.wanted(unit);
        self.until(self.arg(0), most, (wanted, wanted), unit);
    }

    /// The same up to the end of a text.
    pub(crate) fn finds_in_text(&self, unit: Unit) {
        self.until(self.arg(0), ALL, (self.wanted(unit), 0), unit);
    }

    fn wanted(&self, unit: Unit) -> u32 {
        let wanted = self.arg(1);
        if unit == Unit::Byte { u32::from(wanted as u8) } else { wanted as u32 }
    }

    /// Copies a text.
    pub(crate) fn copies_text(&self, to: usize, from: usize, unit: Unit) {
        let bytes = self.text_at(self.arg(from), ALL, unit).map_or(unit.bytes(), |text| text.bytes);
        self.writes(to, bytes);
        self.are_apart((self.arg(to), bytes), (self.arg(from), bytes));
    }

    /// Copies up to so many units of a text, and fills the rest with zeros.
    pub(crate) fn copies_padded(&self, to: usize, from: usize, most: usize, unit: Unit) {
        self.text_up_to(from, most, unit);
        self.writes(to, most.saturating_mul(unit.bytes()));
    }

    /// Appends up to so many units of a text to another one.
    pub(crate) fn appends(&self, to: usize, from: usize, most: usize, unit: Unit) {
        let added = self.text_at(self.arg(from), most, unit);
        let Some(there) = self.text_at(self.arg(to), ALL, unit) else { return };
        let end = if added.is_some_and(|added| added.has_end) { 0 } else { unit.bytes() };
        let added = added.map_or(0, |added| added.bytes).saturating_add(end);
        let at = self.arg(to).wrapping_add(there.bytes).wrapping_sub(unit.bytes());
        self.access(at, added, Direction::Write);
        self.are_apart((at, added), (self.arg(from), added));
    }

    /// Of so many bytes that were asked for, so many came, or went: that is known when the call is over. Before it, the kernel is to find
    /// all of them.
    pub(crate) fn came(&self, address: usize, asked: usize, came: usize, direction: Direction) {
        match self.stage {
            Stage::Before => self.prepare(address, asked),
            Stage::After => self.judge(address, came.min(asked), direction),
        }
    }

    /// So many bytes may be accessed, of which it is known later whether they are: whoever does it is to find them.
    pub(crate) fn prepare(&self, address: usize, bytes: usize) {
        if let Some(judging) = self.judging.filter(|judging| judging.is_closed() && bytes != 0)
            && self.concerns(address)
        {
            judging.prepare(address as u64, bytes as u64);
        }
    }

    /// A call that returns how many bytes came into the argument at this place.
    pub(crate) fn fills(&self, index: usize, asked: usize) {
        self.came(self.arg(index), asked, usize::try_from(self.result()).unwrap_or(0), Direction::Write);
    }

    /// A call that returns how many bytes it has taken from there.
    pub(crate) fn empties(&self, index: usize, asked: usize) {
        self.came(self.arg(index), asked, usize::try_from(self.result()).unwrap_or(0), Direction::Read);
    }

    /// A call that, if it returns something, has put a text there, of so many units at most.
    pub(crate) fn puts_text(&self, index: usize, most: usize, unit: Unit) {
        let address = self.arg(index);
        let units = match self.stage {
            Stage::After if self.frame.rax != 0 && self.concerns(address) => match unit {
                Unit::Byte => measure::first_of(address, most, 0, 0),
                Unit::Wide => measure::first_wide_of(address, most, 0, 0),
            },
            _ => None,
        };
        let bytes = units.map_or(0, |units| units.saturating_add(1)).saturating_mul(unit.bytes());
        self.came(address, most.saturating_mul(unit.bytes()), bytes, Direction::Write);
    }

    /// A call that returns how many items of so many bytes it has put there, of so many.
    pub(crate) fn fills_items(&self, index: usize, bytes: usize, items: usize) {
        let (bytes, items) = (self.arg(bytes), self.arg(items));
        let came = usize::try_from(self.result()).unwrap_or(0).saturating_mul(bytes);
        self.came(self.arg(index), bytes.saturating_mul(items), came, Direction::Write);
    }

    /// An address of a network, shown as a text. (`inet_ntop`)
    pub(crate) fn shows_address(&self) {
        const OF_VERSION_4: u32 = 2;
        const OF_VERSION_6: u32 = 10;
        match self.arg(0) as u32 {
            OF_VERSION_4 => self.reads(1, 4),
            OF_VERSION_6 => self.reads(1, 16),
            // Of another family it reads none.
            _ => {}
        }
        self.puts_text(2, self.arg(3) as u32 as usize, Unit::Byte);
    }

    /// A time, shown as a format says. (`strftime`)
    pub(crate) fn shows_time(&self) {
        self.text(2);
        let came = match self.result() {
            ..=0 => 0,
            bytes => (bytes as usize).saturating_add(1),
        };
        self.came(self.arg(0), self.arg(1), came, Direction::Write);
    }

    /// Whether so many bytes can be read at an address that the program has given the kernel, which does not mind if they cannot. Once the
    /// call has gone well, they can.
    fn is_there(&self, address: usize, bytes: usize) -> bool {
        const PAGE: usize = 4096;
        match self.stage {
            Stage::After => self.result() > 0,
            Stage::Before if self.concerns(address) => self.room(address, Unit::Byte).is_some_and(|room| room >= bytes),
            Stage::Before if self.judging.is_some_and(Judging::is_closed) => {
                let last = address.saturating_add(bytes).saturating_sub(8);
                let mut pages = (address..=last).step_by(PAGE).chain([last]);
                pages.all(|place| syscall::readable(place & !7))
            }
            Stage::Before => false,
        }
    }

    /// The parts of memory that a call fills, or empties, one after the other: where their list is, and how many there are.
    pub(crate) fn parts(&self, list: usize, count: usize, direction: Direction) {
        let mut left = usize::try_from(self.result()).unwrap_or(0);
        if count > PARTS_MAX || !self.is_there(list, count.saturating_mul(16)) {
            return;
        }
        for part in 0..count {
            let place = list.wrapping_add(part.wrapping_mul(16));
            let (address, bytes) = (measure::word(place), measure::word(place.wrapping_add(8)));
            self.came(address, bytes, left, direction);
            left = left.saturating_sub(bytes);
        }
    }

    /// The same, of a message.
    pub(crate) fn message(&self, index: usize, direction: Direction) {
        let message = self.arg(index);
        if self.is_there(message, 56) {
            let word = |at: usize| measure::word(message.wrapping_add(at));
            self.parts(word(16), word(24), direction);
        }
    }

    /// A line that was read: where it lies and how much room it has the program has said, and may be told anew.
    pub(crate) fn line(&self, place: usize, room: usize) {
        let (place, room) = (self.arg(place), self.arg(room));
        if place == 0
            || room == 0
            || [place, room].iter().any(|at| self.room(*at, Unit::Byte).is_none_or(|bytes| bytes < 8))
        {
            return;
        }
        let came = usize::try_from(self.result()).map_or(0, |bytes| bytes.saturating_add(1));
        let line = measure::word(place);
        if line != 0 {
            self.came(line, measure::word(room), came, Direction::Write);
        }
    }
}
