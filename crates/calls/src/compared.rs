//! Calls that compare texts, look for one in another, or read a number.
#![forbid(unsafe_code)]

use crate::call::{Call, Direction, Text, Unit};
use crate::list::Hook;
use crate::measure::{self, ALL, Set, first_difference, first_in};
use crate::next;

impl Call<'_> {
    /// Compares two texts, up to where they differ or so many units, in which letters may count as the same.
    pub(crate) fn compares(&self, most: usize, unit: Unit, folds: bool) {
        let (one, other) = (self.arg(0), self.arg(1));
        if most == 0 {
            return;
        }
        let (Some(room), Some(other_room)) = (self.room(one, unit), self.room(other, unit)) else { return };
        let (room, other_room) = (unit.in_bytes(room), unit.in_bytes(other_room));
        let limit = most.min(room).min(other_room);
        let differ = match unit {
            Unit::Byte if folds => {
                let read = |at: usize| u32::from(measure::byte(at).to_ascii_lowercase());
                first_difference(one, other, limit, read, 1)
            }
            Unit::Byte => measure::first_unlike(one, other, limit),
            Unit::Wide => first_difference(one, other, limit, measure::wide, 4),
        };
        if differ.is_some() || limit == most {
            return;
        }
        let bytes = limit.saturating_add(1).saturating_mul(unit.bytes());
        for (text, room) in [(one, room), (other, other_room)] {
            if room == limit {
                self.tell(text, bytes, Direction::Read);
            }
        }
    }

    /// Looks for a text in another one, to where it is found.
    pub(crate) fn looks_for_text(&self, unit: Unit, folds: bool) {
        let (text, wanted) = (self.arg(0), self.arg(1));
        let Some(wanted_bytes) = self.text_at(wanted, ALL, unit).map(|text| text.bytes.saturating_sub(unit.bytes()))
        else {
            return;
        };
        let Some(room) = self.room(text, unit) else { return };
        if room == ALL || self.ends_within(text, room, unit) {
            return;
        }
        let read = |at: usize| match unit {
            Unit::Byte if folds => u32::from(measure::byte(at).to_ascii_lowercase()),
            Unit::Byte => u32::from(measure::byte(at)),
            Unit::Wide => measure::wide(at),
        };
        let starts = unit.in_bytes(room.saturating_sub(wanted_bytes));
        let is_here = |start: &usize| {
            let place = text.wrapping_add(start.wrapping_mul(unit.bytes()));
            let units = unit.in_bytes(wanted_bytes);
            first_difference(place, wanted, units, read, unit.bytes()).is_none()
        };
        if wanted_bytes > room || !(0..=starts).any(|start| is_here(&start)) {
            self.tell(text, room.saturating_add(unit.bytes()), Direction::Read);
        }
    }

    fn ends_within(&self, text: usize, room: usize, unit: Unit) -> bool {
        match unit {
            Unit::Byte => measure::first_of(text, room, 0, 0).is_some(),
            Unit::Wide => measure::first_wide_of(text, unit.in_bytes(room), 0, 0).is_some(),
        }
    }

    /// Reads a text up to a byte that is in a set, or is not.
    fn spans(&self, text: usize, set: &Set, wanted: bool) -> Option<Text> {
        let room = self.room(text, Unit::Byte)?;
        match first_in(text, room, set, wanted) {
            Some(before) => Some(Text { bytes: before.saturating_add(1), has_end: true }),
            None => {
                self.tell(text, room.saturating_add(1), Direction::Read);
                None
            }
        }
    }

    /// Reads the first argument up to a byte that is in the second, or is not.
    pub(crate) fn spans_to(&self, wanted: bool) {
        if let Some(set) = self.set(1) {
            self.spans(self.arg(0), &set, wanted);
        }
    }

    fn set(&self, index: usize) -> Option<Set> {
        let text = self.text_at(self.arg(index), ALL, Unit::Byte)?;
        Some(Set::of(self.arg(index), text.bytes))
    }

    /// Reads a word of a text, with what divides words in front of it.
    pub(crate) fn takes_word(&self) {
        let text = self.arg(0);
        if text == 0 {
            return;
        }
        if let Some(set) = self.set(1)
            && let Some(skipped) = self.spans(text, &set, false)
        {
            self.spans(text.wrapping_add(skipped.bytes).wrapping_sub(1), &set, true);
        }
    }

    /// The same where the first argument says where the text is.
    pub(crate) fn separates(&self) {
        let place = self.arg(0);
        if place == 0 || self.room(place, Unit::Byte).is_none_or(|room| room < 8) {
            return;
        }
        let text = measure::word(place);
        if text != 0
            && let Some(set) = self.set(1)
        {
            self.spans(text, &set, true);
        }
    }

    /// Reads a number, by a function that says where it ended: arguments are a text, where that goes, and a base.
    pub(crate) fn reads_number(&self, real: Hook) -> usize {
        let [_, end, base, ..] = self.frame().words;
        self.access(end, if end == 0 { 0 } else { 8 }, Direction::Write);
        let (result, ended) = self.number(real, base);
        if let Some(ended) = ended.filter(|_| end != 0) {
            measure::put_word(end, ended);
        }
        result
    }

    /// The same of a decimal one, where nobody asks where it ended.
    pub(crate) fn reads_decimal(&self, real: Hook) -> usize {
        self.number(real, 10).0
    }

    /// What the function answers, and where the number ended; `None`: it has read none, since there is no such base.
    fn number(&self, real: Hook, base: usize) -> (usize, Option<usize>) {
        const UNTOUCHED: usize = usize::MAX;
        let (text, mut ended) = (self.arg(0), UNTOUCHED);
        let is_of_number = |index| {
            let byte = measure::byte(text.wrapping_add(index));
            byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() || b"+-\x0B".contains(&byte)
        };
        let room = self.room(text, Unit::Byte);
        if let Some(room) = room.filter(|room| *room != ALL && (0..*room).all(is_of_number)) {
            self.prepare(text, room.saturating_add(1));
        }
        let result = next::call(real, [text, core::ptr::from_mut(&mut ended) as usize, base, 0, 0, 0]);
        let ended = Some(ended).filter(|ended| *ended != UNTOUCHED);
        // What ended it was read. (Without room that there is none was told.)
        if let Some(ended) = ended.filter(|_| room.is_some()) {
            self.access(text, ended.wrapping_sub(text).saturating_add(1), Direction::Read);
        }
        (result, ended)
    }
}
