//! A program may write over the ledger, as over anything else: what is recorded then may be wrong, but nothing panics, every search ends, and so does
//! the ledger where its region does.

use super::*;

/// As everything, told how much there is room for.
struct Told;

static ROOM: Room = Everything::CONFIG.room::<u32>();

impl Shape for Told {
    type Word = u32;
    const CONFIG: Config<'static> = Config { sites: 60, ..Everything::CONFIG };
    const ROOM: Option<fn() -> &'static Room> = Some(|| &ROOM);
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 32
    }

    fn below(&mut self, most: usize) -> usize {
        self.next() as usize % most
    }
}

/// One call of any kind.
fn call<S: Shape>(ledger: &mut ChipLedger<S, Vec<S::Word>>, random: &mut Random) {
    let address = 0x2000_0000 + random.next() % 30 * 8;
    let frames = [0x100 + random.next() % 40, 0x50].map(S::Word::cut);
    let running = match random.below(4) {
        0 => Running::Interrupt,
        task => Running::Task(S::Word::cut(0x100 * task as u64)),
    };
    let caller = Caller { running, ..caller(&frames) };
    match random.below(12) {
        0 => {
            let detached = ledger.realloc_begins(S::Word::cut(address));
            ledger.realloc_ends(detached, Kind::REALLOC, Reallocated::Gave(block(address ^ 0x40, 9)), &caller);
        }
        1 => {
            let detached = ledger.realloc_begins(S::Word::cut(address));
            ledger.realloc_ends(detached, Kind::REALLOC, Reallocated::Failed, &caller);
        }
        2 => {
            ledger.task_begins(S::Word::cut(0x100 * (random.next() % 5)), 7, "a name");
        }
        3 => ledger.task_ends(S::Word::cut(0x100 * (random.next() % 5))),
        4 => {
            ledger.live_after(None, &mut [S::Word::ZERO; 4]);
        }
        5 => {
            ledger.is_whole();
        }
        6..9 => {
            ledger.freed(S::Word::cut(address), Kind::FREE, &caller);
        }
        _ => {
            ledger.allocated(&block(address, 8), &caller);
        }
    }
}

fn is_survived<S: Shape>() {
    let mut random = Random(1);
    for _ in 0..1500 {
        let mut ledger = new::<S>();
        (0..40).for_each(|_| call(&mut ledger, &mut random));
        let mut words: Vec<S::Word> = ledger.region().to_vec();
        for _ in 0..=random.below(12) {
            let place = random.below(words.len());
            // A small number, one with a bit more, or any.
            words[place] = match random.below(3) {
                0 => S::Word::cut(random.next() % 24),
                1 => words[place].or(S::Word::cut(1 << (random.next() % 32))),
                _ => S::Word::cut(random.next() << 32 | random.next()),
            };
        }
        let mut ledger = ChipLedger::<S, Vec<S::Word>>::lent(words).expect("as large as before");
        (0..80).for_each(|_| call(&mut ledger, &mut random));
    }
}

#[test]
fn nothing_panics_and_every_search_ends() {
    is_survived::<Everything>();
    is_survived::<Told>();
    is_survived::<Switched<63, true, u32>>();
    is_survived::<Switched<63, false, u64>>();
}
