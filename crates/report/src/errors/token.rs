//! A text that is the same for the same error in another run or another build.

use heapledger_analysis::{NamedFrame, NamedStack};
use heapledger_format::errors::{ErrorEntry, ErrorKind, StackTag};
use heapledger_format::kind::Kind;

use super::place::is_unseen;
use super::{given_by, kind_name, stack_name, stacks};
use crate::record::brief::brief;
use crate::{ReportError, Stacks};

/// Functions of each stack: more would tell callers apart in which the error is not.
const FRAMES: usize = 3;

/// `double-free--allocation--give--main--free--first--main--access--wrong--main`: the kind, and the innermost functions of
/// each stack. Whoever chanced to find damage that nobody saw is left out. No address, no line, no path.
pub(super) fn token(error: &ErrorEntry, names: &mut dyn Stacks) -> Result<String, ReportError> {
    let mut parts = vec![kind_name(error)];
    parts.extend(mismatched(error));
    for stack in stacks(error).filter(|stack| !(is_unseen(error) && stack.tag == StackTag::Access as u16)) {
        parts.push(stack_name(stack));
        parts.extend(functions(&names.stack(stack.site)?));
    }
    Ok(parts.join("--").replace(char::is_whitespace, "_"))
}

/// `new[]` and `delete`, of an error that is about the two: in one function there may be several. Whether the size was
/// handed over is up to the compiler.
fn mismatched(error: &ErrorEntry) -> Vec<String> {
    use ErrorKind::{AllocDeallocMismatch, NewDeleteTypeMismatch};
    if ![AllocDeallocMismatch, NewDeleteTypeMismatch].iter().any(|kind| error.kind == *kind as u16) {
        return Vec::new();
    }
    let name = |kind: Kind| kind.to_string().replace("(size)", "").replace("(size,", "(");
    [given_by(error), (error.called != 0).then(|| Kind::ended_by(error.called))]
        .into_iter()
        .flatten()
        .map(name)
        .collect()
}

/// The innermost functions, up to where the program begins: what is around that differs between C libraries. One that calls
/// itself is there once.
fn functions(stack: &NamedStack) -> Vec<String> {
    let mut functions: Vec<String> = Vec::new();
    for frame in stack.shown() {
        let name = name(frame);
        if functions.last() != Some(&name) {
            functions.push(name);
        }
        if functions.len() == FRAMES || frame.function.as_deref() == Some("main") {
            break;
        }
    }
    functions
}

/// The function without what differs between builds; of code without a name its module.
fn name(frame: &NamedFrame) -> String {
    let Some(function) = &frame.function else {
        let module = frame.module.as_deref().map(|path| path.rsplit('/').next().unwrap_or(path));
        return module.unwrap_or("?").to_owned();
    };
    brief(function).replace("<…>", "<>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str) -> NamedFrame {
        NamedFrame { function: Some(function.into()), module: Some("/opt/x".into()), ..NamedFrame::default() }
    }

    #[test]
    fn names_are_those_of_every_build() {
        for (function, expected) in [
            ("give", "give"),
            ("give.constprop.0.isra.0", "give"),
            ("take.cold", "take"),
            ("ring::push::h0123456789abcdef", "ring::push"),
            ("ring::h1", "ring::h1"),
            ("Ring<int, 4>::push(int const&)", "Ring<>::push"),
        ] {
            assert_eq!(name(&frame(function)), expected, "{function}");
        }
        assert_eq!(name(&NamedFrame { function: None, ..frame("") }), "x");
        assert_eq!(name(&NamedFrame::default()), "?");
    }

    #[test]
    fn stacks_end_at_main_and_repeat_nothing() {
        let of = |names: &[&str]| {
            let frames = names.iter().map(|name| frame(name)).collect();
            functions(&NamedStack { frames, damaged: false })
        };
        assert_eq!(of(&["a", "main", "__libc_start_call_main", "_start"]), ["a", "main"]);
        assert_eq!(of(&["walk", "walk", "walk", "b", "c", "d"]), ["walk", "b", "c"]);
        let mut hidden = NamedStack { frames: vec![frame("header"), frame("a")], damaged: false };
        hidden.frames[0].passed_over = true;
        assert_eq!(functions(&hidden), ["a"]);
    }

    #[test]
    fn mismatches_are_told_apart_by_what_does_not_match() {
        let of = |kind: ErrorKind, given_by: Kind, called: Kind| {
            let (given_by, called) = (given_by.number(), called.number());
            mismatched(&ErrorEntry { kind: kind as u16, given_by, called, ..ErrorEntry::default() }).join("--")
        };
        let mismatch = ErrorKind::AllocDeallocMismatch;
        assert_eq!(of(mismatch, Kind::MALLOC, Kind::DELETE), "malloc--delete");
        assert_eq!(of(mismatch, Kind::NEW_ARRAY, Kind::DELETE), "new[]--delete");
        assert_eq!(of(mismatch, Kind::NEW_ARRAY, Kind::DELETE_SIZED), "new[]--delete");
        assert_eq!(of(ErrorKind::DoubleFree, Kind::MALLOC, Kind::FREE), "");
    }
}
