//! Calls with addresses of a block that is live, and of one that was freed: what is told of them.

use crate::call::{Call, Direction, Unit, around, before};
use crate::frame::Frame;
use crate::list::{COUNT, Hook, NAMES};
use crate::measure::{self, ALL};
use crate::next;
use core::cell::UnsafeCell;
use heapledger_guard::judging::{FoundBlock, Judging, OwnHeap, WrongCall};
use std::string::{String, ToString};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec;
use std::vec::Vec;

const BYTES: usize = 4096;
const LIVE: usize = 1024;
const FREED: usize = 2048;
const SIZE: usize = 48;

/// Memory that has blocks.
#[repr(align(4096))]
struct Land(UnsafeCell<[u8; BYTES]>);

// SAFETY: who holds the lock is alone with it.
unsafe impl Sync for Land {}

static LAND: Land = Land(UnsafeCell::new([0; BYTES]));
extern "C" fn heap(_: &mut OwnHeap) {}

static JUDGING: Judging = Judging::new(find, report, prepare, heap, holds);
static ALONE: Mutex<()> = Mutex::new(());
/// Name, offset in the land, bytes, whether it writes.
static TOLD: Mutex<Vec<(String, usize, u64, bool)>> = Mutex::new(Vec::new());
static PREPARED: Mutex<Vec<(usize, u64)>> = Mutex::new(Vec::new());

fn first() -> usize {
    LAND.0.get() as usize
}

extern "C" fn find(address: u64, found: &mut FoundBlock) -> u32 {
    let offset = (address as usize).wrapping_sub(first());
    let (start, is_freed) = if offset < (LIVE + FREED) / 2 { (LIVE, 0) } else { (FREED, 1) };
    *found = FoundBlock { start: (first() + start) as u64, bytes: SIZE as u64, is_freed };
    1
}

extern "C" fn holds(address: u64, bytes: u64) -> u32 {
    let mut found = FoundBlock::default();
    find(address, &mut found);
    let inside = address.wrapping_sub(found.start);
    u32::from(found.is_freed == 0 && inside < found.bytes && bytes <= found.bytes - inside)
}

extern "C" fn report(wrong: &WrongCall) {
    let told = (
        String::from_utf8_lossy(wrong.name()).to_string(),
        (wrong.address as usize).wrapping_sub(first()),
        wrong.bytes,
        wrong.writes == 1,
    );
    TOLD.lock().expect("told").push(told);
}

extern "C" fn prepare(address: u64, bytes: u64) {
    PREPARED.lock().expect("prepared").push(((address as usize).wrapping_sub(first()), bytes));
}

/// The land to itself, with these bytes in its live block.
fn with(bytes: &[u8]) -> MutexGuard<'static, ()> {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    next::judge_with(&JUDGING);
    JUDGING.begin((first() as u64, BYTES as u64), true);
    // SAFETY: the lock is held.
    let land = unsafe { &mut *LAND.0.get() };
    land.fill(0xBD);
    land[LIVE..LIVE + bytes.len()].copy_from_slice(bytes);
    alone
}

fn frame(words: &[usize]) -> Frame {
    let mut frame = Frame { words: [0; 6], vectors: [0; 8], rax: 0, unused: 0, registers: [0; 8] };
    frame.words[..words.len()].copy_from_slice(words);
    frame
}

/// What a call tells: offset from the live block, bytes, whether it writes.
fn told(words: &[usize], judge: impl FnOnce(&Call)) -> Vec<(isize, u64, bool)> {
    before(&frame(words), Hook::Memcpy, judge);
    let told = core::mem::take(&mut *TOLD.lock().expect("told"));
    assert!(told.iter().all(|(name, ..)| name == "memcpy"));
    told.into_iter().map(|(_, offset, bytes, writes)| (offset as isize - LIVE as isize, bytes, writes)).collect()
}

fn live() -> usize {
    first() + LIVE
}

#[test]
fn each_function_has_its_name() {
    assert_eq!(NAMES.split_terminator('\0').count(), COUNT);
    assert_eq!(next::name(Hook::Memcpy as usize), b"memcpy");
    assert_eq!(next::name(Hook::VswprintfChk as usize), b"__vswprintf_chk");
    assert!(NAMES.split('\0').all(|name| name.len() < heapledger_guard::judging::NAME_BYTES));
    let mut names: Vec<&str> = NAMES.split_terminator('\0').collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|two| two[0] != two[1]));
}

#[test]
fn copies_are_held_against_the_block() {
    let _alone = with(&[1; SIZE]);
    let other = [0u8; 256];
    let outside = other.as_ptr() as usize;
    let copies = |to: usize, from: usize, bytes: usize| told(&[to, from, bytes], |c| c.copies(0, 1, c.arg(2)));
    assert_eq!(copies(live(), outside, SIZE), []);
    assert_eq!(copies(live() + 8, outside, SIZE - 8), []);
    assert_eq!(copies(live() + SIZE, outside, 0), [], "nothing is copied");
    assert_eq!(copies(outside, outside, usize::MAX), [], "of other memory nothing is said");
    assert_eq!(copies(live(), outside, SIZE + 1), [(0, 49, true)]);
    assert_eq!(copies(outside, live(), SIZE + 1), [(0, 49, false)]);
    assert_eq!(copies(live() - 8, outside, 8), [(-8, 8, true)]);
    assert_eq!(copies(live() + SIZE, outside, 1), [(48, 1, true)]);
    assert_eq!(copies(live(), outside, usize::MAX), [(0, u64::MAX, true)]);
    assert_eq!(copies(first() + FREED, live(), 4), [((FREED - LIVE) as isize, 4, true)]);
    assert_eq!(copies(live(), live(), 49), [(0, 49, true), (0, 49, false)]);
}

#[test]
fn ranges_of_a_copy_are_apart_or_one() {
    let _alone = with(b"0123456789abcdef\0ZZZZZZZZZZZab\0");
    let other = [0u8; 256];
    let outside = other.as_ptr() as usize;
    let copies = |to: usize, from: usize, bytes: usize| told(&[to, from, bytes], |c| c.copies_apart(0, 1, c.arg(2)));
    for right in [(live() + 16, live(), 16), (live(), live() + 16, 16), (live(), live(), 16), (live() + 4, live(), 0)] {
        assert_eq!(copies(right.0, right.1, right.2), []);
    }
    assert_eq!(copies(outside + 4, outside, 16), [], "of other memory nothing is said");
    assert_eq!(copies(live() + 15, live(), 16), [(15, 16, true)]);
    assert_eq!(copies(live(), live() + 15, 16), [(0, 16, true)]);
    assert_eq!(copies(live() + 40, live() + 36, 12), [(40, 12, true)], "told is what is worse: the end of the block");
    let text = |to: usize| told(&[to, live()], |c| c.copies_text(0, 1, Unit::Byte));
    assert_eq!((text(live() + 17), text(live() + 16)), (vec![], vec![(16, 17, true)]));
    let appended = |from: usize| told(&[live(), from], |c| c.appends(0, 1, ALL, Unit::Byte));
    assert_eq!((appended(live() + 28), appended(live() + 12)), (vec![], vec![(16, 5, true)]));
}

#[test]
fn texts_are_read_to_their_end_and_no_further() {
    let mut bytes = [b'Z'; SIZE];
    let text = |c: &Call| c.text(0);
    {
        let _alone = with(&bytes);
        assert_eq!(told(&[live()], text), [(0, 49, false)]);
        assert_eq!(told(&[live() + 40], text), [(40, 9, false)]);
        assert_eq!(told(&[live()], |c| c.text_up_to(0, SIZE, Unit::Byte)), []);
        assert_eq!(told(&[live()], |c| c.text_up_to(0, SIZE + 1, Unit::Byte)), [(0, 49, false)]);
        assert_eq!(told(&[live(), usize::from(b'Z')], |c| c.finds_in_text(Unit::Byte)), [], "it is found before");
        assert_eq!(told(&[live(), usize::from(b'q')], |c| c.finds_in_text(Unit::Byte)), [(0, 49, false)]);
        assert_eq!(told(&[live(), 0xBD], |c| c.finds(ALL, Unit::Byte)), [(0, 49, false)]);
        assert_eq!(told(&[first() + FREED], text), [((FREED - LIVE) as isize, 1, false)]);
        let target = c"ZZZZZ".as_ptr() as usize;
        assert_eq!(told(&[live(), target], |c| c.compares(ALL, Unit::Byte, false)), []);
        assert_eq!(told(&[live() + 43, target], |c| c.compares(ALL, Unit::Byte, false)), [(43, 6, false)]);
        assert_eq!(told(&[live() + 43, target], |c| c.compares(5, Unit::Byte, false)), []);
        assert_eq!(
            told(&[live() + 43, c"zzzzz".as_ptr() as usize], |c| c.compares(ALL, Unit::Byte, true)),
            [(43, 6, false)]
        );
        assert_eq!(told(&[live(), c"ZZ".as_ptr() as usize], |c| c.looks_for_text(Unit::Byte, false)), []);
        assert_eq!(told(&[live(), c"Zq".as_ptr() as usize], |c| c.looks_for_text(Unit::Byte, false)), [(0, 49, false)]);
        assert_eq!(told(&[live(), c"Z".as_ptr() as usize], |c| c.spans_to(false)), [(0, 49, false)]);
        assert_eq!(told(&[live(), c"Z".as_ptr() as usize], |c| c.spans_to(true)), []);
        assert_eq!(told(&[live(), c"q".as_ptr() as usize], |c| c.takes_word()), [(0, 49, false)]);
    }
    bytes[SIZE - 1] = 0;
    let _alone = with(&bytes);
    assert_eq!(told(&[live()], text), []);
    assert_eq!(told(&[live() + SIZE], text), [(48, 1, false)]);
}

#[test]
fn wide_texts_are_counted_in_their_units() {
    let mut wide = [0u8; SIZE];
    wide.iter_mut().step_by(4).for_each(|byte| *byte = b'Z');
    {
        let _alone = with(&wide);
        assert_eq!(told(&[live()], |c| c.wide_text(0)), [(0, 52, false)]);
        assert_eq!(told(&[live()], |c| c.text_up_to(0, 12, Unit::Wide)), []);
    }
    wide[SIZE - 4] = 0;
    let _alone = with(&wide);
    assert_eq!(told(&[live()], |c| c.wide_text(0)), []);
    let target = [0u32; 12];
    assert_eq!(told(&[live(), target.as_ptr() as usize], |c| c.copies_text(0, 1, Unit::Wide)), []);
}

#[test]
fn appended_is_what_comes_behind_the_end() {
    let mut bytes = [0u8; SIZE];
    bytes[..5].copy_from_slice(b"begin");
    let _alone = with(&bytes);
    let appends =
        |text: &[u8], most: usize| told(&[live(), text.as_ptr() as usize], |c| c.appends(0, 1, most, Unit::Byte));
    let text = [vec![b'x'; 43], vec![0]].concat();
    assert_eq!(appends(&text[1..], ALL), [], "42 and the end");
    assert_eq!(appends(&text, ALL), [(5, 44, true)]);
    assert_eq!(appends(&text, 42), []);
    assert_eq!(appends(&text, 43), [(5, 44, true)]);
}

#[test]
fn what_came_is_judged_when_it_is_there() {
    let _alone = with(&[b'Z'; SIZE]);
    let stages = |result: usize, asked: usize| {
        let mut frame = frame(&[3, live(), asked]);
        around(&frame, Hook::Memcpy, 0, |c| c.fills(1, c.arg(2)));
        let early = TOLD.lock().expect("told").len();
        frame.rax = result;
        around(&frame, Hook::Memcpy, 1, |c| c.fills(1, c.arg(2)));
        assert_eq!(early, 0);
        let told = core::mem::take(&mut *TOLD.lock().expect("told"));
        told.into_iter().map(|(_, _, bytes, _)| bytes).collect::<Vec<_>>()
    };
    assert_eq!(stages(10, 4000), []);
    assert_eq!(stages(usize::MAX, 4000), [], "it failed");
    assert_eq!(stages(49, 4000), [49]);
    assert_eq!(stages(4000, 48), [], "no more than was asked for");
    assert_eq!(PREPARED.lock().expect("prepared").last(), Some(&(LIVE, 48)));
    let list = [live(), 8, live() + 8, 100];
    let mut frame = frame(&[3, list.as_ptr() as usize, 2]);
    frame.rax = 60;
    around(&frame, Hook::Memcpy, 1, |c| c.parts(c.arg(1), c.arg(2), Direction::Write));
    let told = core::mem::take(&mut *TOLD.lock().expect("told"));
    assert_eq!(told, [("memcpy".to_string(), LIVE + 8, 52, true)]);
}

#[test]
fn texts_differ_at_every_place() {
    let _alone = ALONE.lock();
    let mut one = [1u8; 9000];
    let other = [1u8; 9000];
    // At the end of a page, too.
    let page = 4096 - (one.as_ptr() as usize & 4095);
    for start in (0..20).chain(page + 4060..page + 4110) {
        let unlike = |one: &[u8], bytes: usize| {
            measure::first_unlike(one[start..].as_ptr() as usize, other[start + 3..].as_ptr() as usize, bytes)
        };
        assert_eq!(unlike(&one, 70), None);
        for place in 0..70 {
            for changed in [0, 2] {
                one[start + place] = changed;
                assert_eq!(unlike(&one, ALL), Some(place));
                assert_eq!(unlike(&one, place + 1), Some(place));
                assert_eq!(unlike(&one, place), None);
                one[start + place] = 1;
            }
        }
    }
    let ended = [1u8, 1, 0, 1, 1];
    let same = [1u8, 1, 0, 2];
    assert_eq!(measure::first_unlike(ended.as_ptr() as usize, same.as_ptr() as usize, 4), Some(2));
}

#[test]
fn bytes_are_found_at_every_place() {
    let _alone = ALONE.lock();
    let mut memory = [1u8; 100];
    for start in 0..40 {
        assert_eq!(measure::first_of(memory[start..].as_ptr() as usize, 60, 0, 0), None);
        for place in start..90 {
            memory[place] = 7;
            let found = |bytes: usize, one: u8, other: u8| {
                measure::first_of(memory[start..].as_ptr() as usize, bytes, one, other)
            };
            assert_eq!(found(place - start + 1, 7, 7), Some(place - start));
            assert_eq!(found(ALL, 7, 200), Some(place - start));
            assert_eq!(found(ALL, 200, 7), Some(place - start));
            assert_eq!(found(place - start, 7, 7), None);
            memory[place] = 1;
        }
    }
}

#[test]
fn a_heap_has_what_the_guard_has() {
    let own = OwnHeap { bytes: 1000, blocks: 2, in_use_bytes: 300 };
    let figures = crate::heap::with_own([10, 20, 30, 40, 50, 60, 70, 80, 90, 100], own);
    assert_eq!(figures, [1010, 20, 30, 40, 50, 60, 70, 380, 790, 100]);
}
