//! Filters in the classic manner: `size_min=1024`.

use super::expr::{Expr, Filter, Test};
use super::value::{self, Value};
use super::{SyntaxError, nearest};
use crate::fields::{Field, Op};

/// The keys, what they are about, and how they compare.
const KEYS: &[(&str, Field, Op)] = &[
    ("thread", Field::Thread, Op::Equal),
    ("size_min", Field::Size, Op::AtLeast),
    ("size_max", Field::Size, Op::AtMost),
    ("seqno_min", Field::Number, Op::AtLeast),
    ("seqno_max", Field::Number, Op::AtMost),
    ("time_min", Field::Time, Op::AtLeast),
    ("time_max", Field::Time, Op::AtMost),
    ("ptr_min", Field::Address, Op::AtLeast),
    ("ptr_max", Field::Address, Op::AtMost),
];

impl Filter {
    /// Reads `KEY=VALUE`: `thread=6`, `size_min=1024`. A time without a unit is in ticks of the ledger's clock.
    ///
    /// # Errors
    /// If it cannot be understood: what, and where.
    pub fn classic(text: &str) -> Result<Filter, SyntaxError> {
        let keys = || KEYS.iter().map(|(key, ..)| *key);
        let Some((key, given)) = text.split_once('=') else {
            let error = SyntaxError::new("a filter is KEY=VALUE", text, 0..text.len());
            return Err(error.help(format!("keys are {}", keys().collect::<Vec<_>>().join(", "))));
        };
        let Some((_, field, op)) = KEYS.iter().find(|(known, ..)| *known == key.trim()) else {
            let error = SyntaxError::new("unknown key", text, 0..key.len());
            return Err(error.help(match nearest(key.trim(), keys()) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("keys are {}", keys().collect::<Vec<_>>().join(", ")),
            }));
        };
        let given = given.trim();
        let read = match field {
            Field::Thread if given.is_empty() => Err("the thread is missing".to_owned()),
            Field::Thread => Ok(value::number(given).map_or_else(|_| Value::Text(given.to_owned()), Value::Number)),
            Field::Size => value::bytes(given).map(Value::Number),
            Field::Address => value::address(given).map(Value::Number),
            Field::Time => value::number(given).map(Value::Ticks).or_else(|_| value::time(given)),
            _ => value::number(given).map(Value::Number),
        };
        let value = read.map_err(|why| SyntaxError::new(why, text, key.len() + 1..text.len()))?;
        Ok(Expr::Test(Test { field: *field, op: *op, values: vec![value] }).into())
    }
}
