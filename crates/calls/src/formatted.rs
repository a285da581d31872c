//! Calls of the `printf` family: what their formats have them read and write.
#![forbid(unsafe_code)]

use crate::call::{Call, Direction, Unit};
use crate::format::{Told, each};
use crate::list::Hook;
use crate::measure::{self, ALL};
use crate::next;
use crate::values::List;

/// The format, and the arguments that follow it.
#[derive(Clone, Copy)]
pub(crate) struct Formatted {
    format: usize,
    unit: Unit,
    values: List,
}

impl Call<'_> {
    /// The argument at this place is a format, and what follows it is formatted.
    pub(crate) fn format(&self, index: usize, unit: Unit) -> Formatted {
        let values = List::of(self.frame(), index.saturating_add(1));
        Formatted { format: self.arg(index), unit, values }
    }

    /// The same, where the one that follows is a `va_list`.
    pub(crate) fn format_of_list(&self, index: usize, unit: Unit) -> Formatted {
        let values = List::at(self.arg(index.saturating_add(1)));
        Formatted { format: self.arg(index), unit, values }
    }

    /// All that is read and written, but for the text that is made.
    pub(crate) fn formats(&self, formatted: Formatted) {
        let Formatted { format, unit, mut values } = formatted;
        // (Without one the C library refuses the call.)
        let Some(text) = (format != 0).then(|| self.text_at(format, ALL, unit)).flatten() else { return };
        let units = unit.in_bytes(text.bytes);
        let mut tell = |told| self.converts(told);
        match unit {
            // Without one of these letters nothing is read nor written.
            Unit::Byte if !Self::has_any(format, units, [b's', b'n', b'S']) => {}
            Unit::Byte => {
                let read = |index| if index < units { measure::byte(format.wrapping_add(index)).into() } else { 0 };
                each(&read, &mut values, &mut tell);
            }
            Unit::Wide => {
                let place = |index: usize| format.wrapping_add(index.wrapping_mul(4));
                let read = |index| if index < units { measure::wide(place(index)) } else { 0 };
                each(&read, &mut values, &mut tell);
            }
        }
    }

    fn has_any(format: usize, bytes: usize, [one, other, third]: [u8; 3]) -> bool {
        measure::first_of(format, bytes, one, other).is_some()
            || measure::first_of(format, bytes, third, third).is_some()
    }

    /// What a conversion reads or writes.
    fn converts(&self, told: Told) {
        match told {
            Told::Count { address, bytes } => self.access(address, bytes, Direction::Write),
            _ if !self.concerns(told.address()) => {}
            // A character may take several bytes: so many are read at least.
            Told::Text { address, most } => _ = self.text_at(address, most.unwrap_or(ALL), Unit::Byte),
            // And a wide one may become several: with a limit one is read, if any.
            Told::WideText { address, most } => {
                self.text_at(address, most.map_or(ALL, |most| most.min(1)), Unit::Wide);
            }
        }
    }

    /// The same, and the text goes to an argument, of so many bytes at most.
    pub(crate) fn formats_into(&self, to: usize, most: usize, formatted: Formatted) {
        self.formats(formatted);
        let to = self.arg(to);
        if most == 0 || formatted.format == 0 || !self.concerns(to) || self.is_wrong() {
            return;
        }
        // How long it will be nobody but the real function knows: it makes it twice.
        let mut values = formatted.values;
        let list = core::ptr::from_mut(&mut values) as usize;
        let length = || next::call(Hook::Vsnprintf, [0, 0, formatted.format, list, 0, 0]) as i32;
        if let Ok(length) = usize::try_from(next::with_errno(length)) {
            self.access(to, length.saturating_add(1).min(most), Direction::Write);
        }
    }

    /// The same of a text of 32 bits, which `real` makes, given a list in place of the arguments that follow the format at `index`.
    pub(crate) fn makes_wide(&self, index: usize, real: Hook, formatted: Formatted) -> usize {
        self.formats(formatted);
        let mut values = formatted.values;
        let list = core::ptr::from_mut(&mut values) as usize;
        let mut arguments = self.frame().words;
        if let Some(place) = arguments.get_mut(index.saturating_add(1)) {
            *place = list;
        }
        self.made_wide(real, arguments)
    }

    /// The same of a function that has been given a list.
    pub(crate) fn makes_wide_of_list(&self, index: usize, real: Hook) -> usize {
        self.formats(self.format_of_list(index, Unit::Wide));
        self.made_wide(real, self.frame().words)
    }

    fn made_wide(&self, real: Hook, arguments: [usize; 6]) -> usize {
        self.prepare(self.arg(0), self.arg(1).saturating_mul(Unit::Wide.bytes()));
        let result = next::call(real, arguments);
        if let Ok(units) = usize::try_from(result as i32) {
            self.writes(0, units.saturating_add(1).saturating_mul(Unit::Wide.bytes()));
        }
        result
    }
}
