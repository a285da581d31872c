//! On, paused and on again, through the functions that hooks call: the ledger agrees with the model at any moment, and says of
//! no block that it lives when it does not.

use heapledger_format::errors::ErrorKind;
use heapledger_format::{Kind, TallyCounter};
use heapledger_process::errors::FailedCall;
use heapledger_process::hooks::{self, AboutBlock, NewBlock, ReallocEnd, Usable};
use heapledger_process::options::Request;
use heapledger_process::switch::Recording;
use heapledger_recorder::policy::Reallocated;
use heapledger_unwind::Registers;

use crate::linux::{RING, SHARED, open_own_ledger, run_child, start_as};
use crate::model::{Block, Model, Subject as _};
use crate::sequence::Random;

fn new_block(block: &Block) -> NewBlock {
    let usable = Usable::Known(block.actual.unwrap_or(0) as usize);
    let (address, size) = (block.address as usize, block.size as usize);
    NewBlock { kind: block.kind, address, size, usable, heap: 0, about: AboutBlock::Nothing, alignment: None }
}

/// What a call that fails is said to be.
pub(crate) const REFUSED: FailedCall = FailedCall {
    why: ErrorKind::FailedAllocation,
    kind: Kind::REALLOC,
    size: 7,
    alignment: 0,
    operands: [0, 0],
    block: 0,
};

fn registers(here: &u8) -> Registers {
    Registers { sp: &raw const *here as u64, ..Registers::default() }
}

fn begin(block: &Block) {
    hooks::block_begins(&SHARED, hooks::ready(&SHARED), &registers(&0), &new_block(block));
}

fn end(address: u64) {
    let ready = hooks::ready(&SHARED).or_else(|| hooks::ready_while_paused(&SHARED));
    hooks::block_ends(&SHARED, ready, &registers(&0), address as usize, Kind::FREE, ());
}

fn pause(model: &mut Model) {
    if SHARED.switch.pause() {
        model.pause();
    }
}

fn resume(model: &mut Model) {
    if SHARED.switch.resume() {
        model.resume();
    }
}

/// Steps of any kind at some addresses, which come again soon.
fn steps(model: &mut Model, random: &mut Random, count: u64) {
    let mut linux = open_own_ledger();
    for step in 0..count {
        let address = |random: &mut Random| 0x7f00_1234_5000 + random.below(60) * 16;
        let block = |random: &mut Random, kind| {
            let size = random.below(5000);
            Block { kind, address: address(random), size, actual: Some(size + 8) }
        };
        match random.below(12) {
            0 => pause(model),
            1 => resume(model),
            2..=5 => {
                let block = block(random, Kind::MALLOC);
                // An address that lives already is one whose free nobody saw. Where blocks pass by, it is not looked at.
                if !model.live.contains_key(&block.address) || random.one_in(10) {
                    begin(&block);
                    model.begin(&block);
                }
            }
            6..=8 => {
                let address = address(random);
                end(address);
                model.end(address, Kind::FREE);
            }
            _ => {
                let old = address(random);
                let begun = hooks::realloc_begins(&SHARED, &registers(&0), old as usize, ());
                // The word changes while the real function runs.
                match random.below(4) {
                    0 => pause(model),
                    1 => resume(model),
                    _ => {}
                }
                let new = block(random, Kind::REALLOC);
                let is_taken = new.address != old && model.live.contains_key(&new.address);
                let (outcome, new, frees) = match random.below(4) {
                    0 => (Reallocated::Failed, None, false),
                    1 => (Reallocated::Freed, None, true),
                    _ if is_taken => (Reallocated::Failed, None, false),
                    _ => (Reallocated::Gave(new), Some(new_block(&new)), false),
                };
                let end =
                    ReallocEnd { begun: &begun, by: Kind::REALLOC, new, frees, is_inner: false, refused: REFUSED };
                if !hooks::realloc_ends(&SHARED, &registers(&0), &end) {
                    hooks::realloc_ends_slowly(&SHARED, &registers(&0), &end);
                }
                model.realloc(old, Kind::REALLOC, outcome, None);
            }
        }
        if step < 300 || step % 53 == 0 {
            model.expect(&linux.read(), &format!("step {step}"));
        }
    }
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn pauses() {
    let Ok(ring) = std::env::var(RING) else { return };
    let ring: usize = ring.parse().expect("a number");
    let mut request = Request::of_environment();
    // Begun paused: armed, and nothing is entered.
    request.paused = true;
    start_as(&request);
    let mut model = Model::new(usize::MAX, ring);
    model.pause();
    assert_eq!(SHARED.switch.get(), Recording::Paused);
    begin(&Block { kind: Kind::MALLOC, address: 0x7000, size: 1, actual: Some(8) });
    hooks::call_failed(&SHARED, &registers(&0), &REFUSED);
    model.expect(&open_own_ledger().read(), "armed");
    resume(&mut model);
    steps(&mut model, &mut Random(ring as u64), 4000);
    // Nobody goes on from off.
    heapledger_process::start::stop(&SHARED, heapledger_process::start::Stops::Early);
    assert!(!SHARED.switch.pause() && !SHARED.switch.resume());
    let before = open_own_ledger().read().tallies().expect("tallies").get(TallyCounter::Allocations);
    begin(&Block { kind: Kind::MALLOC, address: 0x9000, size: 1, actual: Some(8) });
    end(0x9000);
    assert_eq!(open_own_ledger().read().tallies().expect("tallies").get(TallyCounter::Allocations), before);
}

#[test]
fn a_paused_ledger_agrees_with_the_model() {
    for ring in [64, 65_536] {
        run_child("switch::pauses", ring);
    }
}
