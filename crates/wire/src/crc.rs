//! CRC-16 of CCITT with all ones at first, four bits at a time: check value of `123456789` 0x29B1.

#[expect(clippy::indexing_slicing, reason = "at compile time: wrong would not compile")]
const TABLE: [u16; 16] = {
    let mut table = [0u16; 16];
    let mut index = 0;
    while index < 16 {
        let mut crc = (index as u16) << 12;
        let mut bit = 0;
        while bit < 4 {
            crc = if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 };
            bit = add(bit);
        }
        table[index] = crc;
        index = add(index);
    }
    table
};

const fn add(value: usize) -> usize {
    value.wrapping_add(1)
}

pub(crate) fn crc16(bytes: &[u8]) -> u16 {
    let step = |crc: u16, four: u16| {
        let index = (crc >> 12 ^ four) & 15;
        crc << 4 ^ TABLE.get(index as usize).copied().unwrap_or(0)
    };
    bytes.iter().fold(0xffff, |crc, byte| {
        let byte = u16::from(*byte);
        step(step(crc, byte >> 4), byte & 15)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_check_value_is_right() {
        assert_eq!(super::crc16(b"123456789"), 0x29b1);
    }
}
