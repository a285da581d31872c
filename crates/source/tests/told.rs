//! Ledgers with all that a program can say of itself, and with a section that nobody knows: read, finished, taken.

use std::collections::BTreeMap;
use std::path::Path;

use heapledger_format::account::Account;
use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_format::errors::{ErrorKind, StackTag};
use heapledger_format::header::Header;
use heapledger_format::mark::MarkKind;
use heapledger_format::{Entry, FreedEntry, LabelId, SectionKind, Word};
use heapledger_source::{Ledger, Meanwhile, Snapshot, finish};
use heapledger_testing::everything::{UNKNOWN_ELEMENTS, UNKNOWN_SECTION, everything, label_of};
use heapledger_testing::{Scratch, sample};

const CODECS: [(ByteOrder, WordSize); 4] = [
    (ByteOrder::Little, WordSize::W64),
    (ByteOrder::Big, WordSize::W64),
    (ByteOrder::Little, WordSize::W32),
    (ByteOrder::Big, WordSize::W32),
];

/// The live ledger, its finished form, a snapshot of it while it runs and one while it is held, and the finished form of that.
fn forms(directory: &Path, (order, word): (ByteOrder, WordSize)) -> Vec<(&'static str, Ledger)> {
    let place = |name: &str| directory.join(name);
    everything(order, word).write(&place("live")).expect("written");
    let live = Ledger::open(place("live")).expect("a ledger");
    finish(&live, &place("finished"), &[], &mut |_, _| ()).expect("finished");
    let mut forms = vec![("live", live), ("finished", Ledger::open(place("finished")).expect("a ledger"))];
    for (name, program) in [("running", Meanwhile::Runs), ("held", Meanwhile::Held)] {
        let live = Ledger::open(place("live")).expect("a ledger");
        let copy = Snapshot::copy(&live, &place("copy"), 1_700_000_000_500_000_000, program).expect("copied");
        forms.push(("a plain copy", Ledger::open(place("copy")).expect("a ledger")));
        copy.finish(&place(name), &[], &mut |_, _| ()).expect("finished");
        forms.push((name, Ledger::open(place(name)).expect("a ledger")));
    }
    forms
}

/// By number, read in order and by several threads, which must say the same.
fn record_labels(ledger: &Ledger) -> BTreeMap<u64, LabelId> {
    let mut labels = BTreeMap::new();
    let mut records = ledger.records();
    while let Some(chunk) = records.next_chunk().expect("read") {
        labels.extend(chunk.iter().map(|entry| (entry.number, entry.label)));
    }
    let each =
        |found: &mut Vec<_>, chunk: &[Entry]| found.extend(chunk.iter().map(|entry| (entry.number, entry.label)));
    let scanned = ledger.scan_records(4, &Vec::new, &each, &mut |_| ()).expect("read");
    assert_eq!(scanned.states.into_iter().flatten().collect::<BTreeMap<_, _>>(), labels);
    labels
}

#[test]
fn each_form_says_the_same() {
    for codec in CODECS {
        let scratch = Scratch::new(&format!("told-{:?}-{}", codec.0, codec.1.bytes()));
        let forms = forms(scratch.path(), codec);
        for (name, ledger) in &forms {
            let what = format!("{name} {codec:?}");
            assert!(!ledger.damage().is_any(), "{what}: {:?}", ledger.damage());
            assert_eq!(ledger.left_out(), [0u16; 0], "{what}");

            let labels = ledger.labels().expect("read");
            assert_eq!(labels.numbers().collect::<Vec<_>>(), [1, 2, 3].map(LabelId), "{what}");
            assert_eq!(labels.text(LabelId(2)), "tenant=blue route=/x", "{what}");
            assert_eq!(
                labels.pairs(LabelId(3)),
                [("route", "/x/y"), ("tenant", "blue")],
                "{what}: the innermost counts"
            );
            assert_eq!((labels.text(LabelId::NONE), labels.text(LabelId(4))), (String::new(), String::new()), "{what}");
            let of_records = record_labels(ledger);
            assert_eq!(of_records.len(), 48, "{what}");
            for (number, label) in of_records {
                assert_eq!(label, label_of(number), "{what}: record {number}");
            }
            let mut freed = ledger.freed();
            while let Some(chunk) = freed.next_chunk().expect("read").map(<[_]>::to_vec) {
                for FreedEntry { block, .. } in chunk {
                    let is_told = codec.1 == WordSize::W64;
                    let expected = if is_told { label_of(block.number) } else { LabelId::NONE };
                    assert_eq!(block.label, expected, "{what}: freed {}", block.number);
                }
            }

            let marks = ledger.marks().expect("read");
            assert_eq!(marks.iter().map(|mark| mark.row).collect::<Vec<_>>(), [0, 1, 3], "{what}: one is vacant");
            assert!(marks.iter().all(|mark| mark.name == "warm"), "{what}");
            assert_eq!((marks[1].entry.number, marks[1].entry.kind), (31, MarkKind::WindowStarts as u16), "{what}");
            let windows = ledger.windows().expect("read");
            assert_eq!((windows.len(), windows[0].name.as_str()), (1, "requests"), "{what}");
            assert_eq!((windows[0].entry.peak_bytes, windows[0].entry.peak_error), (4_500, 64), "{what}");

            let errors = ledger.errors().expect("read");
            let kinds: Vec<u16> = errors.iter().map(|error| error.entry.kind).collect();
            assert_eq!(kinds, [ErrorKind::BufferOverflow as u16, ErrorKind::FailedAllocation as u16], "{what}");
            assert_eq!((errors[0].function.as_str(), errors[0].around.as_slice()), ("memcpy", [0x5a; 64].as_slice()));
            assert_eq!(errors[0].entry.stacks[1].tag, StackTag::Access as u16, "{what}");
            assert_eq!((errors[1].entry.operands, errors[1].entry.repeats), ([1024, 1024], 2), "{what}");

            // Of the first account, what another thread freed is off.
            let accounts = ledger.accounts().expect("read");
            let figures =
                |account: &Account| [account.bytes, account.blocks, account.frees_by_others].map(|Word(is)| is);
            assert_eq!(accounts.iter().map(figures).collect::<Vec<_>>(), [[4_900, 18, 7], [600, 6, 0]], "{what}");

            assert_eq!(ledger.count(UNKNOWN_SECTION).expect("read"), 3, "{what}");
            assert_eq!(ledger.header().section(UNKNOWN_SECTION).map(|row| row.element_bytes), Some(12), "{what}");
        }
    }
}

#[test]
fn a_section_that_nobody_knows_is_kept_as_it_is() {
    let scratch = Scratch::new("told-unknown");
    let forms = forms(scratch.path(), CODECS[0]);
    for (name, ledger) in forms.iter().filter(|(_, ledger)| ledger.is_finished()) {
        // It is too small to be packed, and lies in the file as it was.
        let bytes = std::fs::read(ledger.path()).expect("read");
        let found = bytes.windows(UNKNOWN_ELEMENTS.len()).filter(|window| *window == UNKNOWN_ELEMENTS).count();
        let packed = ledger.packed_bytes(UNKNOWN_SECTION).expect("read").expect("finished");
        assert_eq!((found, packed), (1, 48 + UNKNOWN_ELEMENTS.len() as u64 + 4), "{name}");
    }
}

#[test]
fn what_an_earlier_finisher_left_out_is_known() {
    let scratch = Scratch::new("told-left-out");
    let forms = forms(scratch.path(), CODECS[0]);
    let mut bytes = std::fs::read(forms[1].1.path()).expect("read");
    let header = Header::parse(&bytes).expect("a header");
    // The rows of the two sections are made those of others that are not there.
    for (kind, other) in [(SectionKind::LabelColumn as u16, 500u16), (UNKNOWN_SECTION, 501)] {
        let at = header.row_at(kind).expect("a row");
        bytes[at..at + 2].copy_from_slice(&other.to_le_bytes());
    }
    std::fs::write(scratch.path().join("earlier"), &bytes).expect("written");
    let earlier = Ledger::open(scratch.path().join("earlier")).expect("a ledger");
    assert_eq!(earlier.left_out(), [SectionKind::LabelColumn as u16, UNKNOWN_SECTION]);
    assert_eq!(unlabelled(&earlier), 48, "no label is better than a wrong one");
    let plain = scratch.path().join("plain");
    sample(CODECS[0].0, CODECS[0].1).write(&plain).expect("written");
    assert_eq!(Ledger::open(&plain).expect("a ledger").left_out(), [0u16; 0]);
}

#[test]
fn more_labels_than_one_piece_holds_keep_to_their_records() {
    let scratch = Scratch::new("told-many");
    let mut builder = heapledger_testing::Builder::new();
    const RECORDS: u64 = 300_000;
    for number in 0..RECORDS {
        builder.block(0x1000_0000 + number * 32, 16);
    }
    // As in `everything`, but for so many that column and records take several pieces each.
    let column = std::iter::once(0).chain((0..RECORDS).map(|number| number as u32 % 1009));
    let bytes: Vec<u8> = column.flat_map(u32::to_le_bytes).collect();
    builder.section(SectionKind::LabelColumn as u16, 4, bytes);
    let (live, done) = (scratch.path().join("live"), scratch.path().join("done"));
    builder.write(&live).expect("written");
    finish(&Ledger::open(&live).expect("a ledger"), &done, &[], &mut |_, _| ()).expect("finished");
    for path in [live, done] {
        let labels = record_labels(&Ledger::open(&path).expect("a ledger"));
        assert_eq!(labels.len() as u64, RECORDS);
        assert!(labels.iter().all(|(number, label)| u64::from(label.0) == number % 1009));
    }
}

/// Ledgers of an unmodified program that were written, and one of them finished, before there were labels, marks, windows,
/// errors and accounts.
#[test]
fn earlier_ledgers_are_read() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    for name in ["earlier.hl", "earlier.hlive"] {
        let ledger = Ledger::open(data.join(name)).expect("a ledger");
        assert!(!ledger.damage().is_any(), "{name}");
        let tallies = ledger.tallies().expect("read");
        assert_eq!(tallies.begun(), BTreeMap::from([(1, 1), (2, 1), (3, 1)]), "{name}: malloc, calloc, realloc");
        assert_eq!(tallies.ended(), BTreeMap::from([(3, 1), (32, 1)]), "{name}: realloc, free");
        assert_eq!((unlabelled(&ledger), ledger.labels().expect("read").count()), (1, 0), "{name}");
        assert_eq!(
            ledger.heaps().expect("read").iter().map(|heap| heap.figures).collect::<Vec<_>>(),
            [None; 3],
            "{name}"
        );
        assert_eq!((ledger.marks().expect("read").len(), ledger.windows().expect("read").len()), (0, 0), "{name}");
        assert_eq!((ledger.errors().expect("read").len(), ledger.accounts().expect("read").len()), (0, 0), "{name}");
        assert_eq!(ledger.left_out(), [0u16; 0], "{name}");
    }
}

/// How many records there are: none has a label.
fn unlabelled(ledger: &Ledger) -> usize {
    let labels = record_labels(ledger);
    assert!(labels.values().all(|label| *label == LabelId::NONE), "{labels:?}");
    labels.len()
}

/// The finished ledgers in `tests/data` say what [`everything`] says today: whoever changes that, or how it is written, has
/// changed the format.
#[test]
fn kept_ledgers_with_everything_are_read() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    for codec in CODECS {
        let scratch = Scratch::new(&format!("told-kept-{:?}-{}", codec.0, codec.1.bytes()));
        let now = scratch.path().join("now");
        everything(codec.0, codec.1).write(&now).expect("written");
        let now = Ledger::open(&now).expect("a ledger");
        let kept = Ledger::open(data.join(kept_name(codec))).expect("a ledger");
        assert!(kept.is_finished() && !kept.damage().is_any());
        assert_eq!(kept.labels().expect("read"), now.labels().expect("read"));
        assert_eq!(record_labels(&kept), record_labels(&now));
        assert_eq!(kept.marks().expect("read"), now.marks().expect("read"));
        assert_eq!(kept.windows().expect("read"), now.windows().expect("read"));
        assert_eq!(kept.errors().expect("read"), now.errors().expect("read"));
        assert_eq!(kept.accounts().expect("read"), now.accounts().expect("read"));
        assert_eq!(kept.heaps().expect("read"), now.heaps().expect("read"));
        assert_eq!(kept.tallies().expect("read"), now.tallies().expect("read"));
        assert_eq!(kept.count(UNKNOWN_SECTION).expect("read"), 3);
    }
}

fn kept_name((order, word): (ByteOrder, WordSize)) -> String {
    let order = if order == ByteOrder::Little { "little" } else { "big" };
    format!("everything-{order}-{}.hl", word.bits())
}

/// One of [`everything`] that was finished before there were labels: what was left out is told, what is there is read.
#[test]
fn what_an_earlier_finisher_kept_is_read() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let ledger = Ledger::open(data.join("everything-finished-earlier.hl")).expect("a ledger");
    assert!(!ledger.damage().is_any());
    let gone = [SectionKind::LabelColumn, SectionKind::Accounts, SectionKind::AccountFrees].map(|kind| kind as u16);
    assert_eq!(ledger.left_out(), [&gone[..], &[UNKNOWN_SECTION]].concat());
    assert_eq!((ledger.labels().expect("read").count(), ledger.accounts().expect("read").len()), (3, 0));
    assert_eq!((ledger.marks().expect("read").len(), ledger.errors().expect("read").len()), (3, 2));
    assert_eq!(unlabelled(&ledger), 48);
}
