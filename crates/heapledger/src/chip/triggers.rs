//! Watchpoints of a RISC-V processor: its triggers (The RISC-V Debug Specification 1.0, "Sdtrig": `mcontrol`, type 2, and `mcontrol6`, type 6).
//!
//! Without registers of its own: `watch` has those of the processor, tests others.
#![forbid(unsafe_code)]

use super::CannotWatch;
use super::watch::{ChipWatch, Hit};

/// The registers, of which `tselect` says which trigger's the others are.
pub(super) trait Triggers {
    /// Selects one. Whether there is it.
    fn select(&mut self, nth: u32) -> bool;
    fn control(&self) -> u32;
    fn set_control(&mut self, value: u32);
    fn address(&self) -> u32;
    fn set_address(&mut self, value: u32);
}

/// Most triggers that are looked at.
const MOST: u32 = 16;
/// What kind one is, in its highest four bits.
const TYPE: u32 = 28;
const ADDRESS: u32 = 2;
const ADDRESS_6: u32 = 6;
const DISABLED: u32 = 15;
/// A debugger's.
const OF_DEBUGGER: u32 = 1 << 27;
/// It has fired (of type 2; not all processors say so).
const HIT: u32 = 1 << 20;
/// Of type 6.
const HIT_6: u32 = 1 << 22;
/// It fires behind the instruction (of type 2).
const BEHIND: u32 = 1 << 18;
/// It compares with a range whose address ends with ones.
const RANGE: u32 = 1 << 7;
const MATCHES: u32 = 0xF << 7;
/// In machine, supervisor and user mode; not all processors have the others.
const MACHINE: u32 = 1 << 6;
const OTHER_MODES: u32 = 1 << 4 | 1 << 3;
const STORE: u32 = 1 << 1;
/// Execution, stores, loads.
const ANY: u32 = 7;

fn kind(control: u32) -> u32 {
    control >> TYPE
}

fn is_of_addresses(control: u32) -> bool {
    matches!(kind(control), ADDRESS | ADDRESS_6)
}

/// Tries one. Whether it watches all of these bytes: of one that knows no ranges, writes that begin with a byte.
fn arm(triggers: &mut impl Triggers, kind_wanted: u32, address: u32, bytes: u32) -> bool {
    let (range, place) = match bytes {
        1 => (0, address),
        _ => (RANGE, address | (bytes >> 1).wrapping_sub(1)),
    };
    let timing = if kind_wanted == ADDRESS { BEHIND } else { 0 };
    triggers.set_control(kind_wanted << TYPE);
    triggers.set_address(place);
    triggers.set_control(kind_wanted << TYPE | timing | range | MACHINE | OTHER_MODES | STORE);
    let is = triggers.control();
    let needed = MACHINE | STORE;
    kind(is) == kind_wanted && is & needed == needed && is & MATCHES == range && triggers.address() == place
}

/// Watches some bytes, and says with which trigger.
pub(super) fn set(triggers: &mut impl Triggers, address: u32, bytes: u32) -> Result<ChipWatch, CannotWatch> {
    let mut cannot = CannotWatch::NoWatchpoints;
    for nth in 0..MOST {
        if !triggers.select(nth) {
            break;
        }
        let control = triggers.control();
        if !(is_of_addresses(control) || kind(control) == DISABLED) {
            continue;
        }
        cannot = CannotWatch::NoneLeft;
        let is_used = control & OF_DEBUGGER != 0 || is_of_addresses(control) && control & ANY != 0;
        if is_used {
            continue;
        }
        // One that knows no ranges still knows the first byte.
        for (kind_wanted, bytes) in [(ADDRESS, bytes), (ADDRESS_6, bytes), (ADDRESS, 1), (ADDRESS_6, 1)] {
            let may_be = kind(control) == DISABLED || kind(control) == kind_wanted;
            if may_be && arm(triggers, kind_wanted, address, bytes) {
                return Ok(ChipWatch { number: nth as u8, bytes: bytes as u8 });
            }
        }
        triggers.set_control(control);
    }
    Err(cannot)
}

/// Whether the trigger that is selected is one of [`set`]'s.
fn is_ours(control: u32) -> bool {
    is_of_addresses(control) && control & OF_DEBUGGER == 0 && control & ANY == STORE
}

fn disarm(triggers: &mut impl Triggers) {
    let control = triggers.control();
    triggers.set_control(kind(control) << TYPE);
}

/// Ends a watch. Whether there was one.
pub(super) fn end(triggers: &mut impl Triggers, watch: u8) -> bool {
    let is_set = triggers.select(watch.into()) && is_ours(triggers.control());
    if is_set {
        disarm(triggers);
    }
    is_set
}

/// Which trigger it was, in the exception that follows. One that fires before the instruction is over then: it would fire again.
pub(super) fn hit(triggers: &mut impl Triggers, value: u32) -> Option<Hit> {
    let mut found: Option<(u8, bool)> = None;
    for nth in 0..MOST {
        if !triggers.select(nth) {
            break;
        }
        let control = triggers.control();
        if !is_ours(control) {
            continue;
        }
        let place = triggers.address();
        let (address, bytes) = range(control, place);
        let has_said = control & (if kind(control) == ADDRESS { HIT } else { HIT_6 }) != 0;
        let is_certain = has_said || value.wrapping_sub(address) < bytes;
        // Those that do not say it: the one where the processor says that it was, else the first.
        if found.is_none_or(|(_, was_certain)| is_certain && !was_certain) {
            found = Some((nth as u8, is_certain));
        }
    }
    let (watch, _) = found?;
    triggers.select(watch.into());
    let control = triggers.control();
    let (address, bytes) = range(control, triggers.address());
    let is_over = kind(control) == ADDRESS_6 || control & BEHIND == 0;
    if is_over {
        disarm(triggers);
    } else {
        triggers.set_control(control & !HIT);
    }
    Some(Hit { watch, address: address as usize, bytes: bytes as usize, is_over })
}

/// The first address, and how many bytes.
fn range(control: u32, place: u32) -> (u32, u32) {
    if control & MATCHES != RANGE {
        return (place, 1);
    }
    let ones = place.trailing_ones();
    let bytes = 2u32.checked_shl(ones).unwrap_or(0);
    (place & !bytes.wrapping_sub(1), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    /// Triggers of a processor: what it cannot do it does not keep.
    struct Processor {
        selected: usize,
        triggers: Vec<(u32, u32)>,
        kinds: u32,
        has_ranges: bool,
        is_behind: bool,
    }

    impl Processor {
        fn new(kinds: &[u32], count: usize) -> Processor {
            let first = if kinds == [ADDRESS] { ADDRESS } else { DISABLED };
            Processor {
                selected: 0,
                triggers: vec![(first << TYPE, 0); count],
                kinds: kinds.iter().fold(0, |bits, kind| bits | 1 << kind),
                has_ranges: true,
                is_behind: false,
            }
        }
        /// Somebody writes; whether an exception follows.
        fn store(&mut self, address: u32) -> bool {
            let mut is_hit = false;
            for (control, place) in &mut self.triggers {
                let (first, bytes) = range(*control, *place);
                if is_of_addresses(*control) && *control & STORE != 0 && address.wrapping_sub(first) < bytes {
                    *control |= if kind(*control) == ADDRESS { HIT } else { HIT_6 };
                    is_hit = true;
                }
            }
            is_hit
        }
    }

    impl Triggers for Processor {
        fn select(&mut self, nth: u32) -> bool {
            if (nth as usize) < self.triggers.len() {
                self.selected = nth as usize;
                return true;
            }
            false
        }
        fn control(&self) -> u32 {
            self.triggers[self.selected].0
        }
        fn set_control(&mut self, value: u32) {
            let mut value = value & !OTHER_MODES;
            if self.kinds & 1 << kind(value) == 0 {
                value = DISABLED << TYPE;
            }
            if !self.has_ranges {
                value &= !MATCHES;
            }
            if !self.is_behind && kind(value) == ADDRESS {
                value &= !BEHIND;
            }
            self.triggers[self.selected].0 = value;
        }
        fn address(&self) -> u32 {
            self.triggers[self.selected].1
        }
        fn set_address(&mut self, value: u32) {
            self.triggers[self.selected].1 = value;
        }
    }

    #[test]
    fn whoever_writes_there_is_told_and_nobody_else() {
        for kinds in [&[ADDRESS][..], &[ADDRESS_6], &[ADDRESS, ADDRESS_6]] {
            for (bytes, address) in [(1, 0x8010_0003), (2, 0x8010_0002), (4, 0x8010_0004)] {
                let mut processor = Processor::new(kinds, 2);
                let watch = ChipWatch { number: 0, bytes: bytes as u8 };
                assert_eq!(set(&mut processor, address, bytes), Ok(watch), "{kinds:?}");
                assert!(!processor.store(address - 1) && !processor.store(address + bytes));
                assert!(processor.store(address + bytes - 1));
                let told = hit(&mut processor, 0).expect("a hit");
                assert_eq!((told.watch, told.address, told.bytes), (0, address as usize, bytes as usize));
                // It would fire again, before the same instruction.
                assert!(told.is_over && !processor.store(address));
                assert!(hit(&mut processor, 0).is_none());
            }
        }
    }

    #[test]
    fn one_that_fires_behind_the_instruction_goes_on() {
        let mut processor = Processor::new(&[ADDRESS], 2);
        processor.is_behind = true;
        assert_eq!(set(&mut processor, 0x8010_0000, 4).map(|watch| watch.number), Ok(0));
        assert_eq!(set(&mut processor, 0x8010_0100, 4).map(|watch| watch.number), Ok(1));
        assert_eq!(set(&mut processor, 0x8010_0200, 4), Err(CannotWatch::NoneLeft));
        for _ in 0..3 {
            assert!(processor.store(0x8010_0101));
            let told = hit(&mut processor, 0).expect("a hit");
            assert_eq!((told.watch, told.is_over), (1, false));
        }
        assert!(end(&mut processor, 1) && !end(&mut processor, 1) && !end(&mut processor, 5));
        assert!(!processor.store(0x8010_0101) && processor.store(0x8010_0000));
    }

    #[test]
    fn one_that_does_not_say_that_it_has_fired_is_known_by_the_address() {
        let mut processor = Processor::new(&[ADDRESS], 2);
        assert_eq!(set(&mut processor, 0x8010_0000, 4).map(|watch| watch.number), Ok(0));
        assert_eq!(set(&mut processor, 0x8010_0100, 4).map(|watch| watch.number), Ok(1));
        assert_eq!(hit(&mut processor, 0x8010_0102).expect("a hit").watch, 1);
        // Nor does the exception say it: the first there is.
        assert_eq!(hit(&mut processor, 0).expect("a hit").watch, 0);
    }

    #[test]
    fn what_a_processor_cannot_is_said() {
        let mut processor = Processor::new(&[ADDRESS], 1);
        processor.has_ranges = false;
        assert_eq!(set(&mut processor, 0x8010_0000, 4), Ok(ChipWatch { number: 0, bytes: 1 }));
        assert!(processor.store(0x8010_0000) && !processor.store(0x8010_0001));
        let told = hit(&mut processor, 0).expect("a hit");
        assert_eq!((told.address, told.bytes), (0x8010_0000, 1));
        let mut processor = Processor::new(&[3], 2);
        processor.triggers = vec![(3 << TYPE, 0); 2];
        assert_eq!(set(&mut processor, 0x8010_0000, 4), Err(CannotWatch::NoWatchpoints));
        let mut processor = Processor::new(&[ADDRESS], 0);
        assert_eq!(set(&mut processor, 0x8010_0000, 4), Err(CannotWatch::NoWatchpoints));
        // A debugger's stays as it is.
        let mut processor = Processor::new(&[ADDRESS], 2);
        processor.triggers[0].0 |= OF_DEBUGGER | 1;
        let before = processor.triggers[0];
        assert_eq!(set(&mut processor, 0x8010_0000, 4).map(|watch| watch.number), Ok(1));
        assert!(!end(&mut processor, 0));
        assert_eq!(processor.triggers[0], before);
    }
}
