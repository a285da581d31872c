//! Bytes without a zero among them (COBS), so that zeros stand between frames.

/// Most bytes that packing adds to a frame, the zero behind it included.
pub const OVERHEAD_BYTES: usize = 3;

/// Packs `bytes` into `out`, with a zero behind them; how many bytes that are. `None` if there is no room.
pub fn pack(bytes: &[u8], out: &mut [u8]) -> Option<usize> {
    let (mut code_at, mut at, mut code) = (0usize, 1usize, 1u8);
    for byte in bytes {
        if *byte != 0 {
            *out.get_mut(at)? = *byte;
            at = at.wrapping_add(1);
            code = code.wrapping_add(1);
        }
        if *byte == 0 || code == 0xff {
            *out.get_mut(code_at)? = code;
            (code_at, code) = (at, 1);
            at = at.wrapping_add(1);
        }
    }
    *out.get_mut(code_at)? = code;
    *out.get_mut(at)? = 0;
    Some(at.wrapping_add(1))
}

/// Unpacks what stood between two zeros, in place; how many bytes it has. `None` if it was not packed so.
pub fn unpack(bytes: &mut [u8]) -> Option<usize> {
    let (mut from, mut to) = (0usize, 0usize);
    while let Some(code) = bytes.get(from).copied() {
        from = from.wrapping_add(1);
        for _ in 1..code.max(1) {
            let byte = *bytes.get(from)?;
            *bytes.get_mut(to)? = byte;
            from = from.wrapping_add(1);
            to = to.wrapping_add(1);
        }
        if code == 0 {
            return None;
        }
        if code != 0xff && from < bytes.len() {
            *bytes.get_mut(to)? = 0;
            to = to.wrapping_add(1);
        }
    }
    Some(to)
}
