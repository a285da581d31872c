//! The page that leads from a core dump to the ledger.
#![forbid(unsafe_code)]

use crate::ledger::{Ledger, PAGE_BYTES};
use crate::spare::KeptPage;
use core::sync::atomic::{AtomicU8, Ordering};
use heapledger_format::{MAGIC, anchor};
use heapledger_linux::syscall::{self, advice};
use heapledger_linux::text::Text;

/// A page of private memory from which a core dump leads to the ledger: its file, its id, and where the finished
/// ledger probably lies. A forked child does not get it, because its blocks are not in that ledger.
#[inline(never)]
pub(crate) fn place(ledger: &Ledger, id: &[u8; 16], cwd: &Text<1024>) {
    let Some(mapping) = ledger.mapping().filter(|mapping| mapping.has_file()) else { return };
    let Some(page) = anchor_page() else { return };
    // Without the magic: what is left of it on the stack is in the memory of forked children, too.
    let mut text = Text::<2048>::new();
    text.push(anchor::MARK).push(mapping.path().bytes()).push(b"\n");
    for part in id.chunks(8) {
        text.push_hex(part.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)));
    }
    text.push(b"\npid=").push_number(u64::from(syscall::getpid()));
    if !cwd.is_cut() && !cwd.bytes().contains(&b'\n') {
        text.push(b"\ncwd=").push(cwd.bytes());
    }
    text.push(b"\n");
    let (magic, rest) = page.split_at(MAGIC.len());
    let put = |(place, byte): (&AtomicU8, &u8)| place.store(*byte, Ordering::Relaxed);
    rest.iter().zip(text.bytes()).for_each(put);
    magic.iter().zip(&MAGIC).for_each(put);
}

/// A page that is zeros in forked children, who use it for their own.
fn anchor_page() -> Option<&'static [AtomicU8; PAGE_BYTES]> {
    static PAGE: KeptPage = KeptPage::new();
    PAGE.get(|page| {
        // A kernel before 4.14 cannot: then a child's core dump leads to its parent's ledger.
        let _ = syscall::advise(page, PAGE_BYTES, advice::WIPE_ON_FORK);
    })
}
