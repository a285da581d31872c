//! A filter made ready for one ledger: what is cheap to decide comes first.

use std::collections::HashSet;

use regex::{Regex, RegexBuilder};

use super::SyntaxError;
use super::expr::{Expr, Test};
use super::lex::short;
use super::value::Value;
use crate::fields::{Field, Op, Type};

/// Most bytes that a pattern may take when it is ready for use.
const PATTERN_BYTES: usize = 1 << 20;
/// Longest pattern.
const PATTERN_LENGTH: usize = 4096;
/// Most parentheses of a pattern in each other.
const PATTERN_DEPTH: u32 = 64;

/// Makes a pattern ready, or says in a line why not.
pub(crate) fn pattern(text: &str) -> Result<Regex, String> {
    if text.len() > PATTERN_LENGTH {
        return Err(format!("it is longer than {PATTERN_LENGTH} bytes"));
    }
    let built = RegexBuilder::new(text)
        .size_limit(PATTERN_BYTES)
        .dfa_size_limit(PATTERN_BYTES)
        .nest_limit(PATTERN_DEPTH)
        .build();
    built.map_err(|problem| match problem {
        regex::Error::CompiledTooBig(_) => "it would take too much memory".to_owned(),
        problem => {
            let text = problem.to_string();
            let line = text.lines().last().unwrap_or_default().trim();
            short(line.strip_prefix("error: ").unwrap_or(line))
        }
    })
}

/// As [`pattern`], for whoever wants to point at it.
pub(crate) fn checked_pattern(text: &str) -> Result<Regex, SyntaxError> {
    pattern(text).map_err(|why| SyntaxError::new(format!("this is no pattern: {why}"), text, 0..text.len()))
}

/// How a text is compared.
#[derive(Debug)]
pub(crate) enum TextTest {
    OneOf(HashSet<String>),
    Pattern(Regex),
    /// A pattern that cannot be made ready; such a filter was never read from a text.
    Nothing,
}

impl TextTest {
    pub(crate) fn of(test: &Test) -> TextTest {
        if test.op.is_pattern() {
            let Some(Value::Text(text)) = test.values.first() else { return TextTest::Nothing };
            return pattern(text).map_or(TextTest::Nothing, TextTest::Pattern);
        }
        let texts = test.values.iter().filter_map(|value| match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        });
        TextTest::OneOf(texts.collect())
    }

    pub(crate) fn holds(&self, text: &str) -> bool {
        match self {
            TextTest::OneOf(texts) => texts.contains(text),
            TextTest::Pattern(pattern) => pattern.is_match(text),
            TextTest::Nothing => false,
        }
    }
}

/// How a number is compared.
#[derive(Debug)]
pub(crate) enum NumberTest {
    Range(u64, u64),
    /// In order.
    OneOf(Vec<u64>),
    Never,
}

impl NumberTest {
    pub(crate) fn of(op: Op, mut values: Vec<u64>) -> NumberTest {
        values.sort_unstable();
        values.dedup();
        let Some(first) = values.first().copied() else { return NumberTest::Never };
        match op {
            Op::Below => first.checked_sub(1).map_or(NumberTest::Never, |high| NumberTest::Range(0, high)),
            Op::AtMost => NumberTest::Range(0, first),
            Op::Above => first.checked_add(1).map_or(NumberTest::Never, |low| NumberTest::Range(low, u64::MAX)),
            Op::AtLeast => NumberTest::Range(first, u64::MAX),
            _ if values.len() == 1 => NumberTest::Range(first, first),
            _ => NumberTest::OneOf(values),
        }
    }

    #[inline]
    pub(crate) fn holds(&self, number: u64) -> bool {
        match self {
            NumberTest::Range(low, high) => (*low..=*high).contains(&number),
            NumberTest::OneOf(numbers) => numbers.binary_search(&number).is_ok(),
            NumberTest::Never => false,
        }
    }
}

/// A part of a filter, ready. A negation is a [`Condition::Not`] around its positive form, so that what is not known is
/// unequal to everything.
#[derive(Debug)]
pub(crate) enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    /// A figure of the block or event; times are in nanoseconds or, if so said, in ticks.
    Number(Field, NumberTest),
    Ticks(Field, NumberTest),
    Kind(Box<[bool; 256]>),
    /// Rows by number, or else by the names that the test of this index accepts.
    Row(Field, NumberTest, usize),
    /// Numbers in the spans that the test of this index on marks or windows means.
    During(usize),
    /// The test on names of code of this index.
    Named(usize),
}

/// A filter, ready, but for what depends on rows and stacks.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// `None`: all are meant.
    pub(crate) node: Option<Condition>,
    pub(crate) rows: Vec<(Field, TextTest)>,
    pub(crate) moments: Vec<(Field, TextTest)>,
    pub(crate) named: Vec<(Field, TextTest)>,
}

impl Plan {
    pub(crate) fn of(expr: Option<&Expr>) -> Plan {
        let mut plan = Plan::default();
        plan.node = expr.map(|expr| plan.node(expr));
        plan
    }

    fn node(&mut self, expr: &Expr) -> Condition {
        match expr {
            Expr::All(parts) => Condition::All(self.nodes(parts)),
            Expr::Any(parts) => Condition::Any(self.nodes(parts)),
            Expr::Not(part) => Condition::Not(Box::new(self.node(part))),
            Expr::Test(test) => match test.op {
                Op::Unequal | Op::MatchesNot => Condition::Not(Box::new(self.test(test))),
                _ => self.test(test),
            },
        }
    }

    /// The parts, cheap ones first.
    fn nodes(&mut self, parts: &[Expr]) -> Vec<Condition> {
        let mut nodes: Vec<Condition> = parts.iter().map(|part| self.node(part)).collect();
        nodes.sort_by_key(Condition::cost);
        nodes
    }

    fn test(&mut self, test: &Test) -> Condition {
        let numbers = || {
            test.values.iter().filter_map(|value| match value {
                Value::Number(number) | Value::Span(number) => Some(*number),
                _ => None,
            })
        };
        match test.field.kind() {
            Type::Bytes | Type::Address | Type::Count => {
                Condition::Number(test.field, NumberTest::of(test.op, numbers().collect()))
            }
            Type::Time => {
                let ticks = test.values.iter().filter_map(|value| match value {
                    Value::Ticks(ticks) => Some(*ticks),
                    _ => None,
                });
                let ticks: Vec<u64> = ticks.collect();
                let spans = Condition::Number(test.field, NumberTest::of(test.op, numbers().collect()));
                match (ticks.is_empty(), ticks.len() == test.values.len()) {
                    (true, _) => spans,
                    (_, true) => Condition::Ticks(test.field, NumberTest::of(test.op, ticks)),
                    _ => Condition::Any(vec![spans, Condition::Ticks(test.field, NumberTest::of(test.op, ticks))]),
                }
            }
            Type::Kind => {
                let names = TextTest::of(test);
                let mut holds = Box::new([false; 256]);
                for (number, holds) in (0u8..=u8::MAX).zip(holds.iter_mut()) {
                    let named = heapledger_format::Kind(number).name().is_some_and(|name| names.holds(name));
                    *holds = named || numbers().any(|wanted| wanted == u64::from(number));
                }
                Condition::Kind(holds)
            }
            Type::Row | Type::Label => {
                self.rows.push((test.field, TextTest::of(test)));
                Condition::Row(test.field, NumberTest::of(Op::In, numbers().collect()), self.rows.len() - 1)
            }
            Type::Moment => {
                self.moments.push((test.field, TextTest::of(test)));
                Condition::During(self.moments.len() - 1)
            }
            Type::Text | Type::File => {
                self.named.push((test.field, TextTest::of(test)));
                Condition::Named(self.named.len() - 1)
            }
            Type::YesNo | Type::Event => {
                let node = if test.field.is_of_stack() {
                    self.named.push((test.field, TextTest::Nothing));
                    Condition::Named(self.named.len() - 1)
                } else {
                    Condition::Number(test.field, NumberTest::Range(1, 1))
                };
                let yes = |value: &Value| match value {
                    Value::YesNo(yes) => *yes,
                    Value::Text(text) => text == "free",
                    _ => false,
                };
                let wanted: Vec<bool> = test.values.iter().map(yes).collect();
                match (wanted.contains(&true), wanted.contains(&false)) {
                    (true, true) => Condition::All(Vec::new()),
                    (true, false) => node,
                    _ => Condition::Not(Box::new(node)),
                }
            }
        }
    }
}

impl Condition {
    /// How much it takes to decide, roughly.
    fn cost(&self) -> u32 {
        match self {
            Condition::Number(..) | Condition::Ticks(..) | Condition::Kind(_) => 1,
            Condition::Row(..) | Condition::During(_) => 2,
            Condition::Named(_) => 100,
            Condition::Not(part) => part.cost(),
            Condition::All(parts) | Condition::Any(parts) => {
                parts.iter().fold(1, |sum: u32, part| sum.saturating_add(part.cost()))
            }
        }
    }
}
