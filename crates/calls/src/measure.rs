//! Memory that a call is about to read, read before it: until something is found, or a limit is reached.
//!
//! # Safety
//! Of all functions here: the caller knows that so many bytes can be read, or that the real function will read as far as what is looked
//! for. Sixteen bytes at once are read where they lie in one row of sixteen, which is in one page with the first of them.
//!
//! Each byte is read as if it could change: no compiler makes calls of these loops.

use core::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8};

const ROW: usize = 16;

/// No limit.
pub(crate) const ALL: usize = usize::MAX;

/// A byte.
#[inline(always)]
pub(crate) fn byte(address: usize) -> u8 {
    // SAFETY: see the module.
    unsafe { (address as *const u8).read_volatile() }
}

/// A wide character, which need not be aligned.
#[inline(always)]
pub(crate) fn wide(address: usize) -> u32 {
    u32::from_ne_bytes([0, 1, 2, 3].map(|index| byte(address.wrapping_add(index))))
}

/// A word, which need not be aligned.
#[inline(always)]
pub(crate) fn word(address: usize) -> usize {
    // SAFETY: see the module.
    unsafe { (address as *const usize).read_unaligned() }
}

/// Bytes in front of the first one of two, of so many.
pub(crate) fn first_of(address: usize, bytes: usize, one: u8, other: u8) -> Option<usize> {
    let end = address.saturating_add(bytes);
    // SAFETY: needs nothing but SSE2, which every x86-64 has.
    let (one, other) = unsafe { (_mm_set1_epi8(one as i8), _mm_set1_epi8(other as i8)) };
    let mut row = address & !ROW.wrapping_sub(1);
    let mut mask = u32::MAX.wrapping_shl((address & ROW.wrapping_sub(1)) as u32);
    while row < end {
        // SAFETY: see the module.
        let found = unsafe {
            let there = (row as *const __m128i).read_volatile();
            _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(there, one), _mm_cmpeq_epi8(there, other)))
        };
        let found = found as u32 & mask;
        if found != 0 {
            let place = row.wrapping_add(found.trailing_zeros() as usize);
            return (place < end).then_some(place.wrapping_sub(address));
        }
        mask = u32::MAX;
        row = row.wrapping_add(ROW);
    }
    None
}

/// Wide characters in front of the first one of two, of so many.
pub(crate) fn first_wide_of(address: usize, units: usize, one: u32, other: u32) -> Option<usize> {
    let is_it = |index: &usize| [one, other].contains(&wide(address.wrapping_add(index.wrapping_mul(4))));
    (0..units).find(is_it)
}

/// Bytes in front of the first at which two texts differ or end, of so many.
pub(crate) fn first_unlike(one: usize, other: usize, bytes: usize) -> Option<usize> {
    const PAGE: usize = 4096;
    let mut at = 0usize;
    while at < bytes {
        let texts = [one, other].map(|text| text.wrapping_add(at));
        // Within one page each.
        if texts.iter().any(|text| text & PAGE.wrapping_sub(1) > PAGE.wrapping_sub(ROW)) {
            let [a, b] = texts.map(byte);
            if a != b || a == 0 {
                return Some(at);
            }
            at = at.wrapping_add(1);
            continue;
        }
        // SAFETY: see the module; needs nothing but SSE2.
        let unlike = unsafe {
            let [a, b] = texts.map(|text| _mm_loadu_si128(text as *const __m128i));
            let ends = _mm_movemask_epi8(_mm_cmpeq_epi8(a, _mm_set1_epi8(0))) as u32;
            !(_mm_movemask_epi8(_mm_cmpeq_epi8(a, b)) as u32) & 0xFFFF | ends
        };
        if unlike != 0 {
            return Some(at.wrapping_add(unlike.trailing_zeros() as usize)).filter(|place| *place < bytes);
        }
        at = at.wrapping_add(ROW);
    }
    None
}

/// Units in front of the first at which two texts differ or end, of so many, as `read` takes them.
pub(crate) fn first_difference(
    one: usize,
    other: usize,
    units: usize,
    read: impl Fn(usize) -> u32,
    width: usize,
) -> Option<usize> {
    let differs = |index: &usize| {
        let [a, b] = [one, other].map(|text| read(text.wrapping_add(index.wrapping_mul(width))));
        a != b || a == 0
    };
    (0..units).find(differs)
}

/// Bytes in front of the first that is in a set, or is not, of so many; the end of a text is in none.
pub(crate) fn first_in(address: usize, bytes: usize, set: &Set, wanted: bool) -> Option<usize> {
    (0..bytes).find(|index| {
        let here = byte(address.wrapping_add(*index));
        here == 0 || set.has(here) == wanted
    })
}

/// A set of bytes.
pub(crate) struct Set([u64; 4]);

impl Set {
    /// The bytes of a text, of at most so many.
    pub(crate) fn of(text: usize, bytes: usize) -> Set {
        let mut set = Set([0; 4]);
        for index in 0..bytes {
            let byte = byte(text.wrapping_add(index));
            if byte == 0 {
                break;
            }
            if let Some(word) = set.0.get_mut(usize::from(byte >> 6)) {
                *word |= 1 << (byte & 63);
            }
        }
        set
    }

    fn has(&self, byte: u8) -> bool {
        self.0.get(usize::from(byte >> 6)).is_some_and(|word| word >> (byte & 63) & 1 == 1)
    }
}

/// Stores a word where the program has said.
pub(crate) fn put_word(address: usize, word: usize) {
    // SAFETY: the real function would store there.
    unsafe { (address as *mut usize).write_unaligned(word) }
}
