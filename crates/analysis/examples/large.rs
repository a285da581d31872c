//! How long the largest ledgers take: `cargo run --release --example large -- [MILLIONS] [DIRECTORY]`.
//!
//! Writes a live ledger of 20 million blocks with a mix of sizes, sites and ages as a long-running server
//! leaves them, then finishes it, and takes the totals and a selection of both.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use heapledger_analysis::format::bytes::{ByteOrder, Codec, WordSize};
use heapledger_analysis::format::counter::{TALLY_WORDS, TallyCounter};
use heapledger_analysis::format::header::Header;
use heapledger_analysis::format::record::{Options, layout_64};
use heapledger_analysis::format::section::SectionRow;
use heapledger_analysis::format::{Entry, Kind, SectionKind};
use heapledger_analysis::source::{Ledger, finish};
use heapledger_analysis::{Clock, Selection, Sort, Summary};

const SITES: u64 = 40_000;

fn write(path: &Path, blocks: u64) -> std::io::Result<()> {
    let codec = Codec { order: ByteOrder::Little, word: WordSize::W64 };
    let mut header = Header::new(codec, layout_64(Options::ALL), Options::ALL);
    header.tick_ns = 1000;
    let tally_bytes = (TALLY_WORDS * 8) as u64;
    let sections =
        [(SectionKind::Records, 32, blocks), (SectionKind::Sites, 8, SITES), (SectionKind::Tallies, tally_bytes, 1)];
    let mut offset = 4096;
    for (kind, element_bytes, used) in sections {
        let kind = kind as u16;
        let element_bytes16 = element_bytes as u16;
        header.add_section(SectionRow {
            kind,
            element_bytes: element_bytes16,
            offset,
            capacity: used,
            used,
            backed: used,
        });
        offset += used * element_bytes;
    }
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut page = vec![0u8; 4096];
    header.write(&mut page);
    out.write_all(&page)?;
    let mut seed = 7u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut address = 0x5555_0000_0000u64;
    for slot in 0..blocks {
        let site = 1 + (random() % SITES).min(random() % SITES).min(random() % SITES);
        let size = match site % 5 {
            0 => 16 + random() % 2000,
            1 => 1 + random() % 60,
            _ => 8 * (1 + site % 30),
        };
        let actual = (size + 8).next_multiple_of(16) - 8;
        address += actual + 8 + if random() % 8 == 0 { random() % 64 * 16 } else { 0 };
        let number = slot * 9 + random() % 5000;
        let entry = Entry {
            number,
            address,
            size: Some(size),
            actual: Some(actual),
            kind: if site.is_multiple_of(3) { Kind::NEW } else { Kind::MALLOC },
            site: site as u32,
            thread: Some((site % 16) as u32),
            heap: Some(1),
            time: Some(number * 3 + random() % 10),
        };
        for word in entry.pack() {
            out.write_all(&word.to_le_bytes())?;
        }
    }
    for node in 0..SITES as u32 {
        out.write_all(&(node / 3).to_le_bytes())?;
        out.write_all(&(node + 1).to_le_bytes())?;
    }
    let mut tallies = vec![0u8; tally_bytes as usize];
    codec.put(&mut tallies, TallyCounter::Allocations as usize * 8, 8, blocks);
    out.write_all(&tallies)?;
    out.flush()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let millions: u64 = args.next().map_or(Ok(20), |text| text.parse())?;
    let directory = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let (live, finished) = (directory.join("large.hlive"), directory.join("large.hl"));
    write(&live, millions * 1_000_000)?;
    let began = Instant::now();
    let written = finish(&Ledger::open(&live)?, &finished, &[], &mut |_, _| {})?;
    println!(
        "finish: {:.2?}, {} MB of {} MB",
        began.elapsed(),
        written.bytes / 1_000_000,
        std::fs::metadata(&live)?.len() / 1_000_000
    );
    for path in [&live, &finished] {
        let name = path.extension().unwrap_or_default().to_string_lossy();
        let ledger = Ledger::open(path)?;
        let began = Instant::now();
        let summary = Summary::of(&ledger, Clock::new(&ledger, SystemTime::now())?, 10, &mut |_| {})?;
        println!(
            "stats of .{name}: {:.2?}, {} blocks, unaccounted {}",
            began.elapsed(),
            summary.live_blocks,
            summary.unaccounted
        );
        let began = Instant::now();
        let selection = Selection::of(&ledger, Sort::Size, false, 100, &mut |_| {})?;
        println!("dump --sort size of .{name}: {:.2?}, {} left out", began.elapsed(), selection.left_out());
        assert!(!ledger.damage().is_any());
    }
    for path in [live, finished] {
        std::fs::remove_file(path)?;
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
    Ok(())
}
