//! From a text to conditions.
//!
//! ```text
//! filter    = any
//! any       = all { "or" all }
//! all       = part { "and" part }
//! part      = "not" part | "(" any ")" | condition
//! condition = field [ comparison value | [ "not" ] "in" "(" value { "," value } ")" ]
//! ```

use std::ops::Range;

use super::expr::{Expr, Filter, Test};
use super::lex::{Lexer, Token, short};
use super::value::{self, Value};
use super::{SyntaxError, nearest, plan};
use crate::fields::{CONDITIONS, Field, Op, Type};

/// Longest text.
pub(crate) const TEXT_MAX: usize = 1 << 20;
/// Most parentheses and `not`s in each other.
pub(crate) const DEPTH_MAX: usize = 64;
/// Most conditions.
pub(crate) const TESTS_MAX: usize = 256;
/// Most conditions on names of code.
pub(crate) const NAMED_MAX: usize = 64;

impl Filter {
    /// Reads `size >= 4K and thread == "worker-3"`.
    ///
    /// # Errors
    /// If it cannot be understood: what, and where.
    pub fn parse(text: &str) -> Result<Filter, SyntaxError> {
        if text.len() > TEXT_MAX {
            let what = format!("the condition is too long: {} bytes; {TEXT_MAX} are the most", text.len());
            return Err(SyntaxError::new(what, text, 0..1));
        }
        let mut parser = Parser::new(text)?;
        let expr = parser.any(0)?;
        match parser.token {
            Token::End => Ok(Filter { expr: Some(expr) }),
            Token::Close => Err(parser.error("this ')' was never opened")),
            _ => Err(parser.unexpected("'and', 'or' or the end")),
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    lexer: Lexer<'t>,
    token: Token,
    place: Range<usize>,
    tests: usize,
    named: usize,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Result<Parser<'t>, SyntaxError> {
        let mut lexer = Lexer::new(text);
        let (token, place) = lexer.next()?;
        Ok(Parser { text, lexer, token, place, tests: 0, named: 0 })
    }

    /// Goes on, and gives what was there.
    fn take(&mut self) -> Result<(Token, Range<usize>), SyntaxError> {
        let (token, place) = self.lexer.next()?;
        Ok((std::mem::replace(&mut self.token, token), std::mem::replace(&mut self.place, place)))
    }

    fn error(&self, what: impl Into<String>) -> SyntaxError {
        SyntaxError::new(what, self.text, self.place.clone())
    }

    fn unexpected(&self, expected: &str) -> SyntaxError {
        let what = match &self.token {
            Token::End if self.text.trim().is_empty() => "the condition is empty".to_owned(),
            Token::End => "the condition ends too early".to_owned(),
            token => format!("unexpected {}", token.shown()),
        };
        self.error(what).help(format!("expected {expected}"))
    }

    fn any(&mut self, depth: usize) -> Result<Expr, SyntaxError> {
        let mut expr = self.all(depth)?;
        while self.token == Token::Or {
            self.take()?;
            expr = expr.or(self.all(depth)?);
        }
        Ok(expr)
    }

    fn all(&mut self, depth: usize) -> Result<Expr, SyntaxError> {
        let mut expr = self.part(depth)?;
        while self.token == Token::And {
            self.take()?;
            expr = expr.and(self.part(depth)?);
        }
        Ok(expr)
    }

    fn part(&mut self, depth: usize) -> Result<Expr, SyntaxError> {
        if depth > DEPTH_MAX {
            return Err(self.error(format!("more than {DEPTH_MAX} parentheses and 'not's in each other")));
        }
        match &self.token {
            Token::Not => {
                self.take()?;
                Ok(Expr::Not(Box::new(self.part(depth + 1)?)))
            }
            Token::Open => {
                let (_, opened) = self.take()?;
                let expr = self.any(depth + 1)?;
                match self.token {
                    Token::Close => {
                        self.take()?;
                        Ok(expr)
                    }
                    Token::End => {
                        let error = SyntaxError::new("this '(' is never closed", self.text, opened);
                        Err(error.help("expected ')' at the end"))
                    }
                    _ => Err(self.unexpected("'and', 'or' or ')'")),
                }
            }
            Token::Word(_) => self.condition(),
            _ => Err(self.unexpected("a field, 'not' or '('")),
        }
    }

    fn condition(&mut self) -> Result<Expr, SyntaxError> {
        let (token, place) = self.take()?;
        let Token::Word(name) = token else { return Err(self.unexpected("a field")) };
        let Some(field) = Field::of(&name) else { return Err(self.unknown_field(&name, place)) };
        self.tests += 1;
        self.named += usize::from(field.needs_names());
        if self.tests > TESTS_MAX || self.named > NAMED_MAX {
            let what = format!("too many conditions: {TESTS_MAX} are the most, {NAMED_MAX} of them on names of code");
            let error = SyntaxError::new(what, self.text, place);
            return Err(error.help("several values of one field are one condition: number in (1, 2, 3)"));
        }
        match &self.token {
            Token::Op(op) => {
                let op = *op;
                self.check(field, op)?;
                self.take()?;
                let value = self.value(field, op)?;
                Ok(Expr::Test(Test { field, op, values: vec![value] }))
            }
            Token::In => {
                self.check(field, Op::In)?;
                self.take()?;
                self.one_of(field)
            }
            Token::Not => {
                self.take()?;
                if self.token != Token::In {
                    return Err(self.unexpected("'in'"));
                }
                self.check(field, Op::In)?;
                self.take()?;
                Ok(Expr::Not(Box::new(self.one_of(field)?)))
            }
            _ if field.kind() == Type::YesNo => {
                Ok(Expr::Test(Test { field, op: Op::Equal, values: vec![Value::YesNo(true)] }))
            }
            _ => Err(self.unexpected(comparisons(field))),
        }
    }

    fn check(&self, field: Field, op: Op) -> Result<(), SyntaxError> {
        let kind = field.kind();
        let fits = match op {
            _ if op.is_order() => kind.is_ordered(),
            _ if op.is_pattern() => kind.is_text(),
            Op::In => kind != Type::YesNo,
            _ => true,
        };
        if fits {
            return Ok(());
        }
        let error = self.error(format!("'{field}' cannot be compared with '{op}'"));
        Err(error.help(format!("expected {}", comparisons(field))))
    }

    fn unknown_field(&self, name: &str, place: Range<usize>) -> SyntaxError {
        let names = || CONDITIONS.iter().flat_map(|(_, names)| names.iter().copied());
        let help = match (nearest(name, names()), name) {
            (_, "line") => "write file == \"parse.c:120\"".to_owned(),
            (_, "comm" | "task" | "tid") => "did you mean 'thread'?".to_owned(),
            (Some(near), _) => format!("did you mean '{near}'?"),
            (None, _) => {
                let all: Vec<&str> = Field::conditions().collect();
                format!("fields are {}", all.join(", "))
            }
        };
        SyntaxError::new(format!("unknown field '{}'", short(name)), self.text, place).help(help)
    }

    fn one_of(&mut self, field: Field) -> Result<Expr, SyntaxError> {
        if self.token != Token::Open {
            return Err(self.unexpected("'(' and a list of values"));
        }
        let (_, opened) = self.take()?;
        let mut values = vec![self.value(field, Op::In)?];
        loop {
            match self.token {
                Token::Comma => {
                    self.take()?;
                    values.push(self.value(field, Op::In)?);
                }
                Token::Close => {
                    self.take()?;
                    return Ok(Expr::Test(Test { field, op: Op::In, values }));
                }
                Token::End => {
                    let error = SyntaxError::new("this '(' is never closed", self.text, opened);
                    return Err(error.help("expected ')' at the end"));
                }
                _ => return Err(self.unexpected("',' or ')'")),
            }
        }
    }

    fn value(&mut self, field: Field, op: Op) -> Result<Value, SyntaxError> {
        let kind = field.kind();
        let (token, place) = match &self.token {
            Token::Word(_) | Token::Number(_) | Token::Text(_) => self.take()?,
            _ => return Err(self.unexpected(wanted(kind, op))),
        };
        // What ends a word that was meant to go on: `keep(int)`, `std::map<int>::at`.
        let cut = place.end == self.place.start && matches!(self.token, Token::Open | Token::Op(_));
        if let (Token::Word(_), true, true) = (&token, cut, kind.is_text()) {
            let rest = self.text.get(place.start..).unwrap_or_default();
            let length = name_length(rest);
            let name = rest.get(..length).unwrap_or_default();
            let error = SyntaxError::new("this name needs quotes", self.text, place.start..place.start + length);
            let quote = if name.contains('"') { '\'' } else { '"' };
            let before = if op == Op::In { String::new() } else { format!("{field} {op} ") };
            return Err(error.help(format!("put it in quotes: {before}{quote}{}{quote}", short(name))));
        }
        let wrong = |what: String| SyntaxError::new(what, self.text, place.clone());
        let no = |what: String| {
            let error = wrong(format!("'{}' is not what '{field}' is compared with", short(&what)));
            error.help(format!("expected {}", wanted(kind, op)))
        };
        if op.is_pattern() {
            let (Token::Word(text) | Token::Number(text) | Token::Text(text)) = token else {
                return Err(no(String::new()));
            };
            plan::pattern(&text).map_err(|why| wrong(format!("this is no pattern: {why}")))?;
            return Ok(Value::Text(text));
        }
        match (kind, token) {
            (Type::Bytes, Token::Number(text)) => value::bytes(&text).map(Value::Number).map_err(wrong),
            (Type::Address, Token::Number(text)) => value::address(&text).map(Value::Number).map_err(wrong),
            (Type::Count, Token::Number(text)) => value::number(&text).map(Value::Number).map_err(wrong),
            (Type::Time, Token::Number(text)) => value::time(&text).map_err(wrong),
            (Type::Row | Type::Kind, Token::Number(text)) => value::number(&text)
                .map(Value::Number)
                .map_err(|why| wrong(why).help("names that begin with a digit stand in quotes")),
            (Type::Kind, Token::Word(text) | Token::Text(text)) => value::kind(&text).map(Value::Text).map_err(wrong),
            (Type::Row, Token::Word(text) | Token::Text(text)) => Ok(Value::Text(text)),
            (Type::Moment, Token::Word(text) | Token::Text(text)) => Ok(Value::Text(text)),
            (Type::Text | Type::File | Type::Label, Token::Word(text) | Token::Text(text) | Token::Number(text)) => {
                Ok(Value::Text(text))
            }
            (Type::Event, Token::Word(text) | Token::Text(text)) => match text.to_ascii_lowercase().as_str() {
                "allocation" | "alloc" => Ok(Value::Text("allocation".to_owned())),
                "free" => Ok(Value::Text("free".to_owned())),
                _ => Err(no(text)),
            },
            (Type::YesNo, Token::Word(text) | Token::Text(text)) => match text.to_ascii_lowercase().as_str() {
                "yes" | "true" => Ok(Value::YesNo(true)),
                "no" | "false" => Ok(Value::YesNo(false)),
                _ => Err(no(text)),
            },
            (_, Token::Word(text) | Token::Text(text) | Token::Number(text)) => Err(no(text)),
            (_, token) => Err(no(token.shown())),
        }
    }
}

/// How long a name is that was not put in quotes: to the next space or comma that is in no parentheses.
fn name_length(rest: &str) -> usize {
    let mut depth = 0usize;
    for (at, letter) in rest.char_indices() {
        match letter {
            '(' | '<' => depth += 1,
            ')' | '>' if depth == 0 => return at,
            ')' | '>' => depth -= 1,
            letter if (letter.is_whitespace() || letter == ',') && depth == 0 => return at,
            _ => {}
        }
    }
    rest.trim_end().len()
}

/// What can stand behind a field.
fn comparisons(field: Field) -> &'static str {
    match field.kind() {
        kind if kind.is_ordered() => "== != < <= > >= or in (…)",
        Type::YesNo => "nothing, or == yes, == no",
        Type::Event => "==, != or in (…)",
        _ => "== != ~ !~ or in (…)",
    }
}

/// What a field is compared with.
fn wanted(kind: Type, op: Op) -> &'static str {
    match kind {
        _ if op.is_pattern() => "a pattern in quotes, such as \"^parse_\"",
        Type::Bytes => "a size such as 4096, 4K, 1.5M",
        Type::Address => "an address such as 0x7f1200000010",
        Type::Count => "a number",
        Type::Time => "a time such as 10s, 250ms, 2h",
        Type::Row => "a row's number, or a name in quotes",
        Type::Kind => "a function of the malloc family such as malloc, calloc, new[]",
        Type::Text | Type::Moment => "a name, in quotes if need be",
        Type::Label => "a label in quotes, such as \"route=/x\", or what stands behind a key",
        Type::File => "a file such as \"parse.c\", or \"parse.c:120\"",
        Type::YesNo => "yes or no",
        Type::Event => "allocation or free",
    }
}
