//! The anchor: a page of a recorded program's private memory, from which a core dump leads to the ledger.
//!
//! Magic, [`MARK`], the path of the live file, a line end, the ledger id in 32 hexadecimal digits, a line end; then
//! lines `key=value`. Zeros behind. Unknown keys are passed over.

use crate::header::MAGIC;

/// What follows the magic.
pub const MARK: &[u8] = b"anchor\n";

/// An anchor, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<'a> {
    /// Path of the live file.
    pub path: &'a [u8],
    /// Ledger id.
    pub id: [u8; 16],
    rest: &'a [u8],
}

impl<'a> Text<'a> {
    /// Takes an anchor apart; `None` if it is none.
    pub fn parse(bytes: &'a [u8]) -> Option<Text<'a>> {
        let text = bytes.strip_prefix(&MAGIC)?.strip_prefix(MARK)?;
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        let (path, rest) = line(text.get(..end)?)?;
        let (digits, rest) = line(rest)?;
        let mut id = [0u8; 16];
        if digits.len() / 2 != id.len() || !digits.len().is_multiple_of(2) || path.is_empty() {
            return None;
        }
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Text { path, id, rest })
    }

    /// The value of `key`.
    pub fn value(&self, key: &[u8]) -> Option<&'a [u8]> {
        let lines = self.rest.split(|byte| *byte == b'\n');
        lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix(b"=")).next()
    }
}

/// The first line and what follows it; `None` if no line ends.
fn line(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = text.splitn(2, |byte| *byte == b'\n');
    Some((parts.next()?, parts.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_taken_apart() {
        let mut page = [0u8; 200];
        let text = b"anchor\n/dev/shm/a-0.hlive\n00ff0102030405060708090a0b0c0d0e\nx=1\ncwd=/home/a b\n";
        page[..8].copy_from_slice(&MAGIC);
        page[8..8 + text.len()].copy_from_slice(text);
        let anchor = Text::parse(&page).expect("an anchor");
        assert_eq!(anchor.path, b"/dev/shm/a-0.hlive");
        assert_eq!((anchor.id[1], anchor.id[15]), (0xff, 0x0e));
        assert_eq!(anchor.value(b"cwd"), Some(b"/home/a b".as_slice()));
        assert_eq!((anchor.value(b"cw"), anchor.value(b"pid")), (None, None));
        // Without keys, as the first versions wrote it; and cut anywhere.
        let bare = 8 + b"anchor\n/dev/shm/a-0.hlive\n00ff0102030405060708090a0b0c0d0e\n".len();
        assert_eq!(Text::parse(&page[..bare]).expect("an anchor").value(b"cwd"), None);
        for end in 0..bare {
            assert_eq!(Text::parse(&page[..end]), None, "{end}");
        }
        page[15] = b'\n';
        assert_eq!(Text::parse(&page), None);
    }
}
