//! Whether a log is of the program that is given for it.

use heapledger_format::session::process::ELF_SHA256;
use heapledger_launch::sha256::sha256;
use heapledger_source::Ledger;

use super::NamingArgs;
use crate::say;

impl NamingArgs {
    /// A log of ESP-IDF may tell a hash of the program's file. Another file is said, and not refused: perhaps it was only stripped.
    pub(super) fn compare_hash(&self, ledger: &Ledger) {
        let Some(told) = ledger.process().text(ELF_SHA256).filter(|_| !self.exe.is_empty()) else { return };
        let hashes = self.exe.iter().filter_map(|path| std::fs::read(path).ok()).map(|bytes| sha256(&bytes));
        let mut hashes = hashes.map(|hash| hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        if !hashes.any(|hash| hash.starts_with(&told)) {
            let shown = ledger.path().display();
            say(&format!(
                "{shown} is of another build: it tells of a file with the SHA-256 {told}…, and none of --exe is that"
            ));
        }
    }
}
