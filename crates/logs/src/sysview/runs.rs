//! Events of a trace in the order of their times, however many: those that memory has no room for lie in a file without a name, in runs that
//! are in order by themselves.
//!
//! A trace has to be read to its end before its first event can be told: another core's stream stands behind it, and so may the names of tasks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use super::KeptEvent;
use super::books::{Happened, HeapEvent};
use crate::draft::nameless;

/// Events in memory: of more a run is made.
#[cfg(not(test))]
const RUN_EVENTS: usize = 1 << 20;
#[cfg(test)]
const RUN_EVENTS: usize = 64;
/// Bytes in memory of what events were.
const RUN_BYTES: usize = 32 << 20;
/// Bytes that all runs are read with at a time.
const READ_BYTES: usize = 16 << 20;

/// Events, with what each was if that is kept.
#[derive(Default)]
pub(super) struct HappenedRuns {
    /// In the order in which they came.
    events: Vec<Happened>,
    /// Of each of them, if all is kept.
    kept: Vec<KeptEvent>,
    kept_bytes: usize,
    file: Option<File>,
    /// Where each run lies in the file, and how many events it has.
    runs: Vec<(std::ops::Range<u64>, u64)>,
    /// The latest time.
    pub(super) last: u64,
}

/// A run that is being read.
struct RunReader<'f> {
    file: &'f File,
    rest: std::ops::Range<u64>,
    events: u64,
    read: Vec<u8>,
    at: usize,
    room: usize,
}

impl RunReader<'_> {
    /// The next so many bytes.
    fn bytes(&mut self, count: usize) -> io::Result<&[u8]> {
        if self.read.len() - self.at < count {
            self.read.drain(..self.at);
            self.at = 0;
            let have = self.read.len();
            let more = (self.room.max(count) - have).min((self.rest.end - self.rest.start) as usize);
            self.read.resize(have + more, 0);
            if let Some(place) = self.read.get_mut(have..) {
                self.file.read_exact_at(place, self.rest.start)?;
            }
            self.rest.start += more as u64;
        }
        let at = self.at;
        self.at += count;
        self.read.get(at..at + count).ok_or_else(|| io::Error::other("a temporary file was cut"))
    }

    fn number(&mut self) -> io::Result<u32> {
        Ok(self.bytes(4)?.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)))
    }

    /// The next event.
    fn next(&mut self) -> io::Result<Option<(Happened, Option<KeptEvent>)>> {
        if self.events == 0 {
            return Ok(None);
        }
        self.events -= 1;
        let ns = self.bytes(8)?.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let (core, tag) = match self.bytes(2)? {
            [core, tag] => (*core, *tag),
            _ => (0, 0),
        };
        let event = match tag & !KEPT {
            0 => HeapEvent::Alloc { address: self.number()?, size: self.number()?, stack: self.number()? },
            1 => HeapEvent::Free { address: self.number()?, stack: self.number()? },
            2 => HeapEvent::Task(self.number()?),
            3 => HeapEvent::Idle,
            4 => HeapEvent::IsrEnter(self.number()?),
            5 => HeapEvent::IsrExit,
            _ => HeapEvent::Other,
        };
        let kept = if tag & KEPT != 0 {
            let id = self.number()?;
            let numbers = (0..self.number()?).map(|_| self.number()).collect::<io::Result<_>>()?;
            let bytes = self.number()? as usize;
            let text = String::from_utf8_lossy(self.bytes(bytes)?).into_owned();
            Some(KeptEvent { id, numbers, text })
        } else {
            None
        };
        Ok(Some((Happened { ns, core, event }, kept)))
    }
}

/// In an event's tag: what it was follows.
const KEPT: u8 = 0x80;

fn put(out: &mut impl Write, happened: &Happened, kept: Option<&KeptEvent>) -> io::Result<()> {
    let (tag, numbers) = match happened.event {
        HeapEvent::Alloc { address, size, stack } => (0, [Some(address), Some(size), Some(stack)]),
        HeapEvent::Free { address, stack } => (1, [Some(address), Some(stack), None]),
        HeapEvent::Task(task) => (2, [Some(task), None, None]),
        HeapEvent::Idle => (3, [None; 3]),
        HeapEvent::IsrEnter(number) => (4, [Some(number), None, None]),
        HeapEvent::IsrExit => (5, [None; 3]),
        HeapEvent::Other => (6, [None; 3]),
    };
    out.write_all(&happened.ns.to_le_bytes())?;
    out.write_all(&[happened.core, tag | if kept.is_some() { KEPT } else { 0 }])?;
    numbers.into_iter().flatten().try_for_each(|number: u32| out.write_all(&number.to_le_bytes()))?;
    let Some(kept) = kept else { return Ok(()) };
    for number in [&kept.id, &(kept.numbers.len() as u32)].into_iter().chain(&kept.numbers) {
        out.write_all(&number.to_le_bytes())?;
    }
    out.write_all(&(kept.text.len() as u32).to_le_bytes())?;
    out.write_all(kept.text.as_bytes())
}

impl HappenedRuns {
    /// One more; of all of them what they were, or of none.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn push(&mut self, happened: Happened, kept: Option<KeptEvent>) -> io::Result<()> {
        self.last = self.last.max(happened.ns);
        self.events.push(happened);
        if let Some(kept) = kept {
            self.kept_bytes += size_of::<KeptEvent>() + kept.numbers.len() * 4 + kept.text.len();
            self.kept.push(kept);
        }
        if self.events.len() < RUN_EVENTS && self.kept_bytes < RUN_BYTES { Ok(()) } else { self.flush() }
    }

    /// Those in memory, in order: places.
    fn order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.events.len() as u32).collect();
        order.sort_by_key(|at| self.events.get(*at as usize).map(|happened| happened.ns));
        order
    }

    fn in_memory(&self, at: u32) -> Option<(&Happened, Option<&KeptEvent>)> {
        Some((self.events.get(at as usize)?, self.kept.get(at as usize)))
    }

    /// Makes a run of those in memory.
    fn flush(&mut self) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(self.events.len() * 22);
        for (happened, kept) in self.order().into_iter().filter_map(|at| self.in_memory(at)) {
            put(&mut bytes, happened, kept)?;
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(nameless()?),
        };
        let begin = self.runs.last().map_or(0, |(place, _)| place.end);
        file.write_all_at(&bytes, begin)?;
        self.runs.push((begin..begin + bytes.len() as u64, self.events.len() as u64));
        self.events.clear();
        self.kept.clear();
        self.kept_bytes = 0;
        Ok(())
    }

    /// Tells of all in the order of time, those of one time as they came.
    ///
    /// # Errors
    /// If the file cannot be read; and those of `tell`.
    pub(super) fn each(&self, tell: &mut dyn FnMut(&Happened, Option<&KeptEvent>) -> io::Result<()>) -> io::Result<()> {
        let order = self.order();
        let mut newest = order.into_iter().filter_map(|at| self.in_memory(at)).peekable();
        let (mut readers, mut heads, mut first) = (Vec::new(), Vec::new(), BinaryHeap::new());
        if let Some(file) = &self.file {
            let room = (READ_BYTES / self.runs.len().max(1)).clamp(4 << 10, 256 << 10);
            for (place, events) in &self.runs {
                let mut reader =
                    RunReader { file, rest: place.clone(), events: *events, read: Vec::new(), at: 0, room };
                let head = reader.next()?;
                first.extend(head.as_ref().map(|(happened, _)| Reverse((happened.ns, readers.len()))));
                readers.push(reader);
                heads.push(head);
            }
        }
        // Earlier runs have what came earlier.
        while let Some(Reverse((ns, at))) = first.pop() {
            while let Some((happened, kept)) = newest.next_if(|(happened, _)| happened.ns < ns) {
                tell(happened, kept)?;
            }
            let (Some(head), Some(reader)) = (heads.get_mut(at), readers.get_mut(at)) else { continue };
            if let Some((happened, kept)) = head.take() {
                tell(&happened, kept.as_ref())?;
            }
            *head = reader.next()?;
            first.extend(head.as_ref().map(|(happened, _)| Reverse((happened.ns, at))));
        }
        newest.try_for_each(|(happened, kept)| tell(happened, kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events of which every figure differs, in times that come again.
    fn made(number: u32) -> (Happened, KeptEvent) {
        let event = match number % 7 {
            0 => HeapEvent::Alloc { address: number, size: !number, stack: number << 9 },
            1 => HeapEvent::Free { address: number, stack: !number },
            2 => HeapEvent::Task(number),
            3 => HeapEvent::Idle,
            4 => HeapEvent::IsrEnter(number),
            5 => HeapEvent::IsrExit,
            _ => HeapEvent::Other,
        };
        let ns = u64::from(number.wrapping_mul(2_654_435_761) >> 22) << 40 | 5;
        let kept =
            KeptEvent {
                id: number, numbers: vec![number; number as usize % 3], text: "é".repeat(number as usize % 4)
            };
        (Happened { ns, core: number as u8, event }, kept)
    }

    #[test]
    fn however_many_there_are_they_come_in_the_order_of_time_and_as_they_came() {
        for count in [0, 1, 63, 64, 65, 1000, 5000] {
            for all in [false, true] {
                let mut runs = HappenedRuns::default();
                let mut expected = Vec::new();
                for (happened, kept) in (0..count).map(made) {
                    expected.push((happened, all.then(|| kept.clone())));
                    runs.push(happened, all.then_some(kept)).expect("there is room");
                }
                expected.sort_by_key(|(happened, _)| happened.ns);
                assert_eq!(runs.runs.len(), count as usize / RUN_EVENTS);
                // More than once, as whoever reads a trace that goes on.
                for _ in 0..2 {
                    let mut told = Vec::new();
                    runs.each(&mut |happened, kept| {
                        told.push((*happened, kept.cloned()));
                        Ok(())
                    })
                    .expect("it can be read");
                    assert_eq!(told.len(), expected.len());
                    assert!(told == expected, "{count} events, {all}");
                }
                assert_eq!(runs.last, expected.last().map_or(0, |(happened, _)| happened.ns));
            }
        }
    }

    #[test]
    fn who_is_told_can_end_it() {
        let mut runs = HappenedRuns::default();
        for (happened, _) in (0..200).map(made) {
            runs.push(happened, None).expect("there is room");
        }
        let mut told = 0;
        let ended = runs.each(&mut |_, _| {
            told += 1;
            if told == 150 { Err(io::Error::other("no more")) } else { Ok(()) }
        });
        assert!(ended.is_err() && told == 150);
    }
}
