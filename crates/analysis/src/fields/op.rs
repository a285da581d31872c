//! By what fields are compared.

use std::fmt;

/// By what a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `==`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `~`: a part of it matches a pattern.
    Matches,
    /// `!~`
    MatchesNot,
    /// `in (…)`: equal to one of several.
    In,
}

impl Op {
    pub(crate) fn is_order(self) -> bool {
        matches!(self, Op::Below | Op::AtMost | Op::Above | Op::AtLeast)
    }

    pub(crate) fn is_pattern(self) -> bool {
        matches!(self, Op::Matches | Op::MatchesNot)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Equal => "==",
            Op::Unequal => "!=",
            Op::Below => "<",
            Op::AtMost => "<=",
            Op::Above => ">",
            Op::AtLeast => ">=",
            Op::Matches => "~",
            Op::MatchesNot => "!~",
            Op::In => "in",
        })
    }
}
