//! Values that shells propose where any list of them may stand.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command};

/// Takes any text, and proposes these words: a list of them is read, and refused, elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Proposed(fn() -> Vec<&'static str>);

/// Takes any text, and proposes what `words` gives.
pub(crate) fn proposed(words: fn() -> Vec<&'static str>) -> Proposed {
    Proposed(words)
}

impl TypedValueParser for Proposed {
    type Value = String;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}
