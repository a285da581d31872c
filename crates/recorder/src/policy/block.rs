//! A block begins, and ends.

use crate::backend::{Backend, Begun, CallEffect, Change, Ended, Freed, Inserted, Measure, Number, Slot};
use heapledger_format::{Entry, Kind, LabelId, Site, TallyCounter, Ticks};

/// Enters a block. Returns whether it is in the ledger now; if not, the reason was counted.
#[cfg_attr(target_arch = "x86_64", inline(always))]
pub fn begin<B: Backend>(backend: &mut B, block: &Begun) -> bool {
    let Some((slot, at)) = reserve(backend, block) else { return false };
    record(backend, block, slot, at)
}

/// What a block needs before it can be entered: a slot, a number, and the time. If there is none, that is counted.
#[cfg_attr(target_arch = "x86_64", inline(always))]
pub(super) fn reserve<B: Backend>(backend: &mut B, block: &Begun) -> Option<(Slot, (Number, Ticks))> {
    let kind = block.kind;
    let Some(slot) = backend.take_slot() else {
        backend.aside(|backend| not_entered(backend, kind, None));
        return None;
    };
    let Some(number) = backend.number_of(block) else {
        backend.aside(|backend| not_entered(backend, kind, Some(slot)));
        return None;
    };
    Some((slot, (number, backend.now())))
}

#[cold]
#[inline(never)]
fn not_entered<B: Backend>(backend: &mut B, kind: Kind, slot: Option<Slot>) {
    if let Some(slot) = slot {
        backend.release_slot(slot);
    }
    backend.count_call(kind, CallEffect::Gives, 1);
    backend.count(TallyCounter::LostNoRecord, 1);
}

/// Fills a slot with the record of a block, lets its address lead there, and counts the call.
#[cfg_attr(target_arch = "x86_64", inline(always))]
pub(super) fn record<B: Backend>(backend: &mut B, block: &Begun, slot: Slot, (number, time): (Number, Ticks)) -> bool {
    let entry = Entry {
        number: number.0,
        address: block.address,
        size: Some(block.size),
        actual: block.actual,
        kind: block.kind,
        site: block.site,
        thread: backend.thread(),
        heap: Some(block.heap),
        time: Some(time),
        label: LabelId::NONE,
        core: None,
        cycles: None,
    };
    backend.publish(slot, &entry, block.alignment);
    match backend.insert(block.address, slot) {
        Inserted::Done => {}
        Inserted::Displaced(old) => backend.aside(|backend| displaced(backend, old, number, time)),
        Inserted::Full => {
            backend.vacate(slot);
            backend.release_slot(slot);
            // Losses are counted one by one, for however many blocks a sample would have stood.
            backend.count_call(block.kind, CallEffect::Gives, 1);
            backend.count(TallyCounter::LostNoIndex, 1);
            return false;
        }
    }
    let weight = backend.weigh(block, number);
    backend.count_call(block.kind, CallEffect::Gives, weight);
    let bytes = block.size.wrapping_mul(weight);
    backend.count(TallyCounter::Allocations, weight);
    backend.count(TallyCounter::BytesAllocated, bytes);
    backend.live(Change { bytes: bytes as i64, blocks: weight as i64 }, time);
    true
}

/// The address belonged to another block, whose free nobody saw.
#[cold]
#[inline(never)]
pub(super) fn displaced<B: Backend>(backend: &mut B, old: Slot, number: Number, time: Ticks) {
    backend.count(TallyCounter::Displaced, 1);
    close(backend, old, number, &Ended { by: Kind::UNSEEN, site: Site::NONE }, time);
}

/// Takes a block out of the ledger, before the real free. Returns whether the ledger knew it.
#[cfg_attr(target_arch = "x86_64", inline(always))]
pub fn end<B: Backend>(backend: &mut B, address: u64, ended: &Ended) -> bool {
    end_looked_at(backend, address, ended, |_, _, _| {})
}

/// The same; `look` is shown the slot, in which the record still is, and the number of its end.
#[cfg_attr(target_arch = "x86_64", inline(always))]
pub fn end_looked_at<B: Backend>(
    backend: &mut B,
    address: u64,
    ended: &Ended,
    look: impl FnOnce(&mut B, Slot, Number),
) -> bool {
    let Some(slot) = backend.remove(address) else {
        let by = ended.by;
        backend.aside(|backend| unknown(backend, by));
        return false;
    };
    let number = backend.number_of_end(slot, address).unwrap_or(Number::LAST);
    look(backend, slot, number);
    let time = backend.now();
    close(backend, slot, number, ended, time);
    true
}

/// Counts a free of a block that the ledger does not know.
pub(super) fn unknown<B: Backend>(backend: &mut B, by: Kind) {
    if backend.counts_unknown() {
        backend.count_call(by, CallEffect::Takes, 1);
        backend.count(TallyCounter::UnknownFrees, 1);
    }
}

#[cfg_attr(target_arch = "x86_64", inline(always))]
pub(super) fn close<B: Backend>(backend: &mut B, slot: Slot, number: Number, ended: &Ended, time: Ticks) {
    retire(backend, slot, (number, 0), ended, time);
    backend.expected_history();
    backend.vacate(slot);
    backend.release_slot(slot);
}

/// Books the end of the record in `slot`, whose slot stays with the caller.
#[cfg_attr(target_arch = "x86_64", inline(always))]
pub(super) fn retire<B: Backend>(
    backend: &mut B,
    slot: Slot,
    (number, later): (Number, u32),
    ended: &Ended,
    time: Ticks,
) {
    let Some(Measure { bytes, weight }) = backend.measure(slot) else { return };
    backend.history(slot, &Freed { number, later, ended: *ended, time });
    let bytes = bytes.wrapping_mul(weight);
    backend.count_call(ended.by, CallEffect::Takes, weight);
    backend.count(TallyCounter::Frees, weight);
    backend.count(TallyCounter::BytesFreed, bytes);
    backend.live(Change { bytes: (bytes as i64).wrapping_neg(), blocks: (weight as i64).wrapping_neg() }, time);
}
