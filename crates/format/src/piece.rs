//! A finished ledger: the header, then a chain of pieces, each telling what it is, then an index.
//!
//! ```text
//! header (flags has FINISHED), CRC-32 of it (4 bytes), padding to 8 | piece | piece | … | index piece | trailer
//! piece:    0 4 magic "HLPC"     4 2 section kind      6 2 element bytes    8 1 packing   9 3 (0)
//!          12 4 CRC-32 of payload 16 8 first element  24 8 elements
//!          32 4 packed bytes      36 4 unpacked bytes 40 4 (0)             44 4 CRC-32 of bytes 0..44
//!          48 payload, padded to 8
//! trailer:  0 8 place of the index piece    8 8 "HLEDGEND"
//! ```
//!
//! Numbers of the container are little-endian whatever the ledger is; payloads are as the ledger wrote them.
//! A reader that finds no index, or a damaged one, walks the chain; where the chain is damaged it
//! looks for the next magic whose header checks out. Pieces lie at multiples of 8.

use crate::bytes::{ByteOrder, Codec, WordSize};
use crate::crc::crc32;

/// First bytes of a piece.
pub const MAGIC: [u8; 4] = *b"HLPC";
/// Last bytes of a whole finished ledger.
pub const END_MAGIC: [u8; 8] = *b"HLEDGEND";
/// Bytes of a piece's header.
pub const HEADER_BYTES: usize = 48;
/// Bytes of the trailer.
pub const TRAILER_BYTES: usize = 16;
/// Pieces begin at multiples of this.
pub const ALIGN_BYTES: usize = 8;
/// A piece never unpacks to more than this.
pub const UNPACKED_BYTES_MAX: u32 = 16 << 20;
/// The section number of the index piece. Its elements are [`INDEX_BYTES`] long.
pub const INDEX_KIND: u16 = 0xFFFF;
/// Bytes of an index element: place u64, first element u64, elements u64, section kind u16, 6 zeros.
pub const INDEX_BYTES: usize = 32;

const CODEC: Codec = Codec { order: ByteOrder::Little, word: WordSize::W64 };

/// How a payload is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Packing {
    /// As it is.
    None = 0,
    /// One Zstandard frame.
    Zstd = 1,
    /// One Zstandard frame of the elements' planes: byte `c` of element `i` lies at `c * elements + i`, combined by
    /// exclusive or with byte `c` of the element before.
    ZstdPlanes = 2,
}

/// The header of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceHeader {
    /// Section kind number.
    pub kind: u16,
    /// Bytes of an element.
    pub element_bytes: u16,
    /// How the payload is packed.
    pub packing: Packing,
    /// CRC-32 of the payload as it lies in the file.
    pub payload_crc: u32,
    /// Number of the first element.
    pub first: u64,
    /// Elements in the piece.
    pub count: u64,
    /// Bytes of the payload as it lies in the file.
    pub packed_bytes: u32,
    /// Bytes of the payload when unpacked.
    pub unpacked_bytes: u32,
}

impl PieceHeader {
    /// Reads a piece's header; `None` unless magic, checksum and figures are right.
    pub fn parse(bytes: &[u8]) -> Option<PieceHeader> {
        let bytes = bytes.get(..HEADER_BYTES)?;
        if bytes.get(..4)? != MAGIC || CODEC.u32(bytes, 44) != crc32(bytes.get(..44)?) {
            return None;
        }
        let packing = match bytes.get(8)? {
            0 => Packing::None,
            1 => Packing::Zstd,
            2 => Packing::ZstdPlanes,
            _ => return None,
        };
        let header = PieceHeader {
            kind: CODEC.u16(bytes, 4),
            element_bytes: CODEC.u16(bytes, 6),
            packing,
            payload_crc: CODEC.u32(bytes, 12),
            first: CODEC.u64(bytes, 16),
            count: CODEC.u64(bytes, 24),
            packed_bytes: CODEC.u32(bytes, 32),
            unpacked_bytes: CODEC.u32(bytes, 36),
        };
        let fits = header.unpacked_bytes <= UNPACKED_BYTES_MAX
            && header.count.checked_mul(u64::from(header.element_bytes)) == Some(u64::from(header.unpacked_bytes))
            && header.first.checked_add(header.count).is_some()
            && (packing != Packing::None || header.packed_bytes == header.unpacked_bytes);
        fits.then_some(header)
    }

    /// The header's bytes, checksum included.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0u8; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        CODEC.put(&mut bytes, 4, 2, u64::from(self.kind));
        CODEC.put(&mut bytes, 6, 2, u64::from(self.element_bytes));
        CODEC.put(&mut bytes, 8, 1, self.packing as u64);
        CODEC.put(&mut bytes, 12, 4, u64::from(self.payload_crc));
        CODEC.put(&mut bytes, 16, 8, self.first);
        CODEC.put(&mut bytes, 24, 8, self.count);
        CODEC.put(&mut bytes, 32, 4, u64::from(self.packed_bytes));
        CODEC.put(&mut bytes, 36, 4, u64::from(self.unpacked_bytes));
        let crc = crc32(&bytes[..44]);
        CODEC.put(&mut bytes, 44, 4, u64::from(crc));
        bytes
    }

    /// Bytes from the start of this piece to the start of the next.
    pub fn stride(&self) -> u64 {
        let bytes = (HEADER_BYTES as u64).saturating_add(u64::from(self.packed_bytes));
        bytes.next_multiple_of(ALIGN_BYTES as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_header_reads_back_and_a_changed_one_does_not() {
        let header = PieceHeader {
            kind: 1,
            element_bytes: 32,
            packing: Packing::Zstd,
            payload_crc: 77,
            first: 65536,
            count: 1000,
            packed_bytes: 4321,
            unpacked_bytes: 32000,
        };
        let bytes = header.to_bytes();
        assert_eq!(PieceHeader::parse(&bytes), Some(header));
        assert_eq!(header.stride() % 8, 0);
        for place in 0..HEADER_BYTES {
            let mut forged = bytes;
            forged[place] ^= 1;
            assert_eq!(PieceHeader::parse(&forged), None, "byte {place}");
        }
        let wrong = PieceHeader { count: u64::MAX, ..header };
        assert_eq!(PieceHeader::parse(&wrong.to_bytes()), None, "counts must agree");
    }
}
