//! Whether a log is of the program that is given for it.

use heapledger_format::session::process::ELF_SHA256;
use heapledger_launch::sha256::sha256;
use heapledger_source::Ledger;

use super::NamingArgs;
use crate::say;
use crate::whole::read_whole;

/// More than any program for such a chip, with its debug information.
const BYTES_MAX: u64 = 1 << 30;

impl NamingArgs {
    /// A log of ESP-IDF may tell a hash of the program's file. Another file is said, and not refused: perhaps it was only stripped.
    pub(super) fn compare_hash(&self, ledger: &Ledger) {
        let Some(told) = ledger.process().text(ELF_SHA256).filter(|_| !self.exe.is_empty()) else { return };
        for path in &self.exe {
            let Ok(bytes) = read_whole(path, BYTES_MAX) else { return }; // it cannot be told
            let hash = sha256(&bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            if hash.starts_with(&told) {
                return;
            }
        }
        let shown = ledger.path().display();
        say(&format!(
            "{shown} is of another build: it tells of a file with the SHA-256 {told}…, and none of --exe is that"
        ));
    }
}
