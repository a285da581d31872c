//! Looks at a program from outside while it runs: what its ledger says that lives, and what memory its process has.
//!
//! Nothing of it costs the program anything: the header of its ledger and the totals of its threads are read from the file, the rest the
//! kernel says. A look that takes long is made less often, so that with waking up for it about a hundredth of a processor goes into it at most.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use heapledger_format::bytes::Codec;
use heapledger_format::header::counter_at;
use heapledger_format::timeline::{TimePoint, by, known};
use heapledger_format::{GlobalCounter, Header, Ticks};
use heapledger_source::Curve;

use crate::keep::Kept;
use crate::totals::Totals;

/// Between two looks, however coarse the curve is by now.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// A look may take one part in so many of the time; to wake up for it takes as much again.
const ONE_PART_IN: u32 = 300;
/// The same at the beginning, for so long: a short program's curve is to have more than a few points.
const ONE_PART_IN_AT_FIRST: u32 = 100;
const AT_FIRST: Duration = Duration::from_millis(500);
/// Most bytes of what the kernel says of a process.
const PROC_BYTES: usize = 8 << 10;

/// A process that is looked at.
pub(crate) struct Looks {
    status: Option<File>,
    stat: Option<File>,
    exe: PathBuf,
    since: Instant,
    next: Instant,
    /// Between the last look and that.
    pause: Duration,
    /// How long the last look took, a wait for a processor included.
    took: Duration,
}

/// What was seen of one ledger's program.
pub(crate) struct KeptCurve {
    curve: Curve,
    /// What the process executed when it was first looked at.
    exe: Option<PathBuf>,
    /// The beginning of the ledger: so long before `seen`.
    age: Duration,
    seen: Instant,
    tick_ns: u32,
    last: Ticks,
    peak: u64,
    /// What the recorder's library takes: memory of its file, and not anonymous. It is part of the rest, which was never less.
    library_bytes: u64,
}

/// Parts of the recorder's memory that are anonymous.
const TABLES: [GlobalCounter; 5] = [
    GlobalCounter::SitesPrivateBytes,
    GlobalCounter::ShadowBytes,
    GlobalCounter::ThreadsPrivateBytes,
    GlobalCounter::GuardTablesBytes,
    GlobalCounter::GuardWaitingBytes,
];

/// What the kernel says of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ProcessMemory {
    /// Anonymous memory that is present, and what is swapped out.
    anonymous: Option<(u64, u64)>,
    /// Page faults without reading from a disk, and with.
    faults: Option<(u64, u64)>,
}

impl Looks {
    pub(crate) fn at(pid: i32) -> Looks {
        let open = |name: &str| File::open(format!("/proc/{pid}/{name}")).ok();
        let exe = PathBuf::from(format!("/proc/{pid}/exe"));
        Looks {
            status: open("status"),
            stat: open("stat"),
            exe,
            since: Instant::now(),
            next: Instant::now(),
            pause: Duration::ZERO,
            took: Duration::ZERO,
        }
    }

    /// How long nothing need be looked at.
    pub(crate) fn patience(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Looks, if it is time.
    pub(crate) fn look(&mut self, kept: &mut Kept) {
        let now = Instant::now();
        // Whoever woke for something else shortly before need not wake again.
        if now + self.pause / 8 < self.next {
            return;
        }
        self.look_now(kept, true);
        let width = kept.curve.as_ref().map_or(Duration::ZERO, KeptCurve::width);
        // Where it had to wait for a processor, the look before says better what it takes.
        let took = now.elapsed();
        let part = if self.since.elapsed() < AT_FIRST { ONE_PART_IN_AT_FIRST } else { ONE_PART_IN };
        let least = took.min(self.took).saturating_mul(part);
        self.took = took;
        self.pause = width.clamp(Duration::from_millis(10), PAUSE_MAX).max(least);
        self.next = now + self.pause;
    }

    /// Looks at once. `runs`: the program is that of this ledger still.
    pub(crate) fn look_now(&mut self, kept: &mut Kept, runs: bool) {
        let Some(header) = kept.header() else { return };
        // A peak that is read before totals is one of what these count; one that comes while they are read belongs to the next look.
        let (at, before) = (Instant::now(), Rest::read(kept, header.codec));
        let totals = Totals::read(&header, &|bytes, at| kept.read(bytes, at));
        let (Some(before), Some(totals), Some(after)) = (before, totals, Rest::read(kept, header.codec)) else {
            return;
        };
        let exe = fs::read_link(&self.exe).ok();
        let curve = match &mut kept.curve {
            Some(curve) => curve,
            None => match KeptCurve::begin(&header, exe.clone()) {
                Some(curve) => kept.curve.insert(curve),
                None => return,
            },
        };
        // What another program has that the process became, which is not recorded, is not this one's.
        let memory = if runs && exe.is_some() && exe == curve.exe { self.memory() } else { ProcessMemory::default() };
        curve.add(at, totals, after.with_peak_of(before), memory);
    }

    fn memory(&self) -> ProcessMemory {
        let text = |file: &Option<File>| {
            // Not on the stack: whoever started us may have left us little of that.
            let mut bytes = vec![0; PROC_BYTES];
            let there = file.as_ref()?.read_at(&mut bytes, 0).ok()?;
            Some(String::from_utf8_lossy(bytes.get(..there)?).into_owned())
        };
        ProcessMemory {
            anonymous: text(&self.status).and_then(|status| anonymous(&status)),
            faults: text(&self.stat).and_then(|stat| faults(&stat)),
        }
    }
}

/// The lines `RssAnon` and `VmSwap` of `/proc/PID/status`, in bytes. A process that has ended has none.
fn anonymous(status: &str) -> Option<(u64, u64)> {
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some((of("RssAnon")?, of("VmSwap").unwrap_or(0)))
}

/// Fields 10 and 12 of `/proc/PID/stat`. The name before them may hold anything.
fn faults(stat: &str) -> Option<(u64, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let minor = fields.nth(7)?.parse().ok()?;
    Some((minor, fields.nth(1)?.parse().ok()?))
}

/// What the header says when totals have been read: then what lives is not more than the peak and by how much that may be off.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    peak_bytes: u64,
    /// How much more may live: what threads have not told yet, nothing as long as there is one, whose peak is exact.
    peak_error: u64,
    peak_time: u64,
    peak_blocks: u64,
    private_bytes: u64,
    /// Parts of these that are known to be anonymous memory.
    tables_bytes: u64,
}

impl Rest {
    fn read(kept: &Kept, codec: Codec) -> Option<Rest> {
        let first = counter_at(codec.word, 0);
        let mut bytes = vec![0; counter_at(codec.word, GlobalCounter::ALL.len()) - first];
        kept.read(&mut bytes, first as u64)?;
        let counter = |counter: GlobalCounter| {
            let at = counter_at(codec.word, counter as usize) - first;
            bytes.get(at..at + codec.word.bytes()).map(|word| codec.word(word, 0))
        };
        Some(Rest {
            peak_bytes: counter(GlobalCounter::PeakBytes)?,
            peak_error: counter(GlobalCounter::PeakError)?,
            peak_time: counter(GlobalCounter::PeakTime)?,
            peak_blocks: counter(GlobalCounter::PeakBlocks)?,
            private_bytes: counter(GlobalCounter::PrivateBytes)?,
            tables_bytes: TABLES.iter().try_fold(0u64, |sum, table| Some(sum.saturating_add(counter(*table)?)))?,
        })
    }

    /// The same with the peak as it was before; what may live is as much as now.
    fn with_peak_of(self, before: Rest) -> Rest {
        let most = self.peak_bytes.saturating_add(self.peak_error);
        let Rest { peak_bytes, peak_time, peak_blocks, .. } = before;
        Rest { peak_bytes, peak_time, peak_blocks, peak_error: most.saturating_sub(peak_bytes), ..self }
    }
}

impl KeptCurve {
    /// `None`: it does not say when it began.
    fn begin(header: &Header, exe: Option<PathBuf>) -> Option<KeptCurve> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let tick_ns = Some(header.tick_ns).filter(|ns| *ns != 0)?;
        let began = Duration::from_nanos(Some(header.start_unix_ns).filter(|ns| *ns != 0)?);
        let (age, seen) = (now.saturating_sub(began), Instant::now());
        Some(KeptCurve {
            curve: Curve::new(tick_ns),
            exe,
            age,
            seen,
            tick_ns,
            last: Ticks(0),
            peak: 0,
            library_bytes: u64::MAX,
        })
    }

    fn width(&self) -> Duration {
        Duration::from_nanos(self.curve.width().0.saturating_mul(u64::from(self.tick_ns)))
    }

    /// The intervals, in order.
    pub(crate) fn points(&self) -> &[TimePoint] {
        self.curve.points()
    }

    fn add(&mut self, at: Instant, totals: Totals, rest: Rest, memory: ProcessMemory) {
        let age = (self.age + at.saturating_duration_since(self.seen)).as_nanos() / u128::from(self.tick_ns);
        self.add_at(Ticks(u64::try_from(age).unwrap_or(u64::MAX)), totals, rest, memory);
    }

    fn add_at(&mut self, now: Ticks, totals: Totals, rest: Rest, memory: ProcessMemory) {
        let is_first = self.curve.points().is_empty();
        let begin = if is_first { now } else { self.last };
        let now = now.max(begin);
        let live = totals.live_bytes().min(rest.peak_bytes.saturating_add(rest.peak_error));
        if rest.private_bytes != 0 {
            self.library_bytes = self.library_bytes.min(rest.private_bytes.saturating_sub(rest.tables_bytes));
        }
        let own_bytes = rest.private_bytes.saturating_sub(self.library_bytes);
        let if_some = |is: bool, what: u16| if is { what } else { 0 };
        let (resident, swapped) = memory.anonymous.unwrap_or_default();
        let (minor_faults, major_faults) = memory.faults.unwrap_or_default();
        let mut point = TimePoint {
            begin,
            looks: 1,
            by: by::OUTSIDE,
            known: known::TOTALS
                | known::BLOCKS
                | if_some(memory.anonymous.is_some(), known::RESIDENT)
                | if_some(memory.faults.is_some(), known::FAULTS),
            live_bytes: live,
            highest_bytes: live,
            highest_blocks: totals.allocations.saturating_sub(totals.frees),
            highest_time: now,
            lowest_bytes: live,
            allocations: totals.allocations,
            frees: totals.frees,
            bytes_allocated: totals.bytes_allocated,
            resident_bytes: resident.saturating_sub(own_bytes),
            swapped_bytes: swapped,
            minor_faults,
            major_faults,
            ..TimePoint::default()
        }
        .with_end(now);
        // A peak from before the first look is where the recorder has it.
        if rest.peak_bytes > self.peak && !is_first {
            point.raise(&TimePoint {
                highest_bytes: rest.peak_bytes,
                highest_blocks: rest.peak_blocks,
                highest_time: Ticks(rest.peak_time.clamp(begin.0, now.0)),
                known: known::BLOCKS,
                ..TimePoint::default()
            });
        }
        (self.last, self.peak) = (now, rest.peak_bytes);
        self.curve.add(point);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read() {
        let status = "Name:\tRssAnon: 7 kB\nVmRSS:\t 9 kB\nRssAnon:\t    1234 kB\nVmSwap:\t      5 kB\n";
        assert_eq!(anonymous(status), Some((1234 << 10, 5 << 10)));
        assert_eq!(anonymous("State:\tZ (zombie)\n"), None);
        assert_eq!(anonymous("RssAnon:\t99999999999999999 kB\n"), None);
        let stat = "17 (a ) b) S 1 17 17 0 -1 4194560 1111 2222 33 44 5 6";
        assert_eq!(faults(stat), Some((1111, 33)));
        assert_eq!(faults("17 (a"), None);
        let own = Looks::at(std::process::id().cast_signed()).memory();
        assert!(
            own.anonymous.is_some_and(|(present, _)| present > 0) && own.faults.is_some_and(|(minor, _)| minor > 0)
        );
    }

    fn curve() -> KeptCurve {
        let (age, seen) = (Duration::ZERO, Instant::now());
        KeptCurve {
            curve: Curve::new(1000),
            exe: None,
            age,
            seen,
            tick_ns: 1000,
            last: Ticks(0),
            peak: 0,
            library_bytes: u64::MAX,
        }
    }

    fn totals(live: u64) -> Totals {
        Totals { allocations: 9, frees: 2, bytes_allocated: 1000 + live, bytes_freed: 1000 }
    }

    #[test]
    fn what_came_and_went_between_two_looks_is_seen_if_it_was_the_peak() {
        let mut curve = curve();
        let rest = |peak_bytes, peak_time| Rest {
            peak_bytes,
            peak_error: 0,
            peak_time,
            peak_blocks: 77,
            private_bytes: 100,
            tables_bytes: 70,
        };
        let memory = ProcessMemory { anonymous: Some((4096, 7)), faults: Some((3, 1)) };
        curve.add_at(Ticks(20_000), totals(50), rest(60, 10), memory);
        curve.add_at(Ticks(40_000), totals(30), rest(500, 35_000), memory);
        curve.add_at(Ticks(60_000), totals(40), rest(500, 35_000), ProcessMemory::default());
        let highest: Vec<_> = curve.points().iter().map(|point| (point.highest_bytes, point.highest_time.0)).collect();
        assert_eq!(highest, [(50, 20_000), (500, 35_000), (40, 60_000)]);
        let second = curve.points()[1];
        assert_eq!((second.begin, second.end(), second.highest_blocks), (Ticks(20_000), Ticks(40_000), 77));
        assert_eq!((second.resident_bytes, second.swapped_bytes, second.minor_faults), (4026, 7, 3));
        assert!(second.knows(known::RESIDENT) && !curve.points()[2].knows(known::RESIDENT));
    }

    #[test]
    fn a_peak_that_comes_while_totals_are_read_belongs_to_the_next_look() {
        let mut curve = curve();
        let rest = |peak_bytes| Rest { peak_bytes, peak_time: 60_000, ..Rest::default() };
        curve.add_at(Ticks(20_000), totals(50), rest(50), ProcessMemory::default());
        curve.add_at(Ticks(60_000), totals(70), rest(9000).with_peak_of(rest(50)), ProcessMemory::default());
        curve.add_at(Ticks(90_000), totals(60), rest(9000).with_peak_of(rest(9000)), ProcessMemory::default());
        let seen: Vec<_> = curve.points().iter().map(|point| (point.live_bytes, point.highest_bytes)).collect();
        assert_eq!(seen, [(50, 50), (70, 70), (60, 9000)]);
    }

    #[test]
    fn what_threads_have_not_told_of_lives_as_well() {
        let mut curve = curve();
        let rest = Rest { peak_bytes: 798, peak_error: 32_524, ..Rest::default() };
        curve.add_at(Ticks(50_000), totals(10_298), rest, ProcessMemory::default());
        curve.add_at(Ticks(90_000), totals(798 + 32_525), rest, ProcessMemory::default());
        let seen: Vec<_> = curve.points().iter().map(|point| (point.live_bytes, point.highest_bytes)).collect();
        assert_eq!(seen, [(10_298, 10_298), (33_322, 33_322)], "exactly, and never more than there can have been");
    }

    #[test]
    fn what_lives_is_not_more_than_the_peak_and_time_does_not_go_back() {
        let mut curve = curve();
        curve.add_at(Ticks(50_000), totals(900), Rest { peak_bytes: 70, ..Rest::default() }, ProcessMemory::default());
        let freed_more = Totals { bytes_freed: 2000, bytes_allocated: 1000, ..Totals::default() };
        curve.add_at(Ticks(40_000), freed_more, Rest { peak_bytes: 70, ..Rest::default() }, ProcessMemory::default());
        let points = curve.points();
        assert!(points.iter().all(|point| point.highest_bytes <= 70 && point.begin <= point.end()), "{points:?}");
        assert_eq!(points.last().map(|point| point.live_bytes), Some(0));
    }
}
