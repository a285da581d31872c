//! CRC-32 (IEEE 802.3, reflected, polynomial 0xEDB88320), bit by bit: it covers headers of a few
//! hundred bytes. Hosts that check whole pieces use a faster crate of the same polynomial.

/// The checksum of `bytes`.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            let mask = (crc & 1).wrapping_neg();
            crc = crc >> 1 ^ (0xEDB8_8320 & mask);
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    #[test]
    fn check_value_of_the_polynomial() {
        assert_eq!(super::crc32(b"123456789"), 0xCBF4_3926);
    }
}
