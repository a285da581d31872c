//! The history in the order of frees, without ever holding it.
//!
//! Threads of a recorder lease a small part of the ring at a time and fill it alone, so that parts are in order by
//! themselves and among each other, but for a few: those of threads that free seldom, and the one where the ring ends.
//! A first walk notes the least number of each group of entries. A second one reads the groups by these, and gives
//! away what is less than that of the next. What is held are the groups that overlap. Of a ring in no order that is all
//! of it: the order is right with any.

use super::out::PIECE_BYTES;
use crate::SourceError;
use crate::records::{Buffers, Elements};

/// Entries of a group: what recorders lease at a time, but any figure would do.
const GROUP: u64 = 64;
/// Groups read before some of their entries are given away: as many as are read at once.
const GROUPS_AT_ONCE: usize = 64;

/// A group of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    /// Least commit word.
    least: u64,
    /// Its first entry.
    first: u64,
}

/// Calls `each` with some entries at a time of a live ledger, all in the order of their commit words. Gives how many
/// were being written.
pub(super) fn in_order(
    elements: &Elements<'_>,
    each: &mut dyn FnMut(&[u8]) -> Result<(), SourceError>,
) -> Result<u64, SourceError> {
    let mut buffers = Buffers::default();
    let groups = groups(elements, &mut buffers)?;
    let mut held = HeldEntries::with_room(groups.len().min(GROUPS_AT_ONCE) * GROUP as usize, elements.element_bytes());
    let (mut next, mut in_flight) = (0, 0);
    while next < groups.len() {
        // The more is held, the more is added before it is sorted: else much that overlaps would be sorted often.
        let more = GROUPS_AT_ONCE.max(held.order.len() / GROUP as usize);
        let stop = groups.len().min(next + more);
        while let Some(group) = groups.get(next).filter(|_| next < stop) {
            let room = (stop - next).min((elements.stride() / GROUP) as usize).max(1);
            let behind = groups.iter().skip(next).zip(0..room as u64);
            let count = behind.take_while(|(other, index)| other.first == group.first + index * GROUP).count();
            let (mut at, end) = (group.first, group.first + count as u64 * GROUP);
            while at < end {
                let step = elements.read_some(at, end - at, &mut buffers, &mut |decoder, element, _| {
                    held.add(decoder.freed_commit(element), element);
                })?;
                in_flight += step.in_flight;
                // Nothing more is there: the file was cut meanwhile.
                at = if step.passed == 0 { end } else { at + step.passed };
            }
            next += count;
        }
        held.give(groups.get(next).map(|group| group.least), each)?;
    }
    Ok(in_flight)
}

/// All groups that are not vacant, by their least entries.
fn groups(elements: &Elements<'_>, buffers: &mut Buffers) -> Result<Vec<Group>, SourceError> {
    let mut groups: Vec<Group> = Vec::new();
    let mut at = 0;
    loop {
        let passed = elements.glance(at, buffers, &mut |place, commit| match groups.last_mut() {
            Some(last) if last.first == place / GROUP * GROUP => last.least = last.least.min(commit),
            _ => groups.push(Group { least: commit, first: place / GROUP * GROUP }),
        })?;
        if passed == 0 {
            break;
        }
        at += passed;
    }
    groups.sort_unstable();
    Ok(groups)
}

/// Entries that wait for others which come before them.
#[derive(Default)]
struct HeldEntries {
    bytes: Vec<u8>,
    /// Commit words, and where the entries lie in `bytes`.
    order: Vec<(u64, usize)>,
    element_bytes: usize,
    /// What is given away at a time, and what remains.
    other: Vec<u8>,
}

impl HeldEntries {
    /// With room for so many: to grow, each time by as much as is there, takes three times the memory.
    fn with_room(count: usize, element_bytes: usize) -> HeldEntries {
        let bytes = Vec::with_capacity(count.saturating_mul(element_bytes).min(PIECE_BYTES));
        let order = Vec::with_capacity(count);
        HeldEntries { bytes, order, element_bytes, other: Vec::new() }
    }

    fn add(&mut self, commit: u64, element: &[u8]) {
        self.order.push((commit, self.bytes.len()));
        self.bytes.extend_from_slice(element);
        self.element_bytes = element.len();
    }

    /// Gives away all below `bound`.
    fn give(
        &mut self,
        bound: Option<u64>,
        each: &mut dyn FnMut(&[u8]) -> Result<(), SourceError>,
    ) -> Result<(), SourceError> {
        // Mostly in order already, for which this sort is made.
        self.order.sort();
        let ready = bound.map_or(self.order.len(), |bound| self.order.partition_point(|(commit, _)| *commit < bound));
        let HeldEntries { bytes, order, element_bytes, other } = self;
        // Where they lie in order, nothing is moved: what is given is one part, and what remains the other.
        let mut places = order.iter().map(|(_, at)| *at);
        let mut before = places.next().filter(|at| *at == 0);
        let lie_in_order = before.is_some() && {
            places.all(|at| before.replace(at).is_some_and(|before| before + *element_bytes == at))
        };
        if lie_in_order {
            let given = ready * *element_bytes;
            each(bytes.get(..given).unwrap_or(&[]))?;
            order.drain(..ready);
            order.iter_mut().for_each(|(_, at)| *at -= given);
            bytes.drain(..given.min(bytes.len()));
            return Ok(());
        }
        let element = |at: usize| bytes.get(at..at + *element_bytes).unwrap_or(&[]);
        other.clear();
        order.drain(..ready).for_each(|(_, at)| other.extend_from_slice(element(at)));
        each(other)?;
        other.clear();
        for (_, at) in order {
            let remaining = element(*at);
            *at = other.len();
            other.extend_from_slice(remaining);
        }
        std::mem::swap(bytes, other);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_given_in_order_whether_they_came_so_or_not() {
        let mut seed = 88172645463325252u64;
        let mut next = |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 20) % below
        };
        for round in 0..2000 {
            let (mut held, mut given) = (HeldEntries::default(), Vec::new());
            let mut each = |bytes: &[u8]| {
                given.extend(bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)));
                Ok(())
            };
            let (mut bound, mut all) = (0, Vec::new());
            for _ in 0..next(6) {
                // None is less than what was given before. Some rounds come in order.
                let mut some: Vec<u64> = (0..next(9)).map(|_| bound + next(20)).collect();
                if round % 2 == 0 {
                    some.sort_unstable();
                }
                some.iter().for_each(|commit| held.add(*commit, &commit.to_le_bytes()));
                all.extend(some);
                bound += next(20);
                held.give(Some(bound), &mut each).expect("given");
            }
            held.give(None, &mut each).expect("given");
            all.sort_unstable();
            assert_eq!(given, all);
        }
    }
}
