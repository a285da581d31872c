//! Watchpoints of a Cortex-M3, M4 or M7: comparators of its debug unit (ARMv7-M Architecture Reference Manual, C1.8).
//!
//! Without registers of its own: `watch` has those of the processor, tests others.
#![forbid(unsafe_code)]

use super::CannotWatch;
use super::watch::{ChipWatch, Hit};

/// Reads and writes registers by their addresses.
pub(super) trait Registers {
    fn read(&self, register: u32) -> u32;
    fn write(&mut self, register: u32, value: u32);
}

/// Which processor it is.
const CPUID: u32 = 0xE000_ED00;
/// Debug exceptions and the debug unit are on.
const DEMCR: u32 = 0xE000_EDFC;
const TRACE_ENABLED: u32 = 1 << 24;
const MONITOR_ENABLED: u32 = 1 << 16;
/// Why there was a debug exception; ones clear it.
const DFSR: u32 = 0xE000_ED30;
const BY_COMPARATOR: u32 = 1 << 2;
/// How many comparators there are is in its highest four bits.
const CONTROL: u32 = 0xE000_1000;
/// Registers of the first comparator, each 16 bytes before those of the next one.
const COMPARATOR: u32 = 0xE000_1020;
const MASK: u32 = 0xE000_1024;
const FUNCTION: u32 = 0xE000_1028;
const OF_EACH: u32 = 16;
/// What a comparator does.
const FUNCTION_BITS: u32 = 0xF;
/// A debug exception behind whatever writes there.
const ON_WRITE: u32 = 6;
/// Has it? Reading says it once.
const MATCHED: u32 = 1 << 24;

const fn of(register: u32, nth: u32) -> u32 {
    register.wrapping_add(nth.wrapping_mul(OF_EACH))
}

/// Comparators of the processor. A Cortex-M0 has none that an exception follows; those of a Cortex-M33 are others.
fn count(registers: &impl Registers) -> u32 {
    let cpu = registers.read(CPUID);
    let (architecture, part) = (cpu >> 16 & 0xF, cpu >> 4 & 0xFFF);
    if architecture == 0xF && matches!(part, 0xC23 | 0xC24 | 0xC27) { registers.read(CONTROL) >> 28 } else { 0 }
}

/// Watches some bytes, and says with which comparator.
pub(super) fn set(registers: &mut impl Registers, address: u32, bytes: u32) -> Result<ChipWatch, CannotWatch> {
    // Its registers can be read only if this is so.
    let control = registers.read(DEMCR);
    registers.write(DEMCR, control | TRACE_ENABLED | MONITOR_ENABLED);
    let count = count(registers);
    for nth in 0..count {
        if registers.read(of(FUNCTION, nth)) & FUNCTION_BITS != 0 {
            continue;
        }
        registers.write(of(COMPARATOR, nth), address);
        registers.write(of(MASK, nth), bytes.trailing_zeros());
        registers.write(of(FUNCTION, nth), ON_WRITE);
        if registers.read(of(FUNCTION, nth)) & FUNCTION_BITS == ON_WRITE
            && registers.read(of(MASK, nth)) == bytes.trailing_zeros()
        {
            return Ok(ChipWatch { number: nth as u8, bytes: bytes as u8 });
        }
        registers.write(of(FUNCTION, nth), 0);
    }
    Err(if count == 0 { CannotWatch::NoWatchpoints } else { CannotWatch::NoneLeft })
}

/// Ends a watch. Whether there was one.
pub(super) fn end(registers: &mut impl Registers, watch: u8) -> bool {
    let nth = u32::from(watch);
    let is_set = nth < count(registers) && registers.read(of(FUNCTION, nth)) & FUNCTION_BITS == ON_WRITE;
    if is_set {
        registers.write(of(FUNCTION, nth), 0);
    }
    is_set
}

/// Which comparator it was, in the exception that follows. (The next one follows only if this was asked.)
pub(super) fn hit(registers: &mut impl Registers) -> Option<Hit> {
    let mut found = None;
    for nth in 0..count(registers) {
        let function = registers.read(of(FUNCTION, nth));
        if function & MATCHED != 0 && function & FUNCTION_BITS == ON_WRITE {
            let bytes = 1u32.checked_shl(registers.read(of(MASK, nth))).unwrap_or(0);
            let address = registers.read(of(COMPARATOR, nth)) as usize;
            found = Some(Hit { watch: nth as u8, address, bytes: bytes as usize, is_over: false });
        }
    }
    registers.write(DFSR, BY_COMPARATOR);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::RefCell;
    use std::collections::BTreeMap;

    /// A debug unit, as the manual has it.
    struct Unit {
        cpuid: u32,
        comparators: u32,
        mask_bits: u32,
        words: RefCell<BTreeMap<u32, u32>>,
    }

    impl Unit {
        fn new(cpuid: u32, comparators: u32) -> Unit {
            Unit { cpuid, comparators, mask_bits: 0x1F, words: RefCell::default() }
        }
        /// The processor writes some bytes.
        fn store(&self, address: u32, bytes: u32) -> bool {
            let mut words = self.words.borrow_mut();
            let mut is_hit = false;
            for nth in 0..self.comparators {
                let word = |words: &BTreeMap<u32, u32>, register| words.get(&of(register, nth)).copied().unwrap_or(0);
                let mask = word(&words, MASK);
                let (first, behind) = (word(&words, COMPARATOR), word(&words, COMPARATOR) + (1 << mask));
                let function = word(&words, FUNCTION);
                if function & FUNCTION_BITS == ON_WRITE && address < behind && address + bytes > first {
                    words.insert(of(FUNCTION, nth), function | MATCHED);
                    is_hit = true;
                }
            }
            is_hit && words.get(&DEMCR).is_some_and(|control| control & MONITOR_ENABLED != 0)
        }
    }

    impl Registers for Unit {
        fn read(&self, register: u32) -> u32 {
            let mut words = self.words.borrow_mut();
            let is_on = words.get(&DEMCR).is_some_and(|control| control & TRACE_ENABLED != 0);
            match register {
                CPUID => self.cpuid,
                CONTROL if is_on => self.comparators << 28,
                _ if register >= COMPARATOR + self.comparators * OF_EACH && register < 0xE000_2000 => 0,
                _ => {
                    let word = words.get(&register).copied().unwrap_or(0);
                    if (FUNCTION..FUNCTION + 256).contains(&register) && register % 16 == 8 {
                        words.insert(register, word & !MATCHED);
                    }
                    word
                }
            }
        }
        fn write(&mut self, register: u32, value: u32) {
            let is_mask = (MASK..MASK + 256).contains(&register) && register % 16 == 4;
            let value = if is_mask { value & self.mask_bits } else { value };
            self.words.borrow_mut().insert(register, value);
        }
    }

    const M3: u32 = 0x412F_C231;
    const M4: u32 = 0x410F_C241;
    const M0: u32 = 0x410C_C200;
    const M33: u32 = 0x410F_D210;

    #[test]
    fn whoever_writes_there_is_told_and_nobody_else() {
        for cpu in [M3, M4] {
            let mut unit = Unit::new(cpu, 4);
            assert_eq!(set(&mut unit, 0x2000_0104, 4), Ok(ChipWatch { number: 0, bytes: 4 }));
            assert_eq!(set(&mut unit, 0x2000_0200, 1), Ok(ChipWatch { number: 1, bytes: 1 }));
            assert_eq!(set(&mut unit, 0x2000_0302, 2), Ok(ChipWatch { number: 2, bytes: 2 }));
            assert!(!unit.store(0x2000_0100, 4) && !unit.store(0x2000_0108, 4) && !unit.store(0x2000_0201, 1));
            assert!(hit(&mut unit).is_none());
            assert!(unit.store(0x2000_0106, 1));
            let told = hit(&mut unit).expect("a hit");
            assert_eq!((told.watch, told.address, told.bytes, told.is_over), (0, 0x2000_0104, 4, false));
            // Once.
            assert!(hit(&mut unit).is_none());
            assert!(unit.store(0x2000_0200, 1));
            assert_eq!(hit(&mut unit).expect("a hit").watch, 1);
            assert!(end(&mut unit, 1) && !end(&mut unit, 1) && !end(&mut unit, 9));
            assert!(!unit.store(0x2000_0200, 1));
            // It is free again.
            assert_eq!(set(&mut unit, 0x2000_0400, 4), Ok(ChipWatch { number: 1, bytes: 4 }));
        }
    }

    #[test]
    fn comparators_that_others_use_are_left_alone() {
        let mut unit = Unit::new(M3, 2);
        unit.write(of(FUNCTION, 0), 5);
        assert_eq!(set(&mut unit, 0x2000_0104, 4), Ok(ChipWatch { number: 1, bytes: 4 }));
        assert_eq!(set(&mut unit, 0x2000_0108, 4), Err(CannotWatch::NoneLeft));
        assert!(!end(&mut unit, 0), "nobody's here");
        assert_eq!(unit.read(of(FUNCTION, 0)), 5);
    }

    #[test]
    fn a_processor_without_says_so() {
        for (cpu, comparators) in [(M0, 2), (M33, 4), (M3, 0), (0, 15)] {
            let mut unit = Unit::new(cpu, comparators);
            assert_eq!(set(&mut unit, 0x2000_0104, 4), Err(CannotWatch::NoWatchpoints), "{cpu:#x}");
            assert!(hit(&mut unit).is_none());
        }
        // One that cannot leave out address bits watches single bytes.
        let mut unit = Unit::new(M3, 1);
        unit.mask_bits = 0;
        assert_eq!(set(&mut unit, 0x2000_0104, 4), Err(CannotWatch::NoneLeft));
        assert_eq!(set(&mut unit, 0x2000_0104, 1), Ok(ChipWatch { number: 0, bytes: 1 }));
    }
}
