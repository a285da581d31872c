//! How much of the stack is taken of a call that ends a block.
//!
//! Values of [`Key::FreeDepth`](crate::session::Key::FreeDepth), and of [`process::FREE_DEPTH`](crate::session::process::FREE_DEPTH): `1`, a
//! number of frames; `whole`; `whole/N`, of one such call in N the whole, of the others the caller alone.

use crate::session::DEPTH_LIMIT_MAX;

/// What is taken of a call that ends a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeDepth {
    /// Frames of it, unless it is whole.
    frames: u32,
    /// Of one in so many it is whole. 0: of none.
    whole_in: u32,
}

/// The name of a whole stack.
const WHOLE: &[u8] = b"whole";

impl Default for FreeDepth {
    fn default() -> Self {
        FreeDepth::CALLER
    }
}

impl FreeDepth {
    /// The caller alone: what is taken unless told otherwise.
    pub const CALLER: FreeDepth = FreeDepth { frames: 1, whole_in: 0 };
    /// All of it.
    pub const WHOLE: FreeDepth = FreeDepth { frames: 1, whole_in: 1 };

    /// So many frames, at most [`DEPTH_LIMIT_MAX`]; 0: none.
    pub const fn of(frames: u32) -> FreeDepth {
        let frames = if frames as u64 > DEPTH_LIMIT_MAX { DEPTH_LIMIT_MAX as u32 } else { frames };
        FreeDepth { frames, whole_in: 0 }
    }

    /// All of it of one call in so many, the caller alone of the others. 0: as [`FreeDepth::CALLER`].
    pub const fn whole_in(calls: u32) -> FreeDepth {
        FreeDepth { frames: 1, whole_in: calls }
    }

    /// `3`, `whole` or `whole/16`. `None` if it is something else.
    pub fn parse(text: &[u8]) -> Option<FreeDepth> {
        let number = |digits: &[u8]| -> Option<u32> {
            let digits = core::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_digit))?;
            digits.parse().ok()
        };
        match text.strip_prefix(WHOLE) {
            Some(b"") => Some(FreeDepth::WHOLE),
            Some(rest) => number(rest.strip_prefix(b"/")?).filter(|calls| *calls != 0).map(FreeDepth::whole_in),
            None => number(text).filter(|frames| u64::from(*frames) <= DEPTH_LIMIT_MAX).map(FreeDepth::of),
        }
    }

    /// As one number: frames in the lower half, one in so many whole in the upper.
    #[inline(always)]
    pub const fn word(self) -> u64 {
        (self.whole_in as u64) << 32 | self.frames as u64
    }

    /// Undoes [`FreeDepth::word`]. `None`: no such depth.
    pub const fn of_word(word: u64) -> Option<FreeDepth> {
        let depth = FreeDepth { frames: word as u32, whole_in: (word >> 32) as u32 };
        if word as u32 as u64 <= DEPTH_LIMIT_MAX { Some(depth) } else { None }
    }

    /// Hands out the pieces of what [`FreeDepth::parse`] reads: a text, and a number behind it.
    pub const fn parts(self) -> (&'static str, Option<u32>) {
        match self {
            FreeDepth { whole_in: 0, frames } => ("", Some(frames)),
            FreeDepth { whole_in: 1, .. } => ("whole", None),
            FreeDepth { whole_in, .. } => ("whole/", Some(whole_in)),
        }
    }

    /// Whether each stack is taken as a whole.
    #[inline(always)]
    pub const fn is_whole(self) -> bool {
        self.whole_in == 1
    }

    /// How many frames a stack has that is not taken as a whole.
    #[inline(always)]
    pub const fn frames(self) -> u32 {
        self.frames
    }

    /// One call in so many has a whole stack; `None`: none has, but by [`FreeDepth::is_whole`].
    #[inline(always)]
    pub const fn one_in(self) -> Option<u32> {
        if self.whole_in > 1 { Some(self.whole_in) } else { None }
    }

    /// Whether a stack of so many frames may have been cut: callers of its outermost frame are not known.
    pub const fn may_cut(self, frames: usize) -> bool {
        !self.is_whole() && frames as u64 <= self.frames as u64
    }
}

impl core::fmt::Display for FreeDepth {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (text, number) = self.parts();
        f.write_str(text)?;
        number.map_or(Ok(()), |number| write!(f, "{number}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn what_is_written_is_read_again() {
        for text in ["0", "1", "2", "4096", "whole", "whole/2", "whole/4294967295"] {
            let depth = FreeDepth::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(depth.to_string(), text);
        }
        assert_eq!(FreeDepth::parse(b"whole/1"), Some(FreeDepth::WHOLE));
        assert_eq!(FreeDepth::parse(b"1"), Some(FreeDepth::default()));
        for text in ["", "4097", "-1", "+1", "1/2", "whole/", "whole/0", "whole/4294967296", "whole2", "all", " 1"] {
            assert_eq!(FreeDepth::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_stack_that_is_longer_than_what_is_taken_is_whole() {
        let cut = |depth: FreeDepth, frames| depth.may_cut(frames);
        for depth in
            [FreeDepth::CALLER, FreeDepth::WHOLE, FreeDepth::of(0), FreeDepth::of(4096), FreeDepth::whole_in(7)]
        {
            assert_eq!(FreeDepth::of_word(depth.word()), Some(depth));
        }
        assert_eq!(FreeDepth::of_word(4097), None);
        assert!(cut(FreeDepth::CALLER, 1) && !cut(FreeDepth::CALLER, 2));
        assert!(cut(FreeDepth::of(0), 0) && !cut(FreeDepth::of(0), 1));
        assert!(cut(FreeDepth::whole_in(7), 1) && !cut(FreeDepth::whole_in(7), 2));
        assert!(!cut(FreeDepth::WHOLE, 1) && !cut(FreeDepth::whole_in(1), 0));
    }
}
