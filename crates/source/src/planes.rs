//! Elements turned over for packing: each byte without what it has in common with the element before, and bytes
//! of the same place together.
//!
//! Plane `c` holds byte `c` of every element in turn, each combined by exclusive or with byte `c` of the element
//! before it. What changes slowly (threads, times, upper halves of addresses and numbers) becomes runs of zeros.

/// Elements that are turned at a time: what is written stays in the nearest cache.
const BLOCK: usize = 256;

/// Turns whole elements of `element_bytes` each into planes: `planes` gets the bytes, as many as there are in `elements`.
pub(crate) fn to_planes(elements: &[u8], element_bytes: usize, planes: &mut Vec<u8>) {
    let count = elements.len() / element_bytes.max(1);
    planes.resize(elements.len(), 0);
    // What is no whole element; all else is stored to below.
    planes.iter_mut().skip(count * element_bytes).for_each(|byte| *byte = 0);
    if element_bytes == 0 || count == 0 {
        return;
    }
    let by_words = if element_bytes.is_multiple_of(8) { count / 8 * 8 } else { 0 };
    for block in (0..by_words).step_by(BLOCK) {
        let end = (block + BLOCK).min(by_words);
        let of_block = elements.get(block * element_bytes..end * element_bytes).unwrap_or(&[]);
        for word_at in (0..element_bytes).step_by(8) {
            let mut before = if block == 0 { 0 } else { le_word(elements, (block - 1) * element_bytes + word_at) };
            for (group, eight) in of_block.chunks_exact(element_bytes * 8).enumerate() {
                let rows = transposed(std::array::from_fn(|row| {
                    let now = le_word(eight, row * element_bytes + word_at);
                    now ^ std::mem::replace(&mut before, now)
                }));
                for (row, bytes) in rows.iter().enumerate() {
                    put_le_word(planes, (word_at + row) * count + block + group * 8, *bytes);
                }
            }
        }
    }
    let byte = |index: usize, column: usize| elements.get(index * element_bytes + column).copied().unwrap_or(0);
    for index in by_words..count {
        for column in 0..element_bytes {
            let before = if index == 0 { 0 } else { byte(index - 1, column) };
            if let Some(place) = planes.get_mut(column * count + index) {
                *place = byte(index, column) ^ before;
            }
        }
    }
}

/// Undoes [`to_planes`]: `elements` gets the bytes, as many as there are in `planes`.
pub(crate) fn from_planes(planes: &[u8], element_bytes: usize, elements: &mut Vec<u8>) {
    elements.resize(planes.len(), 0);
    let count = planes.len() / element_bytes.max(1);
    if element_bytes == 0 || count == 0 {
        return;
    }
    let by_words = if element_bytes.is_multiple_of(8) { count / 8 * 8 } else { 0 };
    for block in (0..by_words).step_by(BLOCK) {
        let end = (block + BLOCK).min(by_words);
        for word_at in (0..element_bytes).step_by(8) {
            let mut before = if block == 0 { 0 } else { le_word(elements, (block - 1) * element_bytes + word_at) };
            let columns: [&[u8]; 8] = std::array::from_fn(|row| {
                let column = (word_at + row) * count;
                planes.get(column + block..column + end).unwrap_or(&[])
            });
            let Some(of_block) = elements.get_mut(block * element_bytes..end * element_bytes) else { continue };
            for (group, eight) in of_block.chunks_exact_mut(element_bytes * 8).enumerate() {
                let rows = transposed(columns.map(|column| le_word(column, group * 8)));
                for (row, element) in eight.chunks_exact_mut(element_bytes).enumerate() {
                    before ^= rows[row & 7];
                    put_le_word(element, word_at, before);
                }
            }
        }
    }
    for index in by_words..count {
        for column in 0..element_bytes {
            let before =
                if index == 0 { 0 } else { elements.get((index - 1) * element_bytes + column).copied().unwrap_or(0) };
            let change = planes.get(column * count + index).copied().unwrap_or(0);
            if let Some(place) = elements.get_mut(index * element_bytes + column) {
                *place = before ^ change;
            }
        }
    }
}

#[inline(always)]
fn le_word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_le_bytes(*word))
}

#[inline(always)]
fn put_le_word(bytes: &mut [u8], at: usize, word: u64) {
    if let Some(place) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = word.to_le_bytes();
    }
}

/// Byte `c` of row `r` becomes byte `r` of row `c`.
#[inline(always)]
fn transposed(mut rows: [u64; 8]) -> [u64; 8] {
    swap::<0, 4>(&mut rows);
    swap::<1, 5>(&mut rows);
    swap::<2, 6>(&mut rows);
    swap::<3, 7>(&mut rows);
    swap::<0, 2>(&mut rows);
    swap::<1, 3>(&mut rows);
    swap::<4, 6>(&mut rows);
    swap::<5, 7>(&mut rows);
    swap::<0, 1>(&mut rows);
    swap::<2, 3>(&mut rows);
    swap::<4, 5>(&mut rows);
    swap::<6, 7>(&mut rows);
    rows
}

/// Exchanges, in groups of as many bytes as the rows are apart, each second group of `A` with each first one of `B`.
#[inline(always)]
fn swap<const A: usize, const B: usize>(rows: &mut [u64; 8]) {
    let apart = B - A;
    let mask = u64::MAX / ((1u64 << (apart * 8)) + 1);
    let (a, b) = (rows[A], rows[B]);
    rows[A] = a & mask | (b & mask) << (apart * 8);
    rows[B] = a >> (apart * 8) & mask | b & !mask;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(bytes: usize) -> Vec<u8> {
        let mut seed = 88172645463325252u64;
        let mut byte = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 32) as u8
        };
        (0..bytes).map(|_| byte()).collect()
    }

    #[test]
    fn what_was_turned_turns_back() {
        for element_bytes in [1, 2, 7, 8, 20, 32, 40, 64, 1384] {
            for count in [0, 1, 2, 7, 8, 9, 64, 255, 256, 257, 1000, 1031] {
                let elements = noise(element_bytes * count);
                let mut planes = Vec::new();
                to_planes(&elements, element_bytes, &mut planes);
                assert_eq!(planes.len(), elements.len());
                let mut back = vec![7u8; 3];
                from_planes(&planes, element_bytes, &mut back);
                assert_eq!(back, elements, "{count} of {element_bytes}");
            }
        }
    }

    #[test]
    fn planes_are_what_the_format_says() {
        // FORMAT.md, "Planes".
        for element_bytes in [3, 16] {
            let count = 19;
            let elements = noise(element_bytes * count);
            let mut planes = vec![9u8; 5];
            to_planes(&elements, element_bytes, &mut planes);
            for column in 0..element_bytes {
                for index in 0..count {
                    let before = if index == 0 { 0 } else { elements[(index - 1) * element_bytes + column] };
                    let expected = elements[index * element_bytes + column] ^ before;
                    assert_eq!(planes[column * count + index], expected, "byte {column} of element {index}");
                }
            }
        }
    }
}
