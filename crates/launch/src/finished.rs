//! The finished ledger of a program that has just ended, found from its live one.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use heapledger_format::session::{ending, process as key};
use heapledger_source::Ledger;

/// Most files that are looked at.
const FILES_MAX: usize = 256;

/// The finished ledger of what `live` was. `run` puts it where it was started, which is mostly where the program began, and
/// by default under a name that begins with ours; it is known by its id.
pub fn of(live: &Ledger) -> Option<Ledger> {
    let process = live.process();
    let directory = PathBuf::from(OsString::from_vec(process.get(key::CWD)?.to_vec()));
    let usual = format!("heapledger.{}.{}.hl", process.program()?, process.pid()?);
    let ours = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains(ending::FINISHED));
    let others = fs::read_dir(&directory).ok()?.filter_map(|item| Some(item.ok()?.path())).filter(ours);
    let candidates = std::iter::once(directory.join(usual)).chain(others.take(FILES_MAX));
    candidates.into_iter().find_map(|path| {
        let ledger = Ledger::open(&path).ok()?;
        (ledger.is_finished() && ledger.header().id == live.header().id).then_some(ledger)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapledger_testing::Builder;

    #[test]
    fn a_finished_ledger_is_known_by_its_id() {
        let base = std::env::temp_dir().join(format!("heapledger-finished-{}", std::process::id()));
        fs::create_dir_all(&base).expect("a directory");
        let cwd = base.to_str().expect("text");
        let mut builder = Builder::new();
        builder.process("cwd", cwd).process("program", "jq").process("pid", "1").block(0x1000, 8);
        let path = base.join("x.hlive");
        builder.write(&path).expect("written");
        let live = Ledger::open(&path).expect("a ledger");
        assert!(of(&live).is_none(), "the live form itself is not meant");
        let finished = base.join("mine.hl");
        heapledger_source::finish(&live, &finished, &[("exit", "7".to_owned())], &mut |_, _| {}).expect("finished");
        assert_eq!(of(&live).and_then(|ledger| ledger.process().text(key::EXIT)).as_deref(), Some("7"));
        fs::remove_dir_all(&base).expect("removed");
    }
}
