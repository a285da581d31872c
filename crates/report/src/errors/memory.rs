//! Bytes of an error: the memory around it with the edges of its block, and what patterns tell a person.

use heapledger_format::errors::{ErrorEntry, FoundBy};

use super::place::{end, is_in_front};
use super::{compared, hex};
use crate::form::units::counted;

/// Bytes of memory in a line.
const ROW_BYTES: usize = 16;
/// What stands in front of a block, and behind it, in the order of memory on most machines.
const HEAD_CANARY: [u8; 4] = [0x34, 0x12, 0xba, 0xab];
const TAIL_CANARY: [u8; 4] = [0x78, 0x56, 0xad, 0xba];
/// What fills the rest of a block's place.
const SLACK: u8 = 0xbd;
/// What fills a block when it is allocated, and when it is freed.
const UNWRITTEN: u8 = 0xce;
const FREED: u8 = 0xfe;
/// So many equal bytes are no chance.
const PATTERN_BYTES_LEAST: usize = 4;

const WAS_UNWRITTEN: &str = "memory that was never written after its allocation";
const WAS_FREED: &str = "memory that was freed";

/// The bytes around an error, a row for each 16, `[` where its block begins and `]` where it ends; below a row the bytes
/// that were accessed or damaged are underlined.
pub(super) fn rows(error: &ErrorEntry, around: &[u8]) -> Vec<String> {
    let mut rows = Vec::new();
    for (index, bytes) in around.chunks(ROW_BYTES).enumerate() {
        let address = error.around_address.saturating_add((index * ROW_BYTES) as u64);
        let (mut row, mut below) = (format!("{address:#x} "), String::new());
        let indent = row.len();
        let at = |offset: usize| address.saturating_add(offset as u64);
        for (offset, byte) in bytes.iter().enumerate() {
            // An end stands behind the last byte of a row, not in front of the next one.
            let edge = edge(error, at(offset));
            row.push(if edge == ']' && offset == 0 && index > 0 { ' ' } else { edge });
            row.push_str(&format!("{byte:02x}"));
            below.push_str(if is_meant(error, at(offset)) { " ^^" } else { "   " });
        }
        if edge(error, at(bytes.len())) == ']' {
            row.push(']');
        }
        rows.push(row);
        let below = below.trim_end();
        if !below.is_empty() {
            rows.push(format!("{}{below}", " ".repeat(indent)));
        }
    }
    rows
}

/// What stands in front of the byte at `address`.
fn edge(error: &ErrorEntry, address: u64) -> char {
    match (address == error.block, address == end(error)) {
        _ if error.block == 0 => ' ',
        (true, true) => '|',
        (true, false) => '[',
        (false, true) => ']',
        (false, false) => ' ',
    }
}

/// Whether the byte at `address` was accessed or damaged.
fn is_meant(error: &ErrorEntry, address: u64) -> bool {
    error.address != 0 && address.checked_sub(error.address).is_some_and(|offset| offset < error.bytes.max(1))
}

/// ` (tail canary)`: what was to stay.
pub(super) fn expected(error: &ErrorEntry) -> String {
    let bytes = compared(error, error.expected);
    let what = match error.found_by {
        by if by == FoundBy::Fill as u8 && is_all(&bytes, FREED) => "fill of freed memory",
        by if by != FoundBy::Canary as u8 || bytes.is_empty() => return hex(&bytes),
        _ if is_all(&bytes, SLACK) => "fill beside the block",
        _ if is_in_front(error) => "head canary",
        _ => "tail canary",
    };
    format!("{} ({what})", hex(&bytes))
}

/// The bytes found, and the letters that they are.
pub(super) fn found(error: &ErrorEntry) -> String {
    let bytes = compared(error, error.found);
    let text = hex(&bytes);
    // Only what was damaged: the rest is as it was.
    let damaged: Vec<u8> = bytes.iter().copied().take(usize::try_from(error.bytes).unwrap_or(usize::MAX)).collect();
    let is_text = damaged.len() > 1 && damaged.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    if is_text { format!("{text} \"{}\"", String::from_utf8_lossy(&damaged).escape_debug()) } else { text }
}

fn is_all(bytes: &[u8], value: u8) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| *byte == value)
}

/// What addresses and bytes tell who knows the patterns of this tool.
pub(super) fn hints(error: &ErrorEntry) -> Vec<String> {
    let mut hints = Vec::new();
    let given = error.operands.map(|operand| ("value that was given", operand));
    for (what, value) in [("address", error.address)].into_iter().chain(given) {
        if let Some((filled, was)) = filled_word(value) {
            hints.push(format!("the {what} is {filled}…, which fills {was}: it was read from such"));
        }
    }
    let found = compared(error, error.found);
    let changed = found != compared(error, error.expected);
    if changed && found.len() >= PATTERN_BYTES_LEAST {
        if is_all(&found, UNWRITTEN) {
            hints.push(format!("0xcececece… fills {WAS_UNWRITTEN}: such memory was copied here"));
        } else if is_all(&found, FREED) {
            hints.push(format!("0xfefefefe… fills {WAS_FREED}: such memory was copied here"));
        } else if let Some(whose) = canary(&found) {
            hints.push(format!("a {whose} canary was copied here: more than a whole block, from its edge on"));
        }
    }
    if changed && error.bytes == 1 && error.address == end(error) && found.first() == Some(&0) {
        hints.push("one zero byte right behind the end: a string's last byte that was not counted".to_owned());
    }
    let front = &error.neighbours[0];
    if is_in_front(error) && front.address != 0 {
        let gap = error.block.saturating_sub(front.address.saturating_add(front.bytes));
        hints.push(format!(
            "the block in front ends {} before this one and may have overrun: its allocation is below",
            counted(gap, "byte", "bytes")
        ));
    }
    hints
}

/// A word, or what is near to one, that memory was filled with. Small offsets are those of members.
fn filled_word(value: u64) -> Option<(&'static str, &'static str)> {
    let of = |byte: u8| {
        let word = u64::from_ne_bytes([byte; 8]);
        let narrow = u64::from(u32::from_ne_bytes([byte; 4]));
        value >> 16 == word >> 16 || value <= u64::from(u32::MAX) && value >> 16 == narrow >> 16
    };
    match () {
        () if of(UNWRITTEN) => Some(("0xcececece", WAS_UNWRITTEN)),
        () if of(FREED) => Some(("0xfefefefe", WAS_FREED)),
        () => None,
    }
}

/// Whose canary these bytes are, in either order.
fn canary(bytes: &[u8]) -> Option<&'static str> {
    let is = |canary: [u8; 4]| {
        let mut reversed = canary;
        reversed.reverse();
        bytes.starts_with(&canary) || bytes.starts_with(&reversed)
    };
    match () {
        () if is(HEAD_CANARY) => Some("head"),
        () if is(TAIL_CANARY) => Some("tail"),
        () => None,
    }
}
