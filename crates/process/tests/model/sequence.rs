//! Random sequences of calls.

use crate::model::{Block, Model, Subject};
use heapledger_format::Kind;
use heapledger_recorder::policy::Reallocated;

/// A linear congruential generator: the same sequence on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }

    pub(crate) fn one_in(&mut self, chance: u64) -> bool {
        self.below(chance) == 0
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

/// What calls can be made of.
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) steps: u64,
    /// The ledger is read after every step up to this one, and then after every 97th.
    pub(crate) every_step_until: u64,
    pub(crate) lowest_address: u64,
    /// Addresses in use; the fewer, the more often one comes again.
    pub(crate) addresses: u64,
    pub(crate) size_max: u64,
    /// Most by which a block is larger than what was asked for.
    pub(crate) excess_max: u64,
}

/// Distances within a granule of 32 bytes: as glibc, jemalloc and pools place blocks.
const DISTANCES: [u64; 8] = [0, 16, 8, 24, 1, 9, 31, 30];

/// Makes random calls and compares the ledger with the model.
pub(crate) fn run(subject: &mut dyn Subject, mut model: Model, plan: &Plan) {
    let allocating: Vec<Kind> = Kind::ALL.iter().copied().filter(|kind| kind.allocates() && !kind.frees()).collect();
    let freeing: Vec<Kind> = Kind::ALL
        .iter()
        .copied()
        .filter(|kind| kind.frees() && !kind.allocates() && *kind != Kind::UNSEEN && kind.number() == kind.0)
        .collect();
    let random = &mut Random(plan.seed);
    let address = |random: &mut Random| {
        let place = random.below(plan.addresses);
        plan.lowest_address + place / 8 * 32 + DISTANCES[place as usize % 8]
    };
    let block = |random: &mut Random, kind, address| {
        let size = if random.one_in(50) { plan.size_max - random.below(100) } else { random.below(5000) };
        // Some have more room than a record's narrow field tells.
        let more = if random.one_in(100) { plan.excess_max } else { random.below(100) };
        Block { kind, address, size, actual: Some(size + more) }
    };
    for step in 0..plan.steps {
        let some = address(random);
        let known = model.live.keys().nth(random.below(model.live.len().max(1) as u64) as usize).copied();
        let what;
        match (random.below(10), known) {
            (0..=3, _) | (_, None) => {
                // An address that lives already is one whose free nobody saw; that is rare.
                let occupied = model.live.contains_key(&some);
                if occupied && !random.one_in(10) {
                    continue;
                }
                let kind = random.of(&allocating);
                let block = block(random, kind, some);
                what = format!("step {step}: {block:x?}");
                assert_eq!(subject.begin(&block), model.begin(&block), "{what}");
            }
            (4..=6, Some(known)) => {
                let address = if random.one_in(10) { some } else { known };
                let by = random.of(&freeing);
                what = format!("step {step}: {by} {address:#x}");
                assert_eq!(subject.end(address, by), model.end(address, by), "{what}");
            }
            (_, Some(known)) => {
                let old = if random.one_in(10) { some } else { known };
                let kind = random.of(&[Kind::REALLOC, Kind::REALLOCARRAY]);
                let new_address = if random.one_in(3) { old } else { address(random) };
                let new = (!random.one_in(3)).then(|| block(random, kind, new_address));
                let freed = new.is_none() && random.one_in(2);
                // Another thread gets the old address while the call is under way: only if it really was freed.
                let reused = (freed || new_address != old && new.is_some()) && random.one_in(3);
                let between = reused.then(|| block(random, Kind::MALLOC, old));
                let outcome = Reallocated::of(new, freed);
                what = format!("step {step}: {kind} {old:#x} -> {outcome:x?}, between {between:x?}");
                assert_eq!(
                    subject.realloc(old, kind, outcome, between.as_ref()),
                    model.realloc(old, kind, outcome, between.as_ref()),
                    "{what}"
                );
            }
        }
        if step < plan.every_step_until || step % 97 == 0 || step + 1 == plan.steps {
            model.expect(&subject.read(), &what);
        }
    }
}
