//! What a person wants to see of each record: a text with conversions, as `%p : %a %n bytes`.
//!
//! A format is taken apart once and held against what the ledger has. A record then costs what is written.

use std::fmt;

use heapledger_analysis::fields::Field;
use heapledger_format::record::Options;
use heapledger_source::Ledger;

use crate::form::units::clean;

/// The conversions that are no fields, and what they write.
const OTHERS: [(&str, &str); 7] = [
    ("%h", "the thread's handle"),
    ("%N", "the thread's name"),
    ("%b1", "return address of level 1, %b2 …"),
    ("%f1", "function of level 1"),
    ("%w1", "its file:line"),
    ("%l1", "its source line"),
    ("%%", "a percent sign; \\n \\t \\\\ \\\" as in C"),
];

/// All conversions, and what they write.
fn all() -> Vec<(String, &'static str)> {
    let fields = Field::conversions().map(|(_, (letter, written))| (format!("%{letter}"), written));
    fields.chain(OTHERS.map(|(conversion, written)| (conversion.to_owned(), written))).collect()
}

/// What the conversions are, for `--help`: two columns.
pub fn conversions() -> String {
    let all: Vec<String> = all().iter().map(|(conversion, written)| format!("{conversion:<4}{written}")).collect();
    let (left, right) = all.split_at(all.len().div_ceil(2));
    let mut right = right.iter();
    let lines = left.iter().map(|left| format!("  {left:<33}{}", right.next().map_or("", String::as_str)));
    lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// A format, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    text: String,
    pub(crate) parts: Vec<FormatPart>,
}

/// A part of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FormatPart {
    Text(String),
    /// And where it stands in the text.
    Conversion(Conversion, TextSpan),
}

/// Where something stands in a text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextSpan {
    at: usize,
    length: usize,
}

/// What a conversion stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    Of(Field),
    Handle,
    ThreadName,
    /// Levels count from 1.
    Level(OfLevel, u32),
}

/// What is wanted of a level of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfLevel {
    Address,
    Function,
    Place,
    Source,
}

/// Why a format cannot be used, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError {
    reason: String,
    excerpt: String,
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.reason, self.excerpt)
    }
}

impl std::error::Error for FormatError {}

/// What a ledger has to say of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// What is recorded.
    pub options: Options,
    /// Most levels of a stack; 0 if that is not known.
    pub depth_limit: u32,
}

impl Abilities {
    /// Those of `ledger`.
    pub fn of(ledger: &Ledger) -> Abilities {
        let header = ledger.header();
        Abilities { options: header.options, depth_limit: u32::from(header.depth_limit) }
    }

    /// Why a conversion cannot be served.
    fn refuse(self, conversion: Conversion) -> Option<String> {
        let field = match conversion {
            Conversion::Of(field) => field,
            Conversion::Handle | Conversion::ThreadName => Field::Thread,
            Conversion::Level(..) => Field::Stack,
        };
        if let Some((_, what, _)) = field.needs().iter().find(|(option, ..)| !self.options.has(*option)) {
            return Some(format!("{what} are not recorded in this ledger"));
        }
        match conversion {
            Conversion::Level(_, level) if self.depth_limit != 0 && level > self.depth_limit => {
                let levels = if self.depth_limit == 1 { "level" } else { "levels" };
                Some(format!("this ledger has stacks of {} {levels} at most", self.depth_limit))
            }
            _ => None,
        }
    }
}

impl Format {
    /// Takes `text` apart.
    ///
    /// # Errors
    /// If there is a conversion that means nothing: where, and what there is instead.
    pub fn parse(text: &str) -> Result<Format, FormatError> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(special) = rest.find(['%', '\\']) {
            let at = text.len() - rest.len() + special;
            plain.push_str(rest.get(..special).unwrap_or_default());
            rest = rest.get(special + 1..).unwrap_or_default();
            let letter = rest.chars().next();
            let behind = letter.map_or(0, char::len_utf8);
            if text.as_bytes().get(at) == Some(&b'\\') {
                match letter {
                    Some('n') => plain.push('\n'),
                    Some('t') => plain.push('\t'),
                    Some(literal @ ('\\' | '"')) => plain.push(literal),
                    // No escape: it is passed on as it is, and what follows may be a conversion.
                    _ => {
                        plain.push('\\');
                        continue;
                    }
                }
            } else if letter == Some('%') {
                plain.push('%');
            } else {
                let digits = rest.get(behind..).map_or(0, |more| more.bytes().take_while(u8::is_ascii_digit).count());
                let digits = rest.get(behind..behind + digits).unwrap_or_default();
                let (field, used) = conversion(letter, digits)
                    .map_err(|(reason, used)| error(text, reason, TextSpan { at, length: 1 + behind + used }))?;
                if !plain.is_empty() {
                    parts.push(FormatPart::Text(std::mem::take(&mut plain)));
                }
                parts.push(FormatPart::Conversion(field, TextSpan { at, length: 1 + behind + used }));
                rest = rest.get(used..).unwrap_or_default();
            }
            rest = rest.get(behind..).unwrap_or_default();
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(FormatPart::Text(plain));
        }
        Ok(Format { text: text.to_owned(), parts })
    }

    /// Whether a ledger that has `abilities` can serve it.
    ///
    /// # Errors
    /// If not: the first conversion that it cannot serve, and the reason.
    pub fn check(&self, abilities: Abilities) -> Result<(), FormatError> {
        for part in &self.parts {
            if let FormatPart::Conversion(field, place) = part
                && let Some(reason) = abilities.refuse(*field)
            {
                return Err(error(&self.text, reason, *place));
            }
        }
        Ok(())
    }

    /// Whether functions and lines must be looked up for it.
    pub fn needs_names(&self) -> bool {
        self.any(|field| matches!(field, Conversion::Level(of, _) if of != OfLevel::Address))
    }

    /// Whether source files must be read for it.
    pub fn needs_source_text(&self) -> bool {
        self.any(|field| matches!(field, Conversion::Level(OfLevel::Source, _)))
    }

    /// Whether it says anything of the stack.
    pub(crate) fn needs_stack(&self) -> bool {
        self.any(|field| matches!(field, Conversion::Level(..)))
    }

    fn any(&self, wanted: impl Fn(Conversion) -> bool) -> bool {
        self.parts.iter().any(|part| matches!(part, FormatPart::Conversion(field, _) if wanted(*field)))
    }
}

/// What a letter and the digits behind it stand for, and how many of the digits belong to it.
fn conversion(letter: Option<char>, digits: &str) -> Result<(Conversion, usize), (String, usize)> {
    let field = match letter {
        Some('h') => Conversion::Handle,
        Some('N') => Conversion::ThreadName,
        Some(letter @ ('b' | 'f' | 'w' | 'l')) => {
            let of = match letter {
                'b' => OfLevel::Address,
                'f' => OfLevel::Function,
                'w' => OfLevel::Place,
                _ => OfLevel::Source,
            };
            return match digits.parse::<u32>() {
                Ok(level) if level > 0 => Ok((Conversion::Level(of, level), digits.len())),
                Ok(_) => Err(("levels count from 1, the innermost".to_owned(), digits.len())),
                Err(_) if digits.is_empty() => {
                    Err((format!("%{letter} needs a level, as in %{letter}1 for the innermost"), 0))
                }
                Err(_) => Err(("no stack has so many levels".to_owned(), digits.len())),
            };
        }
        Some(letter) if let Some((field, _)) = Field::conversions().find(|(_, (known, _))| *known == letter) => {
            Conversion::Of(field)
        }
        None => return Err(("a single % ends the format; write %% for a percent sign".to_owned(), 0)),
        Some(other) => {
            let known = all().into_iter().map(|(conversion, _)| conversion).collect::<Vec<_>>().join(" ");
            return Err((format!("%{} is no conversion; there are {known}", clean(&other.to_string())), 0));
        }
    };
    Ok((field, 0))
}

/// Letters of a text that are shown on each side of the place in question.
const AROUND: usize = 32;

fn error(text: &str, reason: String, place: TextSpan) -> FormatError {
    let (before, rest) = text.split_at_checked(place.at).unwrap_or((text, ""));
    let (itself, after) = rest.split_at_checked(place.length).unwrap_or((rest, ""));
    // As wide as it was, and no letter that could steer a terminal.
    let plain = |letters: &mut dyn Iterator<Item = char>| -> String {
        letters.map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
    };
    let count = before.chars().count();
    let mut shown = if count > AROUND { "…".to_owned() } else { String::new() };
    shown += &plain(&mut before.chars().skip(count.saturating_sub(AROUND)));
    let column = shown.chars().count();
    // A level of a million digits is a place too.
    let itself = plain(&mut itself.chars().take(2 * AROUND));
    let carets = "^".repeat(itself.chars().count().max(1));
    shown += &itself;
    shown += &plain(&mut after.chars().take(AROUND));
    if after.chars().nth(AROUND).is_some() {
        shown.push('…');
    }
    FormatError { reason, excerpt: format!("  {shown}\n  {:column$}{carets}", "") }
}

#[cfg(test)]
mod tests;
