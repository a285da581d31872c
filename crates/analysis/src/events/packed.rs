//! Events that follow each other, as bytes: of each, what differs from the one before it. Nothing is lost, whatever the
//! figures are; events of a program, in order, take 10 to 25 bytes each.

use heapledger_format::{Entry, FreedEntry, Kind, Site, ThreadRow, Ticks};

use super::{Event, EventKind};

/// Bits of an event's first byte: what it is, and which figures there are.
mod flag {
    pub(super) const FREE: u8 = 1;
    pub(super) const FREED: u8 = 2;
    pub(super) const SIZE: u8 = 4;
    pub(super) const ACTUAL: u8 = 8;
    pub(super) const TIME: u8 = 16;
    /// What [`Entry::steady`](heapledger_format::Entry::steady) gives is as of the event before.
    pub(super) const SAME: u8 = 32;
    pub(super) const CYCLES: u8 = 64;
}

/// Bits of a further byte that a free has.
mod end_flag {
    pub(super) const THREAD: u8 = 1;
    pub(super) const TIME: u8 = 2;
    pub(super) const LATER: u8 = 4;
    pub(super) const CORE: u8 = 8;
}

/// What the event before the first is taken to be.
const NONE: Event = Event { block: Entry::NONE, kind: EventKind::Allocation { freed: None } };

/// Events, packed.
#[derive(Clone, Debug, Default)]
pub(super) struct EventRun {
    bytes: Box<[u8]>,
}

impl EventRun {
    /// `spare` is emptied; it saves allocations.
    pub(super) fn of<'e>(events: impl Iterator<Item = &'e Event>, spare: &mut Vec<u8>) -> EventRun {
        spare.clear();
        let mut before = &NONE;
        for event in events {
            put_event(spare, before, event);
            before = event;
        }
        EventRun { bytes: spare.as_slice().into() }
    }

    pub(super) fn iter(&self) -> EventRunIter<'_> {
        EventRunIter { bytes: &self.bytes, before: NONE }
    }
}

/// See [`EventRun::iter`].
#[derive(Clone, Debug)]
pub(super) struct EventRunIter<'r> {
    bytes: &'r [u8],
    before: Event,
}

impl Iterator for EventRunIter<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let event = take_event(&mut self.bytes, &self.before)?;
        self.before = event;
        Some(event)
    }
}

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    let mut shift = 0;
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
}

/// Small if `value` is near `before`, on either side.
fn put_near(bytes: &mut Vec<u8>, before: u64, value: u64) {
    let by = value.wrapping_sub(before) as i64;
    put(bytes, (by << 1 ^ by >> 63) as u64);
}

fn take_near(bytes: &mut &[u8], before: u64) -> Option<u64> {
    let by = take(bytes)?;
    Some(before.wrapping_add((by >> 1) ^ (by & 1).wrapping_neg()))
}

fn put_event(bytes: &mut Vec<u8>, before: &Event, event: &Event) {
    let Event { block, kind } = event;
    let is = |bit: u8, set: bool| if set { bit } else { 0 };
    let steady = block.steady();
    let same = before.block.steady() == steady;
    bytes.push(
        is(flag::FREE, matches!(kind, EventKind::Free(_)))
            | is(flag::FREED, matches!(kind, EventKind::Allocation { freed: Some(_) }))
            | is(flag::SIZE, block.size.is_some())
            | is(flag::ACTUAL, block.actual.is_some())
            | is(flag::TIME, block.time.is_some())
            | is(flag::SAME, same)
            | is(flag::CYCLES, block.cycles.is_some()),
    );
    if !same {
        // 0 is what there is not.
        steady.iter().for_each(|figure| put(bytes, figure.map_or(0, |figure| figure + 1)));
    }
    put_near(bytes, before.number(), block.number);
    put_near(bytes, before.block.address, block.address);
    block.size.into_iter().for_each(|size| put(bytes, size));
    block.actual.into_iter().for_each(|actual| put_near(bytes, block.size.unwrap_or(0), actual));
    put_near(bytes, u64::from(before.block.site.0), u64::from(block.site.0));
    block.time.into_iter().for_each(|time| put_near(bytes, before.time().unwrap_or_default().0, time.0));
    block.cycles.into_iter().for_each(|cycles| put(bytes, u64::from(cycles)));
    // What the free says of the block is what the event says of it.
    if let Some(freed) = event.end() {
        let [number, time] = end_near(before, event);
        bytes.push(
            is(end_flag::THREAD, freed.thread.is_some())
                | is(end_flag::TIME, freed.time.is_some())
                | is(end_flag::LATER, freed.later != 0)
                | is(end_flag::CORE, freed.core.is_some()),
        );
        bytes.push(freed.by.0);
        put_near(bytes, number, freed.number);
        put_near(bytes, u64::from(before.site().0), u64::from(freed.site.0));
        freed.thread.into_iter().for_each(|thread| put(bytes, u64::from(thread.0)));
        freed.time.into_iter().for_each(|at| put_near(bytes, time, at.0));
        if freed.later != 0 {
            put(bytes, u64::from(freed.later));
        }
        bytes.extend(freed.core);
    }
}

/// What number and time of a free are near to: those of the event before, or of the allocation if that is the event.
fn end_near(before: &Event, event: &Event) -> [u64; 2] {
    let near = if matches!(event.kind, EventKind::Free(_)) { before } else { event };
    [near.number(), near.time().unwrap_or_default().0]
}

fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
    let (byte, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*byte)
}

fn take_event(bytes: &mut &[u8], before: &Event) -> Option<Event> {
    let flags = take_byte(bytes)?;
    let has = |bit: u8| flags & bit != 0;
    let mut steady = before.block.steady();
    if !has(flag::SAME) {
        for figure in &mut steady {
            *figure = take(bytes)?.checked_sub(1);
        }
    }
    let number = take_near(bytes, before.number())?;
    let address = take_near(bytes, before.block.address)?;
    let size = if has(flag::SIZE) { Some(take(bytes)?) } else { None };
    let actual = if has(flag::ACTUAL) { Some(take_near(bytes, size.unwrap_or(0))?) } else { None };
    let site = Site(take_near(bytes, u64::from(before.block.site.0))? as u32);
    let time = if has(flag::TIME) { Some(Ticks(take_near(bytes, before.time().unwrap_or_default().0)?)) } else { None };
    let cycles = if has(flag::CYCLES) { Some(take(bytes)? as u32) } else { None };
    let block = Entry { number, address, size, actual, site, time, cycles, ..Entry::NONE }.with_steady(steady);
    let mut event = Event { block, kind: EventKind::Allocation { freed: None } };
    if !has(flag::FREE | flag::FREED) {
        return Some(event);
    }
    let near = if has(flag::FREE) { before } else { &event };
    let [number, time] = [near.number(), near.time().unwrap_or_default().0];
    let flags = take_byte(bytes)?;
    let by = Kind(take_byte(bytes)?);
    let number = take_near(bytes, number)?;
    let site = Site(take_near(bytes, u64::from(before.site().0))? as u32);
    let thread = if flags & end_flag::THREAD != 0 { Some(ThreadRow(take(bytes)? as u32)) } else { None };
    let time = if flags & end_flag::TIME != 0 { Some(Ticks(take_near(bytes, time)?)) } else { None };
    let later = if flags & end_flag::LATER != 0 { take(bytes)? as u32 } else { 0 };
    let core = if flags & end_flag::CORE != 0 { Some(take_byte(bytes)?) } else { None };
    let freed = FreedEntry { block, number, later, by, site, thread, time, core };
    event.kind = if has(flag::FREE) { EventKind::Free(freed) } else { EventKind::Allocation { freed: Some(freed) } };
    Some(event)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Any figures, now and then those at the edges.
    pub(in super::super) fn events(count: usize) -> Vec<Event> {
        let mut seed = 1u64;
        let mut any = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = seed >> 20 & 63;
            match seed >> 56 {
                0..=9 => u64::MAX,
                10..=19 => 0,
                20..=29 => u64::MAX - value,
                _ => seed ^ seed >> value,
            }
        };
        let mut event = || {
            let bits = any();
            let some = |bit: u32, value: u64| Some(value).filter(|_| bits >> (bit + 8) & 1 == 1);
            // Of what is mostly the same, now and then the least and the greatest.
            let steady = Entry::NONE.steady();
            let mut bit = 5;
            let steady = steady.map(|_| {
                bit += 1;
                some(bit, if any() & 7 == 0 { u64::from(u32::MAX) } else { any() & 1 })
            });
            let block = Entry {
                number: any(),
                address: any(),
                size: some(0, any()),
                actual: some(1, any()),
                site: Site(any() as u32),
                time: some(4, any()).map(Ticks),
                cycles: some(11, any()).map(|cycles| cycles as u32),
                ..Entry::NONE.with_steady(steady)
            };
            let freed = FreedEntry {
                block,
                number: any(),
                later: any() as u32,
                by: Kind(any() as u8),
                site: Site(any() as u32),
                thread: some(3, any()).map(|row| ThreadRow(row as u32)),
                time: some(2, any()).map(Ticks),
                core: some(12, any()).map(|core| core as u8),
            };
            let kind = match bits >> 40 & 3 {
                0 => EventKind::Allocation { freed: None },
                1 => EventKind::Allocation { freed: Some(freed) },
                _ => EventKind::Free(freed),
            };
            Event { block, kind }
        };
        (0..count).map(|_| event()).collect()
    }

    #[test]
    fn any_event_comes_back() {
        let events = events(50_000);
        let mut spare = Vec::new();
        let run = EventRun::of(events.iter(), &mut spare);
        assert!(run.iter().eq(events.iter().copied()));
        assert!(
            events.iter().any(|event| event.block.thread == Some(ThreadRow(1)))
                && events.iter().any(|e| e.time().is_none())
        );
        assert_eq!(EventRun::of([].iter(), &mut spare).iter().next(), None);
        // Bytes that end early end the run, and nothing else.
        let cut = EventRun { bytes: run.bytes[..run.bytes.len() - 1].into() };
        assert_eq!(cut.iter().count(), events.len() - 1);
    }

    #[test]
    fn what_follows_each_other_is_small() {
        let events = (0..1000u64).map(|number| {
            let (size, thread) = (Some(16 + number % 50), Some(ThreadRow(number as u32 / 100)));
            let address = 0x5555_0000_0000 + number * 64 % 4096;
            let site = Site(7 + number as u32 % 90);
            let block = Entry {
                number,
                address,
                size,
                actual: size,
                time: Some(Ticks(number / 3)),
                thread,
                site,
                ..NONE.block
            };
            Event { block, kind: EventKind::Allocation { freed: None } }
        });
        let events: Vec<Event> = events.collect();
        let run = EventRun::of(events.iter(), &mut Vec::new());
        assert!(run.iter().eq(events.iter().copied()) && run.bytes.len() < 10 * events.len(), "{}", run.bytes.len());
    }
}
