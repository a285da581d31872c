//! Damage as ESP-IDF says it, in lines that its readers know.

#![forbid(unsafe_code)]

use super::{SMALL_FREED_FILL, SmallBlock, SmallDamage, TAIL, byte, tail, word};
use crate::check::Region;
use crate::layout::{HEAD_CANARY, SLACK_FILL, TAIL_CANARY};
use crate::memory::Memory;

/// Puts text together, letter by letter.
struct Line<'p, P>(&'p mut P);

impl<P: FnMut(u8)> Line<'_, P> {
    fn text(&mut self, text: &str) {
        text.bytes().for_each(&mut *self.0);
    }

    /// `0x` and so many digits.
    fn hex(&mut self, number: u32, digits: u32) {
        self.text("0x");
        for place in (0..digits).rev() {
            let digit = number.wrapping_shr(place.wrapping_mul(4)) as u8 & 15;
            (self.0)(if digit < 10 { digit.wrapping_add(b'0') } else { digit.wrapping_add(b'a' - 10) });
        }
    }

    /// One of the lines with a place, what should be there, and what is.
    fn bad(&mut self, what: &str, at: u32, (expected, found): (u32, u32), digits: u32) {
        self.text("CORRUPT HEAP: ");
        self.text(what);
        self.hex(at, 8);
        self.text(". Expected ");
        self.hex(expected, digits);
        self.text(" got ");
        self.hex(found, digits);
        self.text("\n");
    }
}

/// Damage in lines, each with a line end: `CORRUPT HEAP: Bad head at 0x20000104. Expected 0xabba1234 got 0xabba1235`. Of a canary it is one, of freed
/// memory one for each word, of slack one for each byte. `block`: which one it is, if that is known; `limit`: where its heap ends.
///
/// The words are read again from `memory`: what cannot be read is not told.
pub fn corrupt_lines(
    memory: &impl Memory,
    damage: &SmallDamage,
    (block, limit): (Option<&SmallBlock>, u32),
    put: &mut impl FnMut(u8),
) {
    let mut line = Line(put);
    let last = damage.address.wrapping_add(damage.bytes);
    match damage.region {
        Region::Header | Region::HeadCanary => {
            let header = damage.address & !7;
            if damage.region == Region::Header {
                let room = limit.wrapping_sub(header).wrapping_sub(8);
                line.text("CORRUPT HEAP: Size at ");
                line.hex(header, 8);
                line.text(" expected <=");
                line.hex(block.map_or(room, |block| block.size), 8);
                line.text(" got ");
                line.hex(word(memory, header).unwrap_or(0) & super::SIZE_MASK, 8);
                line.text("\n");
            }
            let canary = header.wrapping_add(4);
            if let Some(found) = word(memory, canary).filter(|found| *found != HEAD_CANARY) {
                line.bad("Bad head at ", canary, (HEAD_CANARY, found), 8);
            }
        }
        Region::TailCanary | Region::Slack => {
            let end = block.map_or(damage.address, SmallBlock::end);
            if let Some(found) = tail(memory, end).filter(|found| *found != TAIL_CANARY) {
                line.bad("Bad tail at ", end, (TAIL_CANARY, found), 8);
            }
            for at in end.wrapping_add(TAIL).max(damage.address)..last {
                if let Some(found) = byte(memory, at).filter(|found| *found != SLACK_FILL) {
                    line.bad("Invalid data at ", at, (SLACK_FILL.into(), found.into()), 2);
                }
            }
        }
        Region::Freed => {
            const FILL: u32 = u32::from_le_bytes([SMALL_FREED_FILL; 4]);
            for at in (damage.address & !3..last).step_by(4) {
                if let Some(found) = word(memory, at).filter(|found| *found != FILL) {
                    line.bad("Invalid data at ", at, (FILL, found), 8);
                }
            }
        }
    }
}

/// Two blocks in one place: what the allocator knows is wrong. (The number is that of a line of ESP-IDF's allocator.)
pub fn structure_line(at: u32, put: &mut impl FnMut(u8)) {
    let mut line = Line(put);
    line.text("CORRUPT HEAP: multi_heap.c:225 detected at ");
    line.hex(at, 8);
    line.text("\n");
}
