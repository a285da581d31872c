//! Everything made ready for the recorder of one run, before its program starts.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use heapledger_format::session::{Key, LABELS_BYTES_MAX, VARIABLE_BYTES_MAX, guard};

use crate::error::LaunchError;
use crate::keep::Keeper;
use crate::options::Settings;
use crate::session::Sign;
use crate::{live, locate, sys};

/// Most bytes of the options, less what the process id takes: the recorder reads no further.
const VARIABLE_MAX: usize = VARIABLE_BYTES_MAX - 32;

/// Where the recorder of one run writes.
pub struct Session {
    /// Where the directories of ledgers are, one for each user.
    pub base: PathBuf,
    /// Which are ours.
    pub name: String,
    /// The libraries that are preloaded, the recorder first.
    pub libraries: Vec<PathBuf>,
    /// Whether there must be a ledger in the end.
    pub expected: bool,
    /// Holds them open.
    pub keeper: Keeper,
    /// Tells `recover` that they are in good hands.
    pub sign: Option<Sign>,
}

/// Why nothing can be recorded.
#[derive(Debug)]
pub struct Unready {
    /// Why.
    pub why: LaunchError,
    /// Whether it is about something that was asked for by name: then the program is not to be started either.
    pub asked: bool,
}

impl Session {
    /// Makes everything ready, and tells the settings of it.
    ///
    /// # Errors
    /// If there is no library to preload, no directory for ledgers, or too much to say to the recorder.
    pub fn begin(settings: &mut Settings, preload: Option<&Path>) -> Result<Session, Unready> {
        let library = locate::library(preload).map_err(|why| Unready { why, asked: locate::is_chosen(preload) })?;
        let mut libraries = vec![library];
        if settings.get(Key::Guard).and_then(|level| level.to_str()).is_some_and(guard::judges_calls) {
            libraries.push(locate::calls(preload).map_err(|why| Unready { why, asked: false })?);
        }
        let asked = settings.get(Key::Dir).is_some();
        let max_ledger = settings.get(Key::MaxLedger).and_then(|bytes| bytes.to_str()?.parse().ok());
        let base = live::prepare(settings.get(Key::Dir), max_ledger).map_err(|why| Unready { why, asked })?;
        let name = random_name();
        settings.set(Key::Dir, base.clone().into());
        settings.set(Key::Session, name.clone().into());
        if settings.variable().len() > VARIABLE_MAX || settings.labels_bytes() > LABELS_BYTES_MAX {
            return Err(Unready { why: LaunchError::OptionsTooLong, asked });
        }
        let (mut keeper, sign) = (Keeper::new(&base, &name), Sign::put_up(&live::directory_in(&base), &name));
        if settings.get(Key::Children).is_some() {
            keeper.expect_children();
        }
        Ok(Session { base, name, libraries, expected: true, keeper, sign })
    }
}

/// 16 hexadecimal digits that nobody else has.
fn random_name() -> String {
    let mut bytes = [0; 8];
    let random =
        sys::random(&mut bytes) || File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).is_ok();
    if !random {
        // No random numbers: the directory is this user's alone, so only other runs of the same user must differ.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let mut hasher = DefaultHasher::new();
        (now, std::process::id(), std::ptr::from_ref(&bytes) as usize).hash(&mut hasher);
        bytes = hasher.finish().to_ne_bytes();
    }
    format!("{:016x}", u64::from_ne_bytes(bytes))
}
