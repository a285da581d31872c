//! Stretches of this process's memory, filled and looked at word by word.

use heapledger_guard::{Memory, Window};

/// The same memory, with the ways that every memory has.
struct Plain(Window);

impl Memory for Plain {
    fn read<const BYTES: usize>(&self, address: u64) -> Option<[u8; BYTES]> {
        self.0.read(address)
    }

    fn write<const BYTES: usize>(&self, address: u64, bytes: [u8; BYTES]) -> Option<()> {
        self.0.write(address, bytes)
    }
}

fn check(memory: &impl Memory, first: u64, bytes: u64) {
    for from in 0..20 {
        for length in 0..bytes - from {
            assert_eq!(memory.fill(first, bytes, 0xAA), Some(()));
            assert_eq!(memory.fill(first + from, length, 0xCE), Some(()));
            for at in 0..bytes {
                let expected = if at >= from && at < from + length { 0xCE } else { 0xAA };
                assert_eq!(memory.read(first + at), Some([expected]), "{from} {length} {at}");
            }
            assert_eq!(memory.first_other(first + from, length, 0xCE), None);
            assert_eq!(memory.first_other(first, bytes, 0xAA), (length > 0).then_some(first + from));
            for at in [0, 1, 7, 8, 9, length / 2, length.saturating_sub(1)].into_iter().filter(|at| *at < length) {
                memory.write(first + from + at, [1]).expect("inside");
                assert_eq!(memory.first_other(first + from, length, 0xCE), Some(first + from + at));
                memory.write(first + from + at, [0xCE]).expect("inside");
            }
        }
    }
}

#[test]
fn words_and_single_bytes_are_the_same_memory() {
    let buffer = vec![0u64; 10].leak();
    let (first, bytes) = (buffer.as_mut_ptr().expose_provenance() as u64, 80);
    // SAFETY: the buffer is there for good, and nobody uses it but by this window.
    let window = unsafe { Window::new(first, bytes) };
    check(&window, first, bytes);
    check(&Plain(window), first, bytes);
    for (address, length) in [(first - 1, 8), (first, 81), (first + 80, 1), (0, 1), (u64::MAX, 8), (first, u64::MAX)] {
        assert_eq!(window.fill(address, length, 0), None, "{address:x} {length}");
        assert_eq!(window.first_other(address, length, 0), None, "{address:x} {length}");
    }
    assert_eq!(window.fill(first + 80, 0, 0), Some(()));
}
