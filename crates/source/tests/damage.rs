//! Ledgers cut at every byte and with bytes changed at thousands of places: an answer each time.

use std::path::Path;

use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_source::{Damage, Ledger, finish};
use heapledger_testing::{Scratch, everything};

/// The headers of these ledgers are shorter.
const HEADER_BYTES: usize = 1600;

/// Opens and reads everything there is; how many records and history entries, and the damage.
fn read(path: &Path) -> Option<(usize, usize, Damage)> {
    let ledger = Ledger::open(path).ok()?;
    let mut sites = Vec::new();
    let mut records = ledger.records();
    let mut live = 0;
    while let Some(chunk) = records.next_chunk().expect("readable") {
        live += chunk.len();
        sites.extend(chunk.iter().map(|entry| entry.site));
    }
    let mut entries = ledger.freed();
    let mut freed = 0;
    while let Some(chunk) = entries.next_chunk().expect("readable") {
        freed += chunk.len();
        sites.extend(chunk.iter().map(|entry| entry.site));
    }
    for site in sites {
        for code in ledger.stack(site).expect("readable").codes {
            ledger.code(code).expect("readable");
        }
    }
    ledger.threads().expect("readable");
    ledger.heaps().expect("readable");
    ledger.modules().expect("readable");
    ledger.tallies().expect("readable");
    ledger.storage().expect("readable");
    let labels = ledger.labels().expect("readable");
    labels.numbers().for_each(|label| drop(labels.text(label)));
    ledger.marks().expect("readable");
    ledger.windows().expect("readable");
    ledger.errors().expect("readable");
    ledger.accounts().expect("readable");
    ledger.left_out();
    Some((live, freed, ledger.damage()))
}

/// A live and a finished ledger: name and bytes.
fn ledgers(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for (order, word) in [(ByteOrder::Little, WordSize::W64), (ByteOrder::Big, WordSize::W32)] {
        let path = directory.join("whole.hlive");
        let bytes = everything(order, word).bytes();
        std::fs::write(&path, &bytes).expect("written");
        let finished = directory.join("whole.hl");
        finish(&Ledger::open(&path).expect("a ledger"), &finished, &[], &mut |_, _| {}).expect("finished");
        all.push((format!("live {word:?}"), bytes));
        all.push((format!("finished {word:?}"), std::fs::read(&finished).expect("read")));
    }
    all
}

#[test]
fn cut_at_every_byte() {
    let place = Scratch::in_memory("damage-cut");
    let directory = place.path();
    for (name, bytes) in ledgers(directory) {
        let path = directory.join("cut");
        let file = std::fs::File::create(&path).expect("created");
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).expect("written");
        let whole = read(&path).expect("whole");
        assert_eq!(whole, (48, 12, Damage::default()), "{name}");
        let mut least = usize::MAX;
        for cut in (0..bytes.len()).rev() {
            file.set_len(cut as u64).expect("cut");
            let Some((live, freed, damage)) = read(&path) else {
                least = least.min(cut + 1);
                continue;
            };
            assert!(live <= 48 && freed <= 12, "{name} cut at {cut}");
            // Padding behind the last section is nobody's loss.
            assert!(damage.is_any() || (live, freed) == (48, 12), "{name} cut at {cut}: {live} {freed}");
            if name.starts_with("finished") {
                assert!(damage.cut_at.is_some(), "{name} cut at {cut}");
            }
        }
        assert!(least < HEADER_BYTES, "{name}: from {least} bytes on a cut ledger is readable");
    }
}

#[test]
fn a_cut_finished_ledger_gives_what_lies_before_the_cut() {
    let place = Scratch::in_memory("damage-prefix");
    let directory = place.path();
    let (_, bytes) = ledgers(directory).swap_remove(1);
    let path = directory.join("cut");
    // Records are last: one byte of them missing leaves all the rest.
    let records_end = bytes.windows(4).rposition(|window| window == b"HLPC").expect("the index piece");
    std::fs::write(&path, &bytes[..records_end - 16]).expect("written");
    let ledger = Ledger::open(&path).expect("a ledger");
    assert_eq!(ledger.threads().expect("threads").len(), 3);
    let (live, freed, damage) = read(&path).expect("a ledger");
    assert_eq!((live, freed, damage.pieces_lost), (0, 12, 1));
    assert_eq!(damage.elements_missing, 48);
}

#[test]
fn a_damaged_piece_is_passed_over_and_the_chain_found_again() {
    let place = Scratch::in_memory("damage-resync");
    let directory = place.path();
    let (_, bytes) = ledgers(directory).swap_remove(1);
    let path = directory.join("damaged");
    let magics: Vec<usize> = (0..bytes.len() - 4).step_by(8).filter(|at| bytes[*at..].starts_with(b"HLPC")).collect();
    // Without the trailer, so that the chain is walked; the header of each piece in turn is destroyed.
    for (index, magic) in magics.iter().enumerate().take(magics.len() - 1) {
        let mut damaged = bytes[..bytes.len() - 16].to_vec();
        damaged[*magic] ^= 0xff;
        std::fs::write(&path, &damaged).expect("written");
        let (live, freed, damage) = read(&path).expect("a ledger");
        assert_eq!(damage.bytes_skipped as usize, magics[index + 1] - magic, "piece {index}");
        assert!((live, freed) == (48, 12) || (live, freed) == (48, 0) || (live, freed) == (0, 12), "piece {index}");
        assert!(damage.elements_missing > 0);
    }
}

/// Changes bytes of one of [`ledgers`].
fn any_byte_may_be_wrong(which: usize) {
    let place = Scratch::in_memory(&format!("damage-flip-{which}"));
    let directory = place.path();
    let began = std::time::Instant::now();
    let mut read_at_all = 0;
    let mut tried = 0;
    let (name, bytes) = ledgers(directory).swap_remove(which);
    let path = directory.join("flipped");
    let file = std::fs::File::create(&path).expect("created");
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).expect("written");
    for (at, byte) in bytes.iter().enumerate() {
        // All bits of the header's figures and tables, some of the many elements.
        let flips: &[u8] = if at < HEADER_BYTES {
            &[0x01, 0x80, 0xff]
        } else {
            [&[0x01][..], &[], &[0x80], &[], &[], &[0xff], &[], &[]][at % 8]
        };
        for flip in flips {
            std::os::unix::fs::FileExt::write_all_at(&file, &[byte ^ flip], at as u64).expect("written");
            tried += 1;
            if let Some((live, freed, damage)) = read(&path) {
                read_at_all += 1;
                if name.starts_with("finished") {
                    assert!(live <= 48 && freed <= 12 || damage.header, "{name} at {at}");
                }
            }
        }
        std::os::unix::fs::FileExt::write_all_at(&file, &[*byte], at as u64).expect("written");
    }
    println!("{tried} changes, {read_at_all} readable, {:?}", began.elapsed());
    assert!(read_at_all * 10 > tried * 9);
}

#[test]
fn any_byte_of_a_live_ledger_may_be_wrong() {
    any_byte_may_be_wrong(0);
}

#[test]
fn any_byte_of_a_finished_ledger_may_be_wrong() {
    any_byte_may_be_wrong(1);
}

#[test]
fn any_byte_of_a_small_live_ledger_may_be_wrong() {
    any_byte_may_be_wrong(2);
}

#[test]
fn any_byte_of_a_small_finished_ledger_may_be_wrong() {
    any_byte_may_be_wrong(3);
}
