//! Numbers in the byte order and word size of the target that wrote them.

/// Byte order of a ledger: that of the machine on which the program ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// The order of the machine this code runs on.
    pub const NATIVE: ByteOrder = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };
}

/// Size of an address, a counter and a section offset in a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordSize {
    /// 4 bytes: microcontrollers, i386.
    W32,
    /// 8 bytes.
    W64,
}

impl WordSize {
    /// Bytes of one word.
    #[inline(always)]
    pub const fn bytes(self) -> usize {
        match self {
            WordSize::W32 => 4,
            WordSize::W64 => 8,
        }
    }

    /// Bits of one word.
    pub const fn bits(self) -> usize {
        self.bytes().saturating_mul(8)
    }
}

/// How to read and write the numbers of one ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codec {
    /// Byte order.
    pub order: ByteOrder,
    /// Word size.
    pub word: WordSize,
}

impl Codec {
    /// A 2-byte number at `at`; 0 where the bytes end before.
    pub fn u16(&self, bytes: &[u8], at: usize) -> u16 {
        self.number(bytes, at, 2) as u16
    }

    /// A 4-byte number at `at`; 0 where the bytes end before.
    pub fn u32(&self, bytes: &[u8], at: usize) -> u32 {
        self.number(bytes, at, 4) as u32
    }

    /// An 8-byte number at `at`; 0 where the bytes end before.
    pub fn u64(&self, bytes: &[u8], at: usize) -> u64 {
        self.number(bytes, at, 8)
    }

    /// A word at `at`; 0 where the bytes end before.
    pub fn word(&self, bytes: &[u8], at: usize) -> u64 {
        self.number(bytes, at, self.word.bytes())
    }

    /// An unsigned number of `width` (at most 8) bytes at `at`; 0 where the bytes end before.
    pub fn number(&self, bytes: &[u8], at: usize, width: usize) -> u64 {
        let Some(raw) = at.checked_add(width).and_then(|end| bytes.get(at..end)) else { return 0 };
        let fold = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        match self.order {
            ByteOrder::Little => raw.iter().rev().fold(0, fold),
            ByteOrder::Big => raw.iter().fold(0, fold),
        }
    }

    /// Writes a number of `width` (at most 8) bytes at `at`. Returns whether there was room.
    pub fn put(&self, bytes: &mut [u8], at: usize, width: usize, value: u64) -> bool {
        let Some(raw) = at.checked_add(width).and_then(|end| bytes.get_mut(at..end)) else { return false };
        let mut rest = value;
        let mut store = |byte: &mut u8| {
            *byte = rest as u8;
            rest >>= 8;
        };
        match self.order {
            ByteOrder::Little => raw.iter_mut().for_each(&mut store),
            ByteOrder::Big => raw.iter_mut().rev().for_each(&mut store),
        }
        true
    }
}
