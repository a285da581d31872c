//! A text as words, numbers, signs.

use std::ops::Range;

use super::SyntaxError;
use crate::fields::Op;

/// What a text consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A name: of a field, of a function, of a thread.
    Word(String),
    /// Something that begins with a digit: `4K`, `0x7f12`, `1.5s`.
    Number(String),
    /// Something in quotes.
    Text(String),
    Op(Op),
    And,
    Or,
    Not,
    In,
    Open,
    Close,
    Comma,
    End,
}

impl Token {
    /// What it is called in an error.
    pub(crate) fn shown(&self) -> String {
        match self {
            Token::Word(word) | Token::Number(word) => format!("'{}'", short(word)),
            Token::Text(text) => format!("\"{}\"", short(text)),
            Token::Op(op) => format!("'{op}'"),
            Token::And => "'and'".to_owned(),
            Token::Or => "'or'".to_owned(),
            Token::Not => "'not'".to_owned(),
            Token::In => "'in'".to_owned(),
            Token::Open => "'('".to_owned(),
            Token::Close => "')'".to_owned(),
            Token::Comma => "','".to_owned(),
            Token::End => "the end".to_owned(),
        }
    }
}

/// A text of which an error shows only the beginning.
pub(crate) fn short(text: &str) -> String {
    const LETTERS: usize = 40;
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    let mut short: String = text.chars().take(LETTERS).map(plain).collect();
    if text.chars().nth(LETTERS).is_some() {
        short.push('…');
    }
    short
}

/// Goes through a text.
pub(crate) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

/// Letters of a word besides letters and digits, so that most names need no quotes: `std::vector`, `worker-3`, `new[]`,
/// `/usr/lib/libc.so.6`.
fn goes_on(letter: char) -> bool {
    letter.is_alphanumeric() || "_.:/-+[]@$%*".contains(letter)
}

fn begins(letter: char) -> bool {
    letter.is_alphabetic() || "_./".contains(letter)
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t str) -> Lexer<'t> {
        Lexer { text, at: 0 }
    }

    /// The next token, and where it stands.
    pub(crate) fn next(&mut self) -> Result<(Token, Range<usize>), SyntaxError> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        let (start, rest) = (self.at, rest.trim_start());
        let Some(letter) = rest.chars().next() else { return Ok((Token::End, start..start)) };
        let token = if letter == '"' || letter == '\'' {
            Token::Text(self.quoted(letter)?)
        } else if letter.is_ascii_digit() {
            Token::Number(self.while_(goes_on).to_owned())
        } else if begins(letter) {
            let word = self.while_(goes_on);
            match word.to_ascii_lowercase().as_str() {
                "and" => Token::And,
                "or" => Token::Or,
                "not" => Token::Not,
                "in" => Token::In,
                _ => Token::Word(word.to_owned()),
            }
        } else {
            self.sign(letter)?
        };
        Ok((token, start..self.at))
    }

    fn while_(&mut self, holds: impl Fn(char) -> bool) -> &'t str {
        let rest = &self.text[self.at..];
        let end = rest.find(|letter| !holds(letter)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// A backslash before a quote or a backslash is taken away. Others stay: patterns are full of them.
    fn quoted(&mut self, quote: char) -> Result<String, SyntaxError> {
        let start = self.at;
        let mut text = String::new();
        let mut letters = self.text[start..].char_indices().skip(1).peekable();
        while let Some((at, letter)) = letters.next() {
            match (letter, letters.peek()) {
                ('\\', Some((_, next))) if "\\\"'".contains(*next) => {
                    text.push(*next);
                    letters.next();
                }
                (letter, _) if letter == quote => {
                    self.at = start + at + letter.len_utf8();
                    return Ok(text);
                }
                (letter, _) => text.push(letter),
            }
        }
        let error = SyntaxError::new("these quotes are not closed", self.text, start..self.text.len());
        Err(error.help(format!("expected {quote} at the end")))
    }

    fn sign(&mut self, letter: char) -> Result<Token, SyntaxError> {
        const SIGNS: &[(&str, Token)] = &[
            ("==", Token::Op(Op::Equal)),
            ("!=", Token::Op(Op::Unequal)),
            ("<>", Token::Op(Op::Unequal)),
            ("<=", Token::Op(Op::AtMost)),
            (">=", Token::Op(Op::AtLeast)),
            ("=~", Token::Op(Op::Matches)),
            ("!~", Token::Op(Op::MatchesNot)),
            ("&&", Token::And),
            ("||", Token::Or),
            ("=", Token::Op(Op::Equal)),
            ("<", Token::Op(Op::Below)),
            (">", Token::Op(Op::Above)),
            ("~", Token::Op(Op::Matches)),
            ("!", Token::Not),
            ("(", Token::Open),
            (")", Token::Close),
            (",", Token::Comma),
        ];
        let rest = &self.text[self.at..];
        for (sign, token) in SIGNS {
            if rest.starts_with(sign) {
                self.at += sign.len();
                return Ok(token.clone());
            }
        }
        let place = self.at..self.at + letter.len_utf8();
        Err(SyntaxError::new(format!("'{}' means nothing here", letter.escape_default()), self.text, place)
            .help("names with other letters than A-Z 0-9 _ . : / - stand in quotes"))
    }
}
