//! Words and numbers of ESP-IDF's texts.

/// What stands before and behind a mark in a text.
pub(super) fn around<'t>(text: &'t str, mark: &str) -> Option<(&'t str, &'t str)> {
    text.split_once(mark)
}

/// A number that a text begins with, and the rest; none if it is too large for any target.
pub(super) fn decimal(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest))
}

/// A number that a text ends with.
pub(super) fn decimal_before(text: &str) -> Option<u64> {
    let begin = text.rfind(|letter: char| !letter.is_ascii_digit()).map_or(0, |at| at + 1);
    text.get(begin..)?.parse().ok()
}

/// A number in hexadecimal digits behind `0x`, and the rest.
pub(super) fn hex(text: &str) -> Option<(u64, &str)> {
    let text = text.strip_prefix("0x")?;
    let (mut number, mut digits) = (0u64, 0);
    // There are a dozen in each line of a dump.
    while let Some(digit) = text.as_bytes().get(digits).and_then(|letter| char::from(*letter).to_digit(16)) {
        if number >> 60 != 0 {
            return None;
        }
        (number, digits) = (number << 4 | u64::from(digit), digits + 1);
    }
    (digits != 0).then_some((number, text.get(digits..)?))
}

/// Return addresses with colons between, innermost first, and the rest. The list ends at the first zero.
pub(super) fn frames(text: &str) -> (Vec<u64>, &str) {
    let (mut frames, mut rest) = (Vec::new(), text);
    let mut ended = false;
    while let Some((frame, behind)) = hex(rest) {
        ended |= frame == 0;
        if !ended {
            frames.push(frame);
        }
        rest = behind;
        match behind.strip_prefix(':') {
            // Fewer frames than there is room for: the last colon has nothing behind it. A decoder's line has a blank there.
            Some(more) => rest = more,
            None => break,
        }
    }
    (frames, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_end_at_a_zero_and_a_last_colon_says_nothing() {
        assert_eq!(frames("0x40376321:0x40376379"), (vec![0x4037_6321, 0x4037_6379], ""));
        assert_eq!(frames("0x40376321: freed"), (vec![0x4037_6321], " freed"));
        assert_eq!(frames("0x40376321:0x0:0x5"), (vec![0x4037_6321], ""));
        assert_eq!(frames("0x00000000"), (vec![], ""));
        assert_eq!(frames("x"), (vec![], "x"));
        assert_eq!(hex("0x"), None);
        assert_eq!(hex("0x1FfFffffFffffffff"), None);
        assert_eq!(hex("0xfFfFffffFffffffF\u{e9}"), Some((u64::MAX, "\u{e9}")));
        assert_eq!(hex("0x000000000000000000001g"), Some((1, "g")));
        assert_eq!(decimal("99999999999999999999 x"), None);
        assert_eq!(decimal_before("I (12)   6"), Some(6));
    }
}
