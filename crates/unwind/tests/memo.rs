//! How long whole stacks are remembered, and what drives them out.

mod by_hand;
mod maker;
mod recorder;

use by_hand::{STACK, Trial, at, function::*};
use heapledger_unwind::Registers;

/// A stack of so many calls from this offset on. Each has read one word but the outermost, which has none to read.
fn calls<const SETS: usize, const WORDS: usize>(
    trial: &Trial<SETS, WORDS>,
    offset: u64,
    function: u64,
    count: usize,
) -> Registers {
    let mut words = vec![function + 0x20; count - 1];
    words.push(OUTERMOST + 0x10);
    trial.world.store(offset, &words);
    at(function + 0x10, offset, 0)
}

#[test]
fn a_stack_may_take_all_words_there_are_and_no_more() {
    let mut trial = Trial::<1, 8>::with_limit(64, 16);
    let (short, all, more) = (calls(&trial, 0, BARE, 3), calls(&trial, 0x40, BARE, 8), calls(&trial, 0x100, BARE, 9));
    trial.take(short);
    trial.take(more);
    assert!(!trial.finds(more));
    assert!(trial.finds(short), "what is not remembered drives nothing out");
    trial.take(all);
    assert!(trial.finds(all));
    assert!(!trial.finds(short));
    // The words are used in turn: again from the first on.
    trial.take(short);
    assert!(trial.finds(short));
    assert!(!trial.finds(all));
}

#[test]
fn a_stack_is_forgotten_when_its_words_are_used_again() {
    let mut trial = Trial::<1, 16>::with_limit(64, 16);
    let (first, second, third) =
        (calls(&trial, 0, BARE, 5), calls(&trial, 0x40, BARE, 5), calls(&trial, 0x80, BARE, 7));
    trial.take(first);
    trial.take(second);
    assert!(trial.finds(first) && trial.finds(second));
    // Seven do not fit behind ten: the last six are left out, and the first seven used.
    trial.take(third);
    assert!(!trial.finds(first));
    assert!(trial.finds(third));
    // Of the second, the last of sixteen words that were used since is the first.
    assert!(!trial.finds(second));
}

#[test]
fn words_that_wrap_drive_out_only_what_they_overwrite() {
    let mut trial = Trial::<64, 16>::with_limit(64, 16);
    let stacks = [(0, OTHER, 5), (0x40, BARE, 5), (0x80, OTHER, 4), (0xc0, BARE, 3)];
    let stacks = stacks.map(|(offset, function, count)| calls(&trial, offset, function, count));
    for registers in stacks {
        trial.take(registers);
    }
    // Five, five, four; then three, for which two words at the end are not enough.
    assert_eq!(stacks.map(|registers| trial.finds(registers)), [false, true, true, true]);
}

#[test]
fn a_stack_is_remembered_up_to_the_last_of_its_words() {
    let mut trial = Trial::<64, 16>::with_limit(64, 16);
    let stacks = [(0, OTHER, 5), (0x40, BARE, 5), (0x80, OTHER, 6), (0xc0, BARE, 1)];
    let stacks = stacks.map(|(offset, function, count)| calls(&trial, offset, function, count));
    for registers in &stacks[..3] {
        trial.take(*registers);
    }
    assert_eq!(stacks.map(|registers| trial.finds(registers)), [true, true, true, false]);
    // All words are used, and one for the second time.
    trial.take(stacks[3]);
    assert_eq!(stacks.map(|registers| trial.finds(registers)), [false, true, true, true]);
}

#[test]
fn a_set_holds_four_stacks_and_the_fifth_drives_out_the_oldest() {
    let mut trial = Trial::<1, 256>::with_limit(64, 16);
    let stacks =
        [(0, BARE, 2), (0x40, BARE, 3), (0x80, OTHER, 4), (0xc0, OTHER, 5), (0x100, BARE, 6), (0x140, BARE, 2)];
    let stacks = stacks.map(|(offset, function, count)| calls(&trial, offset, function, count));
    for registers in &stacks[..4] {
        trial.take(*registers);
    }
    for _ in 0..2 {
        assert_eq!(stacks.map(|registers| trial.finds(registers)), [true, true, true, true, false, false]);
    }
    trial.take(stacks[4]);
    assert_eq!(stacks.map(|registers| trial.finds(registers)), [false, true, true, true, true, false]);
    trial.take(stacks[5]);
    assert_eq!(stacks.map(|registers| trial.finds(registers)), [false, false, true, true, true, true]);
}

#[test]
fn stacks_with_frame_pointers_are_told_apart_by_their_callers() {
    let mut trial = Trial::<32, 256>::with_limit(64, 16);
    // The same registers, the same wrapper around it, and a dozen who called that.
    let registers = at(POINTER + 0x10, 0, STACK + 0x20);
    let callers: Vec<u64> = (0..12).map(|caller| BARE + 0x10 + 8 * caller).collect();
    let store = |trial: &Trial<32, 256>, caller: u64| {
        trial.world.store(0x20, &[STACK + 0x40, POINTER + 0x20]);
        trial.world.store(0x40, &[0, caller, OUTERMOST + 0x10]);
    };
    for caller in &callers {
        store(&trial, *caller);
        trial.take(registers);
    }
    for caller in &callers {
        store(&trial, *caller);
        assert!(trial.finds(registers), "{caller:x}");
    }
}

#[test]
fn where_a_stack_was_found_it_is_looked_for_first() {
    let mut trial = Trial::<64, 256>::with_limit(64, 16);
    let (first, second) = (calls(&trial, 0x0, BARE, 5), calls(&trial, 0x20, BARE, 5));
    // At the same depth, from elsewhere.
    let third = Registers { ip: BARE + 0x50, ..first };
    for registers in [first, second, third] {
        trial.take(registers);
    }
    for registers in [first, second, third] {
        // To find the set, callers are read.
        assert!(!trial.is_noted(registers));
    }
    for registers in [first, second, third] {
        assert!(trial.is_noted(registers));
    }
}

#[test]
fn what_was_forgotten_is_not_found() {
    // In two places of a set.
    let mut trial = Trial::<1, 256>::with_limit(64, 16);
    let stacks = [calls(&trial, 0, BARE, 5), calls(&trial, 0x40, BARE, 4)];
    for registers in stacks {
        trial.take(registers);
    }
    assert_eq!(stacks.map(|registers| trial.finds(registers)), [true; 2]);
    trial.thread.memo.forget();
    assert_eq!(stacks.map(|registers| trial.finds(registers)), [false; 2]);
    trial.take(stacks[1]);
    assert_eq!(stacks.map(|registers| trial.finds(registers)), [false, true]);
}

#[test]
fn what_was_remembered_before_code_was_unloaded_is_not_found() {
    let mut trial = Trial::<4, 256>::with_limit(64, 16);
    let registers = calls(&trial, 0, BARE, 5);
    trial.take(registers);
    assert!(trial.finds(registers));
    for generation in [1, 2, u32::MAX - 1] {
        assert!(trial.thread.find(&trial.world, &registers, generation).is_none());
    }
    assert!(trial.finds(registers));
}

/// Stacks entered more than found, and then nothing is entered for a while.
const POOR_MAX: usize = 4096;
/// Stacks that are passed over then.
const REST: usize = 8192;

#[test]
fn where_few_are_found_it_rests_for_a_while() {
    let mut trial = Trial::<4, 256>::with_limit(64, 16);
    let registers = calls(&trial, 0, BARE, 3);
    for times in [POOR_MAX, POOR_MAX / 2] {
        for _ in 0..times {
            assert!(trial.thread.memo.pays());
            trial.take(registers);
        }
        assert!(trial.thread.memo.pays());
        trial.take(registers);
        for _ in 0..REST {
            assert!(!trial.thread.memo.pays());
        }
    }
    assert!(trial.thread.memo.pays());
    assert!(trial.finds(registers), "what was remembered is not forgotten");
}

#[test]
fn where_as_many_are_found_as_entered_it_does_not() {
    let mut trial = Trial::<64, 256>::with_limit(64, 16);
    // With the same stack pointer and the same pc, so that the one last found is never the one that is looked for.
    for _ in 0..2 * POOR_MAX {
        for function in [BARE, OTHER] {
            let caller = calls(&trial, 0, function, 3);
            let registers = Registers { ip: BARE + 0x10, ..caller };
            if !trial.finds(registers) {
                assert!(trial.thread.memo.pays());
            }
            trial.take(registers);
        }
    }
    assert!(trial.thread.memo.pays());
}
