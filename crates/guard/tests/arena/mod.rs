//! Memory of a test's, at any address: what a check reads beside what the allocator gave ends the test.

use std::cell::RefCell;

use heapledger_guard::Memory;

/// What an allocator gave.
pub(crate) struct Arena {
    first: u64,
    bytes: RefCell<Vec<u8>>,
}

impl Arena {
    pub(crate) fn new(first: u64, bytes: u64) -> Self {
        Self { first, bytes: RefCell::new(vec![0; bytes as usize]) }
    }

    fn place(&self, address: u64, bytes: usize) -> usize {
        let place = address.checked_sub(self.first).expect("in front of the block");
        assert!(place as usize + bytes <= self.bytes.borrow().len(), "behind the block");
        place as usize
    }

    pub(crate) fn get(&self, address: u64) -> u8 {
        self.read::<1>(address).expect("inside")[0]
    }

    pub(crate) fn set(&self, address: u64, byte: u8) {
        let place = self.place(address, 1);
        self.bytes.borrow_mut()[place] = byte;
    }

    /// Changes a byte, and says what it was.
    pub(crate) fn flip(&self, address: u64, change: u8) -> u8 {
        let before = self.get(address);
        self.set(address, before ^ change);
        before
    }
}

impl Memory for Arena {
    fn read<const BYTES: usize>(&self, address: u64) -> Option<[u8; BYTES]> {
        let place = self.place(address, BYTES);
        self.bytes.borrow()[place..][..BYTES].try_into().ok()
    }

    fn write<const BYTES: usize>(&self, address: u64, bytes: [u8; BYTES]) -> Option<()> {
        let place = self.place(address, BYTES);
        self.bytes.borrow_mut()[place..][..BYTES].copy_from_slice(&bytes);
        Some(())
    }
}
