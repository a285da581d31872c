//! What was found or refused while a program ran.

use std::io::Write;

use heapledger_analysis::{Excused, Seen};
use heapledger_format::errors::{Direction, ErrorEntry, ErrorKind, ErrorStack, StackTag, Whereabouts};
use heapledger_format::{Kind, Ticks};
use heapledger_source::{FoundError, Labels};

use crate::{Context, Ending, Form, Report, ReportError, Stacks};

mod brief;
mod csv;
pub(crate) mod json;
mod memory;
mod origin;
mod place;
pub(crate) mod text;
mod token;

/// What was found or refused.
pub struct ErrorsReport<'r> {
    /// In what ledger.
    pub context: &'r Context,
    /// The errors that are shown.
    pub errors: &'r [FoundError],
    /// Whose blocks they are about where a forked process has none of its own: in their order, or none.
    pub origins: &'r [Option<ErrorOrigin>],
    /// What is excused, and is not among them.
    pub excused: &'r [Excused],
    /// How many more there are.
    pub left_out: u64,
    /// Whether text has a token for each, by which the same one is known again.
    pub tokens: bool,
    /// What the labels in force say.
    pub labels: &'r Labels,
    /// Names of their stacks.
    pub names: &'r mut dyn Stacks,
    /// What was not seen; what is missing for names is added when it is written.
    pub seen: Seen,
}

impl Report for ErrorsReport<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => text::write(self, out),
            Form::Json => json::write(self, out),
            Form::Csv => csv::write(self, out),
            _ => Err(ReportError::no_form(form)),
        }
    }

    fn seen(&self) -> &Seen {
        &self.seen
    }

    fn ending(&self) -> Ending {
        Ending { shown: self.errors.len() as u64, left_out: self.left_out, in_flight: 0 }
    }
}

impl ErrorsReport<'_> {
    /// Whose block the error of this place in [`ErrorsReport::errors`] is about, if that was looked for.
    fn origin(&self, index: usize) -> Option<&ErrorOrigin> {
        self.origins.get(index).and_then(Option::as_ref)
    }
}

/// What is wrong, by the name that scripts know.
fn kind_name(error: &ErrorEntry) -> String {
    ErrorKind::from_number(error.kind).map_or_else(|| format!("error {}", error.kind), |kind| kind.name().to_owned())
}

/// The function that gave the block, if that is known.
fn given_by(error: &ErrorEntry) -> Option<Kind> {
    (error.given_by != 0).then_some(Kind(error.given_by))
}

/// Whether a call gave no block.
fn is_failed_call(error: &ErrorEntry) -> bool {
    ErrorKind::is_failed_call(error.kind)
}

/// The function that was called, if that is known: one that begins blocks where none was given, else one that ends them.
fn called(found: &FoundError) -> Option<String> {
    let number = found.entry.called;
    if number == 0 {
        return Some(found.function.clone()).filter(|name| !name.is_empty());
    }
    Some(if is_failed_call(&found.entry) { Kind(number) } else { Kind::ended_by(number) }.to_string())
}

/// What the operands of an error of this kind are.
fn operand_names(error: &ErrorEntry) -> [&'static str; 2] {
    use ErrorKind::{
        AllocDeallocMismatch, AllocationSizeTooBig, BufferOverflow, BufferUnderflow, CallocOverflow, CorruptMetadata,
        FailedAllocation, InvalidAlignedAllocAlignment, InvalidAllocationAlignment, InvalidPosixMemalignAlignment,
        MemcpyOverlap, NegativeSize, NewDeleteTypeMismatch, OutOfMemory, PvallocOverflow, ReallocarrayOverflow,
        RssLimitExceeded, StrcpyOverlap, UseAfterFree, WrongLayout,
    };
    match ErrorKind::from_number(error.kind) {
        Some(FailedAllocation | CallocOverflow | ReallocarrayOverflow | PvallocOverflow) => ["count", "size"],
        Some(WrongLayout | AllocDeallocMismatch | NewDeleteTypeMismatch) => ["size given", "alignment given"],
        Some(InvalidAllocationAlignment | InvalidAlignedAllocAlignment | InvalidPosixMemalignAlignment) => {
            ["size", "alignment"]
        }
        Some(AllocationSizeTooBig | RssLimitExceeded | OutOfMemory) => ["size", "limit"],
        Some(NegativeSize) => ["size", ""],
        // Said as the time that it is.
        Some(BufferOverflow | BufferUnderflow | UseAfterFree) => ["", ""],
        Some(MemcpyOverlap | StrcpyOverlap) => ["other address", "other bytes"],
        Some(CorruptMetadata) => ["value expected", "value found"],
        _ => ["first operand", "second operand"],
    }
}

/// `in a live block`: where the address lies, if that is known.
fn whereabouts(error: &ErrorEntry) -> Option<&'static str> {
    Some(match Whereabouts::from_number(error.whereabouts)? {
        Whereabouts::Block => "in a live block",
        Whereabouts::FreedBlock => "in a freed block",
        Whereabouts::Heap => "in a heap, in no block",
        Whereabouts::Stack => "on a stack",
        Whereabouts::Module => "in a module",
        Whereabouts::Mapping => "in another mapping",
        Whereabouts::Nothing => "where nothing is",
    })
}

fn direction(error: &ErrorEntry) -> Option<Direction> {
    Direction::from_number(error.direction)
}

/// The stacks that there are.
fn stacks(error: &ErrorEntry) -> impl Iterator<Item = &ErrorStack> {
    error.stacks.iter().filter(|stack| stack.tag != 0)
}

/// Whose stack it is, for scripts.
fn stack_name(stack: &ErrorStack) -> String {
    match StackTag::from_number(stack.tag) {
        Some(StackTag::Custom) => format!("custom {}", stack.custom),
        Some(tag) => tag.name().to_owned(),
        None => format!("stack {}", stack.tag),
    }
}

/// A time of an error, if it is known.
fn known(time: Ticks) -> Option<Ticks> {
    (time != Ticks(0)).then_some(time)
}

/// When all blocks were whole last, as far as a look at all of them said it, and the damage came later.
fn whole(error: &ErrorEntry) -> Option<Ticks> {
    use ErrorKind::{BufferOverflow, BufferUnderflow, UseAfterFree};
    let is_damage = [BufferOverflow, BufferUnderflow, UseAfterFree].iter().any(|kind| error.kind == *kind as u16);
    let [whole, _] = error.operands;
    known(Ticks(whole)).filter(|_| is_damage && place::is_unseen(error))
}

/// Bytes that count, of those expected or found.
fn compared(error: &ErrorEntry, bytes: [u8; 8]) -> Vec<u8> {
    bytes.into_iter().take(error.compared.into()).collect()
}

/// `78 56 ad`.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

pub use brief::ErrorBrief;
pub use json::nothing_found;
pub use origin::{ErrorOrigin, OriginBlock, OriginFree, OriginProcess};
pub(crate) use text::excused_words;

#[cfg(test)]
mod tests;
