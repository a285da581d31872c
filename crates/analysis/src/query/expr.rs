//! Filters as they are understood.

use std::fmt;

use super::value::{Shown, Value};
use crate::fields::{Field, Op};

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// What it is about.
    pub field: Field,
    /// How it is compared.
    pub op: Op,
    /// With what; one value but for [`Op::In`].
    pub values: Vec<Value>,
}

/// Conditions, joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    /// All hold. None of them is such a list again.
    All(Vec<Expr>),
    /// At least one holds. None of them is such a list again.
    Any(Vec<Expr>),
    /// It does not hold.
    Not(Box<Expr>),
    /// One condition.
    Test(Test),
}

impl Expr {
    /// Both hold.
    pub fn and(self, other: Expr) -> Expr {
        match (self, other) {
            (Expr::All(mut all), Expr::All(more)) => {
                all.extend(more);
                Expr::All(all)
            }
            (Expr::All(mut all), other) => {
                all.push(other);
                Expr::All(all)
            }
            (one, Expr::All(mut all)) => {
                all.insert(0, one);
                Expr::All(all)
            }
            (one, other) => Expr::All(vec![one, other]),
        }
    }

    /// One of them holds.
    pub fn or(self, other: Expr) -> Expr {
        match (self, other) {
            (Expr::Any(mut any), Expr::Any(more)) => {
                any.extend(more);
                Expr::Any(any)
            }
            (Expr::Any(mut any), other) => {
                any.push(other);
                Expr::Any(any)
            }
            (one, Expr::Any(mut any)) => {
                any.insert(0, one);
                Expr::Any(any)
            }
            (one, other) => Expr::Any(vec![one, other]),
        }
    }

    /// Calls `each` with every condition.
    pub(crate) fn for_each(&self, each: &mut dyn FnMut(&Test)) {
        match self {
            Expr::All(parts) | Expr::Any(parts) => parts.iter().for_each(|part| part.for_each(each)),
            Expr::Not(part) => part.for_each(each),
            Expr::Test(test) => each(test),
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |f: &mut fmt::Formatter<'_>, parts: &[Expr], word: &str| {
            for (index, part) in parts.iter().enumerate() {
                if index > 0 {
                    write!(f, " {word} ")?;
                }
                match part {
                    Expr::All(_) | Expr::Any(_) => write!(f, "({part})")?,
                    _ => write!(f, "{part}")?,
                }
            }
            Ok(())
        };
        match self {
            Expr::All(parts) => join(f, parts, "and"),
            Expr::Any(parts) => join(f, parts, "or"),
            Expr::Not(part) => match &**part {
                Expr::All(_) | Expr::Any(_) => write!(f, "not ({part})"),
                _ => write!(f, "not {part}"),
            },
            Expr::Test(test) => write!(f, "{test}"),
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.field.kind();
        write!(f, "{} {} ", self.field, self.op)?;
        if self.op == Op::In {
            f.write_str("(")?;
            for (index, value) in self.values.iter().enumerate() {
                write!(f, "{}{}", if index > 0 { ", " } else { "" }, Shown(value, kind))?;
            }
            return f.write_str(")");
        }
        self.values.first().map_or(Ok(()), |value| write!(f, "{}", Shown(value, kind)))
    }
}

/// Which blocks or events are meant. It writes itself as a text that can be read again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// What must hold; `None`: all are meant.
    pub(crate) expr: Option<Expr>,
}

impl Filter {
    /// All of them.
    pub fn all() -> Filter {
        Filter::default()
    }

    /// Those whose `field` is equal to this name.
    pub fn named(field: Field, name: &str) -> Filter {
        Expr::Test(Test { field, op: Op::Equal, values: vec![Value::Text(name.to_owned())] }).into()
    }

    /// Whether all are meant.
    pub fn is_all(&self) -> bool {
        self.expr.is_none()
    }

    /// What must hold; `None` if all are meant.
    pub fn expr(&self) -> Option<&Expr> {
        self.expr.as_ref()
    }

    /// Those that both mean.
    pub fn and(self, other: Filter) -> Filter {
        Filter {
            expr: match (self.expr, other.expr) {
                (Some(one), Some(other)) => Some(one.and(other)),
                (one, other) => one.or(other),
            },
        }
    }

    /// Whether names of code must be found to decide.
    pub fn needs_names(&self) -> bool {
        let mut needs = false;
        if let Some(expr) = &self.expr {
            expr.for_each(&mut |test| needs |= test.field.needs_names());
        }
        needs
    }
}

impl From<Expr> for Filter {
    fn from(expr: Expr) -> Filter {
        Filter { expr: Some(expr) }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.as_ref().map_or(Ok(()), |expr| write!(f, "{expr}"))
    }
}
