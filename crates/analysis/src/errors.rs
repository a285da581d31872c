//! What a program did wrong: which errors count, and which somebody has excused.

use heapledger_format::Site;
use heapledger_format::errors::{ErrorEntry, ErrorKind, FoundAt, FoundBy, StackTag};
use heapledger_source::{FoundError, Ledger, SourceError};

use crate::{NamedStack, Suppressions};

/// What one line of a file of suppressions has excused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excused {
    /// The line.
    pub by: String,
    /// How many errors.
    pub errors: u64,
    /// How often these were found.
    pub times: u64,
}

/// Whether something was done wrong, and not merely a call refused.
pub fn is_wrong(error: &ErrorEntry) -> bool {
    !ErrorKind::is_failed_call(error.kind)
}

/// How many of the frees that are counted as of unknown blocks are errors of the program's, of which the ledger tells: that block had been
/// freed, or there was none. Nothing has been missed there. Ask before the frees are counted, where the program still runs.
pub(crate) fn wrong_frees(ledger: &Ledger) -> Result<u64, SourceError> {
    // A chip refuses such a free before it is counted.
    if ledger.is_of_chip() {
        return Ok(0);
    }
    let errors = ledger.errors()?;
    let wrong = errors.iter().filter(|found| is_wrong_free(&found.entry));
    Ok(wrong.fold(0, |frees, found| frees.saturating_add(found.entry.repeats).saturating_add(1)))
}

/// As recorders enter it who look at what a freed address was, since no block begins there.
fn is_wrong_free(error: &ErrorEntry) -> bool {
    let kinds = [ErrorKind::DoubleFree, ErrorKind::BadFree, ErrorKind::RacingFree];
    error.found_by == FoundBy::State as u8
        && error.found_at == FoundAt::Free as u8
        && kinds.iter().any(|kind| error.kind == *kind as u16)
}

/// The call sites whose names a report of these errors needs.
pub fn sites_of(errors: &[FoundError]) -> impl Iterator<Item = Site> {
    let stacks = errors.iter().flat_map(|error| error.entry.stacks.map(|stack| stack.site));
    let neighbours = errors.iter().flat_map(|error| error.entry.neighbours.map(|neighbour| neighbour.site));
    stacks.chain(neighbours).filter(|site| *site != Site::NONE)
}

/// Takes those of `errors` out that are excused; by which lines, most errors first.
///
/// # Errors
/// If the ledger can no longer be read.
pub fn excuse(
    errors: &mut Vec<FoundError>,
    suppressions: &Suppressions,
    stack: &mut dyn FnMut(Site) -> Result<NamedStack, SourceError>,
) -> Result<Vec<Excused>, SourceError> {
    let mut used: Vec<Excused> = Vec::new();
    if !suppressions.excuse_errors() {
        return Ok(used);
    }
    let mut kept = Vec::new();
    for found in std::mem::take(errors) {
        let mut stacks = Vec::new();
        for own in found.entry.stacks.iter().filter(|own| StackTag::from_number(own.tag).is_some()) {
            stacks.push(stack(own.site)?);
        }
        let Some(by) = suppressions.find_error(found.entry.kind, &stacks) else {
            kept.push(found);
            continue;
        };
        let times = found.entry.repeats.saturating_add(1);
        match used.iter_mut().find(|used| used.by == by) {
            Some(used) => {
                used.errors += 1;
                used.times = used.times.saturating_add(times);
            }
            None => used.push(Excused { by, errors: 1, times }),
        }
    }
    *errors = kept;
    used.sort_by(|one, other| (other.errors, &one.by).cmp(&(one.errors, &other.by)));
    Ok(used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NamedFrame;
    use heapledger_format::errors::ErrorStack;

    fn found(kind: ErrorKind, sites: &[u32], repeats: u64) -> FoundError {
        let mut entry = ErrorEntry { kind: kind as u16, repeats, ..ErrorEntry::default() };
        for (stack, site) in entry.stacks.iter_mut().zip(sites) {
            *stack = ErrorStack { site: Site(*site), tag: StackTag::Access as u16, ..ErrorStack::default() };
        }
        FoundError { row: 0, entry, function: String::new(), around: Vec::new(), of_ancestors: Vec::new() }
    }

    #[test]
    fn lines_excuse_by_kind_and_by_any_frame() {
        let all = || {
            vec![
                found(ErrorKind::DoubleFree, &[1, 2], 3),
                found(ErrorKind::BadFree, &[2], 0),
                found(ErrorKind::FailedAllocation, &[3], 0),
            ]
        };
        let mut name = |site: Site| {
            let frame = NamedFrame { function: Some(format!("site_{}", site.0).into()), ..NamedFrame::default() };
            Ok(NamedStack { frames: vec![frame], damaged: false })
        };
        let used = |by: &str, errors, times| Excused { by: by.to_owned(), errors, times };
        for (text, left, expected) in [
            ("", 3, vec![]),
            ("leak:site_2", 3, vec![]),
            ("error:site_2", 1, vec![used("error:site_2", 2, 5)]),
            (
                "double-free:site_2\nbad-free:^site_2$",
                1,
                vec![used("bad-free:^site_2$", 1, 1), used("double-free:site_2", 1, 4)],
            ),
            ("bad-free:*", 2, vec![used("bad-free:*", 1, 1)]),
            ("bad-free:site_1", 3, vec![]),
            ("error:*\nbad-free:*", 0, vec![used("error:*", 3, 6)]),
        ] {
            let mut errors = all();
            let found = excuse(&mut errors, &Suppressions::parse(text).expect("good"), &mut name).expect("named");
            assert_eq!((errors.len(), found), (left, expected), "{text}");
        }
        assert_eq!(all().iter().filter(|found| is_wrong(&found.entry)).count(), 2);
        assert_eq!(sites_of(&all()).collect::<Vec<_>>(), [1, 2, 2, 3].map(Site));
    }
}
