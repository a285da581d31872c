//! Where an error lies: seen from its block, and in the program's source.

use heapledger_analysis::NamedStack;
use heapledger_format::errors::{ErrorEntry, ErrorStack, FoundAt, FoundBy, StackTag};

use super::{kind_name, stacks};
use crate::Paint;
use crate::form::units::{count, counted};
use crate::record::frames;

/// Whether it was done at a time that nobody saw: what is known is that it was there later.
pub(super) fn is_unseen(error: &ErrorEntry) -> bool {
    let by = [FoundBy::Canary, FoundBy::Fill, FoundBy::Checksum].iter().any(|by| *by as u8 == error.found_by);
    let seen = [FoundAt::Instruction, FoundAt::Call].iter().any(|at| *at as u8 == error.found_at);
    by && !seen
}

/// Where the block ends.
pub(super) fn end(error: &ErrorEntry) -> u64 {
    error.block.saturating_add(error.block_bytes)
}

/// Whether it lies in front of its block.
pub(super) fn is_in_front(error: &ErrorEntry) -> bool {
    error.block != 0 && error.address != 0 && error.address < error.block
}

/// `4 bytes inside a 400-byte region`: where the address lies, seen from the block; and how far the access goes beyond it.
pub(super) fn position(error: &ErrorEntry) -> Option<String> {
    if error.block == 0 || error.address == 0 {
        return None;
    }
    let end = end(error);
    let (bytes, place) = match error.address {
        before if before < error.block => (error.block - before, "before"),
        inside if inside < end || inside == error.block => (inside - error.block, "inside"),
        after => (after - end, "after"),
    };
    let beyond = error.address.saturating_add(error.bytes).saturating_sub(end);
    let beyond = match beyond {
        1.. if place != "after" => format!(", and {} past its end", counted(beyond, "byte", "bytes")),
        _ => String::new(),
    };
    Some(format!("{} {place} a {}-byte region{beyond}", counted(bytes, "byte", "bytes"), count(error.block_bytes)))
}

/// The stack of this kind.
pub(super) fn stack_of(error: &ErrorEntry, tag: StackTag) -> Option<&ErrorStack> {
    stacks(error).find(|stack| stack.tag == tag as u16)
}

/// The stack of what was wrong. Where nobody saw that, the stack of the allocation: who found it did nothing wrong.
pub(super) fn culprit(error: &ErrorEntry) -> Option<&ErrorStack> {
    if is_unseen(error) {
        return stack_of(error, StackTag::Allocation);
    }
    stacks(error).filter(|stack| stack.tag != StackTag::Allocation as u16).last()
}

/// `double-free free.c:18 in wrong`: what is wrong and where, for who reads one line only. `stack` is that of the
/// [culprit].
pub(super) fn summary(error: &ErrorEntry, stack: Option<&NamedStack>) -> String {
    let kind = kind_name(error);
    match stack.and_then(in_source) {
        Some(place) if is_unseen(error) => format!("{kind} {place}, where its block was allocated"),
        Some(place) => format!("{kind} {place}"),
        None => kind,
    }
}

/// `file:line in function`: the innermost frame whose source is known; else the innermost function.
fn in_source(stack: &NamedStack) -> Option<String> {
    let frame = source_frame(stack)?;
    let function = frame.function.as_deref().map(|name| format!("in {}", Paint::default().function(name)));
    Some(frames::place(frame).into_iter().chain(function).collect::<Vec<_>>().join(" "))
}

fn source_frame(stack: &NamedStack) -> Option<&heapledger_analysis::NamedFrame> {
    let in_source = stack.shown().find(|frame| frame.file.is_some());
    in_source.or_else(|| stack.shown().find(|frame| frame.function.is_some()))
}
