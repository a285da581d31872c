//! Whose block an error of a forked process is about: a parent's, which its ledger does not have.

use std::io::{self, Write};

use heapledger_analysis::{NamedFrame, NamedStack};
use heapledger_format::Kind;
use serde::Serialize;

use crate::Context;
use crate::form::json::{Hex, frames};
use crate::form::units::{clean, plain_bytes};
use crate::record::frames::stack;

/// Whose block an error of a forked process is about that is none of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorOrigin {
    /// An ancestor's.
    Of(Box<OriginBlock>),
    /// The ledgers do not tell.
    Unknown,
    /// No ancestor had a block there.
    Nobodys,
}

/// A process that an error is told with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginProcess {
    /// What its program is called.
    pub program: String,
    /// Its number.
    pub pid: u32,
    /// The file of its ledger.
    pub ledger: String,
}

/// An ancestor's block, with the stacks of its ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginBlock {
    /// Whose it is.
    pub process: OriginProcess,
    /// Its number there, if its ledger tells of it.
    pub number: Option<u64>,
    /// Where it lies.
    pub address: u64,
    /// Bytes asked for, if they are known.
    pub size: Option<u64>,
    /// The function that gave it.
    pub kind: Kind,
    /// The stack of that call.
    pub allocated: NamedStack,
    /// Who had freed it before.
    pub freed: Option<OriginFree>,
    /// Whether no other block can be meant.
    pub is_certain: bool,
}

/// How a block had been freed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginFree {
    /// By which ancestor, before the fork; `None`: by the process that the error is of.
    pub process: Option<OriginProcess>,
    /// The function, and the number of its call there, if a ledger tells of it.
    pub by: Option<(Kind, u64)>,
    /// The stack of the call.
    pub stack: NamedStack,
}

impl OriginBlock {
    /// The stacks of its ancestor, as text; and that of the process's own free, unless that stands there already.
    pub(super) fn stacks(&self, out: &mut dyn Write, context: &Context, is_free_told: bool) -> io::Result<()> {
        writeln!(out, "allocated by {}", self.process.name())?;
        stack(out, &self.allocated, context.paint)?;
        match &self.freed {
            Some(OriginFree { process: Some(process), stack: by, .. }) => {
                writeln!(out, "freed by {} before the fork", process.name())?;
                stack(out, by, context.paint)
            }
            Some(OriginFree { process: None, stack: by, .. }) if !is_free_told => {
                writeln!(out, "freed here")?;
                stack(out, by, context.paint)
            }
            _ => Ok(()),
        }
    }
}

impl OriginProcess {
    /// `make 4711`
    fn name(&self) -> String {
        let program = if self.program.is_empty() { "unknown" } else { &self.program };
        clean(&format!("{program} {}", self.pid)).into_owned()
    }
}

impl ErrorOrigin {
    /// `a block of make 4711: 0x1000, malloc 100 B, number 5 there, live at the fork`.
    pub(super) fn sentence(&self) -> String {
        let of = match self {
            ErrorOrigin::Of(of) => of,
            ErrorOrigin::Unknown => {
                return "not known: the ledgers do not tell whether a parent had a block there at the fork".to_owned();
            }
            ErrorOrigin::Nobodys => return "no: no parent had a block there at the fork, or before it".to_owned(),
        };
        let size = of.size.map_or_else(|| "of unknown size".to_owned(), plain_bytes);
        let end = match &of.freed {
            None => "live at the fork".to_owned(),
            Some(OriginFree { process: None, by, .. }) => {
                let by = by.map_or_else(String::new, |(by, number)| format!(" by {by}, number {number}"));
                format!("live at the fork, and freed here before{by}")
            }
            Some(OriginFree { process: Some(process), by, .. }) => match by {
                Some((by, number)) => format!("freed before the fork by {by}, number {number} of {}", process.name()),
                None => format!("freed before the fork by {}", process.name()),
            },
        };
        let unless =
            if of.is_certain { "" } else { "; unless there was a later one, of which no ledger tells any more" };
        let (name, address, kind) = (of.process.name(), of.address, of.kind);
        let number = of.number.map_or_else(String::new, |number| format!(", number {number} there"));
        format!("a block of {name}: {address:#x}, {kind} {size}{number}, {end}{unless}")
    }

    /// The block of an ancestor, if it is one's.
    pub(super) fn block(&self) -> Option<&OriginBlock> {
        match self {
            ErrorOrigin::Of(of) => Some(of),
            ErrorOrigin::Unknown | ErrorOrigin::Nobodys => None,
        }
    }

    pub(super) fn json(&self) -> OriginJson<'_> {
        let (whose, of) = match self {
            ErrorOrigin::Of(of) => ("ancestor", Some(of)),
            ErrorOrigin::Unknown => ("unknown", None),
            ErrorOrigin::Nobodys => ("nobody", None),
        };
        OriginJson { whose, block: of.map(|of| OriginBlockJson::of(of)) }
    }
}

#[derive(Serialize)]
pub(super) struct OriginJson<'a> {
    whose: &'static str,
    block: Option<OriginBlockJson<'a>>,
}

#[derive(Serialize)]
struct OriginBlockJson<'a> {
    pid: u32,
    program: &'a str,
    ledger: &'a str,
    number: Option<u64>,
    address: Hex,
    size: Option<u64>,
    function: String,
    certain: bool,
    #[serde(serialize_with = "frames")]
    frames: &'a [NamedFrame],
    freed: Option<OriginFreeJson<'a>>,
}

#[derive(Serialize)]
struct OriginFreeJson<'a> {
    pid: Option<u32>,
    number: Option<u64>,
    function: Option<String>,
    #[serde(serialize_with = "frames")]
    frames: &'a [NamedFrame],
}

impl<'a> OriginBlockJson<'a> {
    fn of(of: &'a OriginBlock) -> OriginBlockJson<'a> {
        let freed = |freed: &'a OriginFree| OriginFreeJson {
            pid: freed.process.as_ref().map(|process| process.pid),
            number: freed.by.map(|(_, number)| number),
            function: freed.by.map(|(by, _)| by.to_string()),
            frames: &freed.stack.frames,
        };
        OriginBlockJson {
            pid: of.process.pid,
            program: &of.process.program,
            ledger: &of.process.ledger,
            number: of.number,
            address: Hex(of.address),
            size: of.size,
            function: of.kind.to_string(),
            certain: of.is_certain,
            frames: &of.allocated.frames,
            freed: of.freed.as_ref().map(freed),
        }
    }
}
