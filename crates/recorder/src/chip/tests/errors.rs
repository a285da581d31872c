//! Errors of a chip as the format crate reads them, in both byte orders and word sizes.

use super::*;
use crate::chip::{BlockKnown, NewError};
use heapledger_format::chip_guard;
use heapledger_format::errors::{Direction, ErrorEntry, ErrorKind, FoundAt, FoundBy, StackTag, Whereabouts};
use heapledger_format::{Kind, TallyCounter};

/// Room for two errors.
struct Guarded<const IS_BIG: bool, W>(PhantomData<W>);

impl<const IS_BIG: bool, W: Word> Shape for Guarded<IS_BIG, W> {
    type Word = W;
    const CONFIG: Config<'static> =
        Config { errors: 2, guarded_heaps: 1, ..<Switched<63, IS_BIG, W> as Shape>::CONFIG };
    const ORDER: ByteOrder = if IS_BIG { ByteOrder::Big } else { ByteOrder::Little };

    fn ticks() -> u32 {
        NOW.get()
    }
    fn guard_word(nth: usize) -> W {
        W::cut(0x100 + nth as u64)
    }
}

fn overflow<W: Word>(block: u64, at: u64) -> NewError<W> {
    NewError {
        kind: ErrorKind::BufferOverflow,
        found_by: FoundBy::Canary,
        found_at: FoundAt::Free,
        direction: Some(Direction::Write),
        whereabouts: Some(Whereabouts::Heap),
        called: Kind::FREE,
        address: W::cut(at),
        bytes: W::cut(2),
        block: W::cut(block),
        block_bytes: W::cut(24),
        operands: [W::ZERO; 2],
        expected: [0x78, 0x56, 0xAD, 0xBA, 0xBD, 0xBD, 0xBD, 0xBD],
        found: [1, 2, 0xAD, 0xBA, 0xBD, 0xBD, 0xBD, 0xBD],
    }
}

fn errors<S: Shape>(ledger: &ChipLedger<S, Vec<S::Word>>) -> Vec<ErrorEntry> {
    let (bytes, header) = read(ledger);
    elements(&bytes, &header, SectionKind::Errors)
        .filter_map(|element| {
            assert_eq!(element.len(), 200);
            ErrorEntry::read(header.codec, element)
        })
        .collect()
}

/// A counter of the section `counters`.
fn further<S: Shape>(ledger: &ChipLedger<S, Vec<S::Word>>, counter: TallyCounter) -> u64 {
    let (bytes, header) = read(ledger);
    let word = header.codec.word.bytes();
    let mut all = elements(&bytes, &header, SectionKind::Counters)
        .map(|element| (header.codec.word(element, 0), header.codec.word(element, word)));
    all.find(|(number, _)| *number == counter as u64).map(|(_, amount)| amount).expect("a counter")
}

fn tells<const IS_BIG: bool, W: Word>() {
    NOW.set(0);
    let mut ledger = new::<Guarded<IS_BIG, W>>();
    let frames = [W::cut(0x101), W::cut(0x202)];
    let by = |frames| Caller { frames, running: Running::Task(W::cut(0x1000)), is_guessed: false };
    NOW.set(5);
    assert!(ledger.allocated(&block(0x2000_0100, 24), &by(&frames)));
    NOW.set(9);
    assert_eq!(ledger.known(W::cut(0x2000_0100)), BlockKnown::Live);
    assert!(ledger.error(&overflow(0x2000_0100, 0x2000_0118), &by(&frames[1..])));
    let [error] = errors(&ledger)[..] else { panic!("one error") };
    assert_eq!((error.kind, error.found_by, error.found_at, error.direction), (22, 4, 3, 2));
    assert_eq!((error.whereabouts, error.given_by, error.called), (3, Kind::MALLOC.0, Kind::FREE.0));
    assert_eq!((error.heap, error.address, error.bytes), (1, 0x2000_0118, 2));
    assert_eq!((error.block, error.block_bytes, error.allocated, error.freed), (0x2000_0100, 24, 1, 0));
    assert_eq!((error.first_time, error.last_time, error.repeats), (Ticks(9), Ticks(9), 0));
    let [given, access, nothing] = error.stacks;
    assert_eq!((given.tag, access.tag, nothing.tag), (StackTag::Allocation as u16, StackTag::Access as u16, 0));
    assert_eq!((given.thread.0, access.thread.0, given.time, access.time), (1, 1, Ticks(5), Ticks(9)));
    assert_eq!((stack(&ledger, given.site), stack(&ledger, access.site)), (vec![0x101, 0x202], vec![0x202]));
    assert_eq!((error.expected[0], error.found[..2].to_vec()), (0x78, vec![1, 2]));

    // The same again, at another time and place.
    NOW.set(12);
    assert!(ledger.error(&overflow(0x2000_0100, 0x2000_0119), &by(&frames[1..])));
    let [error] = errors(&ledger)[..] else { panic!("one error") };
    assert_eq!(
        (error.address, error.repeats, error.first_time, error.last_time),
        (0x2000_0118, 1, Ticks(9), Ticks(12))
    );

    // A freed block: an address in the middle of it is enough.
    assert!(ledger.freed(W::cut(0x2000_0100), Kind::FREE, &by(&frames)));
    assert_eq!(ledger.known(W::cut(0x2000_0100)), BlockKnown::Freed);
    assert_eq!(ledger.known(W::cut(0x2000_0108)), BlockKnown::Unknown);
    let freed = NewError { kind: ErrorKind::UseAfterFree, ..overflow(0, 0x2000_0110) };
    assert!(ledger.error(&freed, &by(&[])));
    let error = errors(&ledger)[1];
    assert_eq!((error.block, error.block_bytes, error.allocated, error.freed), (0x2000_0100, 24, 1, 2));
    let tags = error.stacks.map(|stack| stack.tag);
    assert_eq!(tags, [StackTag::Allocation, StackTag::Free, StackTag::Access].map(|tag| tag as u16));

    // There is no room for more.
    assert_eq!(further(&ledger, TallyCounter::ErrorsLost), 0);
    assert!(!ledger.error(&NewError { kind: ErrorKind::BadFree, ..overflow(0, 0x3000_0000) }, &by(&[])));
    ledger.count_guarded_less();
    assert_eq!((further(&ledger, TallyCounter::ErrorsLost), further(&ledger, TallyCounter::GuardedLess)), (1, 1));
    assert_eq!(errors(&ledger).len(), 2);
    assert!(ledger.is_whole());

    let (bytes, header) = read(&ledger);
    let said: Vec<u64> = elements(&bytes, &header, SectionKind::Guard)
        .flat_map(|row| {
            (0..chip_guard::ROW_WORDS).map(|nth| header.codec.word(row, nth * W::SIZE.bytes())).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(said, (0x100..0x108).collect::<Vec<u64>>());
}

#[test]
fn an_error_has_the_blocks_life() {
    tells::<false, u32>();
    tells::<true, u32>();
    tells::<false, u64>();
    tells::<true, u64>();
}
