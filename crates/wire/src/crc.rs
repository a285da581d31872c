//! CRC-16 of CCITT with all ones at first: check value of `123456789` 0x29B1. Eight bits at a time, without a table: a chip has
//! little flash.

pub(crate) fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xffff, |crc: u16, byte| {
        let high = crc >> 8 ^ u16::from(*byte);
        let high = high ^ high >> 4;
        crc << 8 ^ high << 12 ^ high << 5 ^ high
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_check_value_is_right() {
        assert_eq!(super::crc16(b"123456789"), 0x29b1);
    }
}
