//! A live ledger is read while its program goes on: every record is one that was written whole.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use heapledger_format::bytes::Codec;
use heapledger_format::{ByteOrder, Entry, Kind, LabelId, SectionKind, Site, ThreadRow, Ticks, WordSize};
use heapledger_source::Ledger;
use heapledger_testing::Builder;

const SLOTS: u64 = 2000;
/// Nothing here takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(120);
const CODEC: Codec = Codec { order: ByteOrder::Little, word: WordSize::W64 };

/// The only block that is ever entered under this number.
fn block(number: u64) -> Entry {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let size = mixed >> 40;
    Entry {
        number,
        address: mixed & 0xffff_ffff_ffff,
        size: Some(size),
        actual: Some(size + (mixed >> 20 & 0xffff)),
        kind: Kind((1 + mixed % 9) as u8),
        site: Site((mixed >> 13) as u32),
        thread: Some(ThreadRow((mixed >> 7 & 0xff) as u32)),
        heap: Some((mixed >> 3) as u8),
        time: Some(Ticks(mixed >> 21 & 0xff_ffff_ffff)),
        label: LabelId(label(number)),
        core: None,
        cycles: None,
    }
}

/// The label of that block.
fn label(number: u64) -> u32 {
    (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as u32
}

/// The records as the recorder sees them: words in a shared mapping.
struct Words(memmap2::MmapMut);

impl Words {
    fn open(path: &Path) -> Words {
        let file = OpenOptions::new().read(true).write(true).open(path).expect("opened");
        // SAFETY: nobody shortens the file while the test runs, and all access to the mapping is atomic.
        Words(unsafe { memmap2::MmapMut::map_mut(&file) }.expect("mapped"))
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        let place = self.0.get(at..at + 8).expect("within the file").as_ptr();
        assert!(place.addr().is_multiple_of(8));
        // SAFETY: eight bytes of the mapping, aligned, alive as long as `self`, shared as atomics only.
        unsafe { &*place.cast::<AtomicU64>() }
    }

    fn half(&self, at: usize) -> &AtomicU32 {
        let place = self.0.get(at..at + 4).expect("within the file").as_ptr();
        assert!(place.addr().is_multiple_of(4));
        // SAFETY: four bytes of the mapping, aligned, alive as long as `self`, shared as atomics of this size only.
        unsafe { &*place.cast::<AtomicU32>() }
    }

    /// Enters a block as a recorder does: the commit word to 0, the other words and the label, the commit word last.
    fn enter(&self, at: usize, label_at: usize, number: u64) {
        let words = block(number).pack();
        self.word(at).store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        self.half(label_at).store(label(number), Ordering::Relaxed);
        for (index, word) in words.into_iter().enumerate().skip(1) {
            self.word(at + index * 8).store(word, Ordering::Relaxed);
        }
        self.word(at).store(words[0], Ordering::Release);
    }
}

/// Ends the writer, also when the reader has failed.
struct Stopper<'a>(&'a AtomicBool);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Slots whose record lies in two pages: the system copies a page at a time, so these tear most easily.
fn torn_slots(offset: usize) -> Vec<usize> {
    (0..SLOTS as usize).map(|slot| offset + slot * 32).filter(|at| at % 4096 > 4096 - 32).collect()
}

#[test]
fn every_record_was_written_whole() {
    let base = if Path::new("/dev/shm").is_dir() { "/dev/shm".into() } else { std::env::temp_dir() };
    let path = base.join(format!("heapledger-concurrent-{}.hlive", std::process::id()));
    let mut builder = Builder::new();
    for number in 0..SLOTS {
        builder.entry(block(number));
    }
    let column = std::iter::once(0).chain((0..SLOTS).map(label)).flat_map(u32::to_le_bytes).collect();
    builder.section(SectionKind::LabelColumn as u16, 4, column);
    builder.skew(8);
    builder.write(&path).expect("written");
    let ledger = Ledger::open(&path).expect("a ledger");
    let offset = ledger.header().section(SectionKind::Records).expect("records").offset as usize + 32;
    let labels_at = ledger.header().section(SectionKind::LabelColumn).expect("labels").offset as usize + 4;
    let slots = torn_slots(offset);
    assert!(slots.len() > 10);
    let words = Words::open(&path);
    let (stop, numbers) = (AtomicBool::new(false), AtomicU64::new(SLOTS));
    let (mut walks, mut seen, mut moved, mut in_flight) = (0u64, 0u64, 0u64, 0u64);
    std::thread::scope(|scope| {
        // One writer: two of them could give one slot to two blocks, which a recorder never does.
        scope.spawn(|| {
            let mut round = 0u32;
            while !stop.load(Ordering::Relaxed) {
                for slot in &slots {
                    words.enter(*slot, labels_at + (*slot - offset) / 32 * 4, numbers.fetch_add(1, Ordering::Relaxed));
                }
                // Now and then a pause, so that some records stay for one read and change in the next.
                round = round.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (0..round >> 21).for_each(|_| std::hint::spin_loop());
            }
        });
        let _stopper = Stopper(&stop);
        // Until they have met often enough, however slow the machine is.
        let patience = Instant::now() + PATIENCE;
        let written = || numbers.load(Ordering::Relaxed) - SLOTS;
        while walks < 50 || moved < 100 || written() < 100_000 {
            assert!(Instant::now() < patience, "reader and writer did not meet: {moved} moved in {walks} walks");
            let mut records = ledger.records();
            let newest = numbers.load(Ordering::Relaxed);
            while let Some(chunk) = records.next_chunk().expect("readable").map(<[_]>::to_vec) {
                for entry in &chunk {
                    assert_eq!(*entry, block(entry.number), "a record that nobody wrote, or a label of another block");
                    moved += u64::from(entry.number > newest);
                }
                seen += chunk.len() as u64;
            }
            in_flight += records.in_flight();
            walks += 1;
        }
    });
    let written = numbers.load(Ordering::Relaxed) - SLOTS;
    println!("{walks} walks, {seen} records, {moved} newer than the walk, {in_flight} in flight, {written} written");
    assert!(seen >= walks * (SLOTS - slots.len() as u64), "records that nobody touched must not be missed");
    // The header's byte order says how the writer's words lie.
    assert_eq!(ledger.header().codec, CODEC);
    std::fs::remove_file(&path).expect("removed");
}
