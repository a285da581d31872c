//! What is kept of the last stack, case by case, and what is compared.

mod by_hand;
mod maker;
mod recorder;

use by_hand::{STACK, Trial, World, at, function, function::*};
use heapledger_unwind::Registers;

/// Three calls of the same kind and an outermost one.
fn nested(trial: &mut Trial) -> Registers {
    trial.world.store(0x00, &[BARE + 0x20, SAVES + 0x10]);
    trial.world.store(0x20, &[77, BARE + 0x30, OUTERMOST + 0x10]);
    at(BARE + 0x10, 0, 5)
}

#[test]
fn a_frame_that_does_not_depend_on_rbp_is_kept_whatever_it_holds() {
    let mut trial = Trial::new(64);
    let registers = nested(&mut trial);
    assert_eq!(trial.take(registers), (0, 5));
    let other = Registers { bp: 6, ..registers };
    assert!(trial.finds(other));
    assert_eq!(trial.take(other), (5, 0));
}

#[test]
fn nor_does_one_that_saves_it_for_a_caller_that_does() {
    let mut trial = Trial::new(64);
    trial.world.store(0x00, &[SAVES + 0x10, 0, 0, STACK + 0x40, POINTER + 0x10]);
    trial.world.store(0x40, &[0, OUTERMOST + 0x10]);
    let registers = at(BARE + 0x10, 0, 5);
    assert_eq!(trial.take(registers), (0, 4));
    let other = Registers { bp: 6, ..registers };
    assert!(trial.finds(other));
    assert_eq!(trial.take(other), (4, 0));
}

#[test]
fn frames_outside_of_a_change_are_kept() {
    let mut trial = Trial::new(64);
    let registers = nested(&mut trial);
    assert_eq!(trial.take(registers), (0, 5));
    // The call in the middle came from elsewhere.
    trial.world.store(0x08, &[SAVES + 0x18]);
    assert!(!trial.finds(registers));
    assert_eq!(trial.take(registers), (2, 3));
    assert_eq!(trial.take(registers), (5, 0));
    trial.world.store(0x00, &[BARE + 0x28]);
    assert_eq!(trial.take(registers), (3, 2));
}

/// `add $bytes, %rsp; ret`.
fn returns(bytes: u8) -> Option<[u8; 8]> {
    Some([0x48, 0x83, 0xc4, bytes, 0xc3, 0x90, 0x90, 0x90])
}

#[test]
fn code_that_only_returns_is_read_again() {
    let mut trial = Trial::new(64);
    trial.world.code.set(returns(8));
    // Twice, with two frames between them: which inner frames are of such code is not what the outer one tells.
    trial.world.store(0x00, &[GENERATED + 0x10, 0, BARE + 0x20, BARE + 0x30, GENERATED + 0x20]);
    trial.world.store(0x28, &[0, SAVES + 0x10, 0, 0, 77, OUTERMOST + 0x10]);
    let registers = at(BARE + 0x10, 0, 5);
    assert_eq!(trial.take(registers), (0, 7));
    assert_eq!(trial.take(registers), (7, 0));
    // Words alone do not prove it.
    assert!(!trial.finds(registers));
    // Other code, which takes less: the words hold what they held.
    trial.world.code.set(returns(0));
    trial.world.store(0x08, &[BARE + 0x40]);
    trial.world.store(0x28, &[BARE + 0x50]);
    let (kept, fresh) = trial.take(registers);
    assert_eq!((kept, fresh), (2, 7));
    assert_eq!(trial.take(registers), (9, 0));
}

#[test]
fn frames_outside_of_a_changed_slot_are_kept() {
    let mut trial = Trial::new(64);
    // Two frames that count from rbp, and between them one that saves it.
    trial.world.store(0x00, &[POINTER + 0x10]);
    trial.world.store(0x20, &[7, SAVES + 0x10]);
    trial.world.store(0x40, &[STACK + 0x60, POINTER + 0x20]);
    trial.world.store(0x60, &[STACK + 0x80, POINTER + 0x30]);
    trial.world.store(0x80, &[0, OUTERMOST + 0x10]);
    trial.world.store(0x90, &[0, 0]);
    let registers = at(BARE + 0x10, 0, STACK + 0x20);
    assert_eq!(trial.take(registers), (0, 6));
    assert_eq!(trial.take(registers), (6, 0));
    // The one that saves is entered with another rbp: there is one frame less.
    trial.world.store(0x40, &[STACK + 0x80]);
    assert!(!trial.finds(registers));
    assert_eq!(trial.take(registers), (1, 4));
}

#[test]
fn two_calls_with_different_allocas_are_told_apart() {
    let mut trial = Trial::new(64);
    // The leaf lies at the same place, called from the same place; its caller's frame begins elsewhere.
    trial.world.store(0x00, &[POINTER + 0x10]);
    trial.world.store(0x40, &[0, BARE + 0x20, OUTERMOST + 0x10]);
    trial.world.store(0x60, &[0, BARE + 0x30, OUTERMOST + 0x20]);
    let (first, second) = (at(BARE + 0x10, 0, STACK + 0x40), at(BARE + 0x10, 0, STACK + 0x60));
    for registers in [first, second, first] {
        assert_eq!(trial.take(registers), (0, 4));
        assert!(trial.finds(registers));
        assert_eq!(trial.take(registers), (4, 0));
    }
}

#[test]
fn a_realigned_frame_is_proven_by_the_word_that_holds_its_top() {
    let mut trial = Trial::new(64);
    trial.world.store(0x38, &[STACK + 0x60, 0]);
    trial.world.store(0x58, &[BARE + 0x20, OUTERMOST + 0x10]);
    trial.world.store(0x78, &[BARE + 0x30, OUTERMOST + 0x20]);
    let registers = at(REALIGNED + 0x10, 0, STACK + 0x40);
    assert_eq!(trial.take(registers), (0, 3));
    assert_eq!(trial.take(registers), (3, 0));
    assert!(trial.finds(registers));
    trial.world.store(0x38, &[STACK + 0x80]);
    assert!(!trial.finds(registers));
    assert_eq!(trial.take(registers), (0, 3));
}

#[test]
fn a_stack_that_ends_at_zero_ends_there_no_longer_when_something_is_stored() {
    let mut trial = Trial::new(64);
    trial.world.store(0x00, &[BARE + 0x20, 0, OUTERMOST + 0x10]);
    let registers = at(BARE + 0x10, 0, 0);
    assert_eq!(trial.take(registers), (0, 2));
    assert_eq!(trial.take(registers), (2, 0));
    assert!(trial.finds(registers));
    trial.world.store(0x08, &[BARE + 0x30]);
    assert!(!trial.finds(registers));
    assert_eq!(trial.take(registers), (0, 4));
}

#[test]
fn a_slot_proves_if_it_lies_in_what_is_compared() {
    // From the last word of what was called on, all lies above the stack pointer less 8.
    for (function, is_proven) in [(SAVES_AT_EDGE, true), (SAVES_BELOW, false)] {
        let mut trial = Trial::new(64);
        let slot = if is_proven { 0x18 } else { 0x10 };
        trial.world.store(0x28, &[POINTER + 0x10]);
        trial.world.store(slot, &[STACK + 0x40]);
        trial.world.store(0x40, &[0, OUTERMOST + 0x10]);
        let registers = at(function + 0x10, 0x20, 0);
        assert_eq!(trial.take(registers), (0, 3));
        assert_eq!(trial.finds(registers), is_proven);
        assert_eq!(trial.take(registers), if is_proven { (3, 0) } else { (2, 1) });
        // It is entered with another rbp.
        trial.world.store(0x50, &[0, OUTERMOST + 0x20]);
        trial.world.store(slot, &[STACK + 0x50]);
        assert!(!trial.finds(registers));
        assert_eq!(trial.take(registers), (0, 3));
    }
}

#[test]
fn a_slot_above_all_frames_counts_to_the_bounds() {
    // Its word is the highest: the test's `still_hold` looks.
    let mut trial = Trial::new(64);
    trial.world.store(0x08, &[POINTER + 0x10, 0, 0, 0]);
    trial.world.store(0x10 + 0x40, &[STACK + 0x20]);
    trial.world.store(0x20, &[0, 0]);
    let registers = at(SAVES_ABOVE + 0x10, 0, 0);
    assert_eq!(trial.take(registers), (0, 2));
    assert_eq!(trial.take(registers), (2, 0));
    assert!(trial.finds(registers));
}

#[test]
fn an_interrupted_linkage_entry_is_not_one_that_has_called() {
    let mut trial = Trial::new(64);
    // Interrupted in byte 10 of an entry, before it pushed: stored as byte 11.
    let ip = function::LINKAGE + 10;
    trial.world.store(0x10, &[STACK + 0x80, 0, ip]);
    trial.world.store(0x80, &[BARE + 0x20, BARE + 0x30, OUTERMOST + 0x10]);
    let handler = at(function::SIGNAL + 0x10, 0, 0);
    assert_eq!(trial.take(handler), (0, 5));
    // A return address at byte 11: there is one word more.
    trial.world.store(0x78, &[ip + 1]);
    let called = at(BARE + 0x10, 0x78, 0);
    let full = trial.world.in_full(&called, 16);
    assert_eq!(full.frames, [BARE + 0x10, ip + 1, BARE + 0x30, OUTERMOST + 0x10]);
    assert_eq!(trial.take(called), (2, 2));
    // And back: the interrupted one has the word that the other has not.
    assert_eq!(trial.take(handler).0, 2);
}

#[test]
fn what_a_signal_interrupted_is_found_in_the_words_that_the_kernel_stored() {
    let mut trial = Trial::new(64);
    // Below the interrupted frame lies what looks as if it had been called.
    trial.world.store(0x10, &[STACK + 0x78, 0, BARE + 0x10]);
    trial.world.store(0x70, &[BARE + 0x11, SAVES + 0x10]);
    trial.world.store(0x98, &[OUTERMOST + 0x10]);
    let handler = at(function::SIGNAL + 0x10, 0, 0);
    assert_eq!(trial.take(handler), (0, 4));
    for (offset, interrupted, taken) in [(0x78, OTHER, (2, 2)), (0x98, BARE, (1, 2)), (0x78, BARE, (1, 3))] {
        trial.world.store(0x10, &[STACK + offset, 0, interrupted + 0x10]);
        assert!(!trial.finds(handler));
        assert_eq!(trial.take(handler), taken);
    }
}

/// So many frames that count from `rbp`, one outside of the other, in front of an outermost one.
fn pointers(trial: &Trial, count: u64) {
    for index in 0..count {
        let caller = if index + 1 < count { POINTER + 0x10 } else { OUTERMOST + 0x10 };
        trial.world.store(0x20 * index, &[STACK + 0x20 * (index + 1), caller]);
    }
}

/// Words that were looked at since this was last asked.
fn looked_at(world: &World) -> usize {
    world.compared.take() + world.read.take()
}

const DEPTH: usize = 2000;
/// What a walk in full and one by steps read, and what is compared of the last stack: two words of each frame.
const LOOKS: usize = 8 * DEPTH;

#[test]
fn what_changed_far_outside_is_looked_for_once() {
    let mut trial = Trial::with_limit(4 * DEPTH + 64, DEPTH);
    pointers(&trial, DEPTH as u64 - 1);
    let registers = at(POINTER + 0x20, 0, STACK);
    trial.take(registers);
    assert_eq!(trial.take(registers), (DEPTH, 0));
    looked_at(&trial.world);
    // Where the outermost frame began, another one does.
    let outermost = 0x20 * (DEPTH as u64 - 2) + 8;
    trial.world.store(outermost, &[OTHER + 0x10, OUTERMOST + 0x10]);
    trial.world.store(outermost - 0x20, &[BARE + 0x10]);
    trial.take(registers);
    let looks = looked_at(&trial.world);
    assert!(looks < LOOKS, "{looks}");
}

#[test]
fn a_stack_that_became_too_long_is_looked_through_once() {
    let mut trial = Trial::with_limit(4 * DEPTH + 64, DEPTH);
    pointers(&trial, DEPTH as u64 + 7);
    // The inner frames are those of one call more than there is room for.
    let inner = |calls: u64| at(POINTER + 0x10, 0x20 * (8 - calls), STACK + 0x20 * (8 - calls));
    assert_eq!(trial.take(inner(0)), (0, DEPTH));
    assert_eq!(trial.take(inner(0)), (DEPTH, 0));
    looked_at(&trial.world);
    assert_eq!(trial.take(inner(1)), (0, DEPTH));
    let looks = looked_at(&trial.world);
    assert!(looks < LOOKS, "{looks}");
    // It was cut, so what is remembered is still the other one.
    assert_eq!(trial.take(inner(0)), (DEPTH, 0));
}
