//! The options of the recorder, in one table: flag of `run`, key of the environment variable `HEAPLEDGER`, help.
//! Command line, environment and documentation are all made from it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use heapledger_format::FreeDepth;
use heapledger_format::session::{self, DEPTH_LIMIT_MAX, HISTORY_ENTRIES_MAX, Key, SAMPLE_MAX};

use crate::size::parse_size;

mod guard;

/// One option of the recorder.
pub struct RecorderOption {
    /// The flag of `run`, without the dashes.
    pub flag: &'static str,
    /// The key in `HEAPLEDGER`.
    pub key: Key,
    /// What stands for the value in help; `None`: the flag has none, and stands for 1.
    pub value: Option<&'static str>,
    /// One sentence.
    pub help: &'static str,
    /// Not for everyday use: neither in help nor in the documentation of the command.
    pub hidden: bool,
    /// From what a person writes to what the recorder reads.
    read: fn(&OsStr) -> Result<OsString, String>,
}

/// All of them, in the order of the help.
pub const OPTIONS: &[RecorderOption] = &[
    RecorderOption {
        flag: "ledger-dir",
        key: Key::Dir,
        value: Some("DIR"),
        help: "Where the ledger lies while the program runs [default: /dev/shm, $XDG_RUNTIME_DIR, $TMPDIR or /tmp, \
               the first with room for --max-ledger, else the one with the most]",
        hidden: false,
        read: any_path,
    },
    RecorderOption {
        flag: "max-ledger",
        key: Key::MaxLedger,
        value: Some("SIZE"),
        help: "Most bytes that the ledger may take, such as 512M or 4G [default: a share of the memory there is]",
        hidden: false,
        read: size,
    },
    RecorderOption {
        flag: "history",
        key: Key::History,
        value: Some("N"),
        help: "Number of freed blocks to remember, at most 67108864 and an eighth of --max-ledger; 0 for none [default: 65536]",
        hidden: false,
        read: entries,
    },
    RecorderOption {
        flag: "depth",
        key: Key::Depth,
        value: Some("N"),
        help: "Most frames of a call stack; longer ones are cut and counted [default: 512]",
        hidden: false,
        read: depth,
    },
    RecorderOption {
        flag: "without",
        key: Key::Without,
        value: Some("LIST"),
        help: "Leave parts out, for speed and a smaller finished ledger: any of actual, time, thread, stack, history, heap. \
               A record always takes 32 bytes",
        hidden: false,
        read: parts,
    },
    RecorderOption {
        flag: "sample",
        key: Key::Sample,
        value: Some("SIZE"),
        help: "Record on average one block for each SIZE bytes allocated, such as 512K, chosen at random, and estimate the \
               rest; 0 records all [default: 0]",
        hidden: false,
        read: interval,
    },
    RecorderOption {
        flag: "guard",
        key: Key::Guard,
        value: Some("LEVEL"),
        help: "Find who writes beside a block or into a freed one: off; light, with canaries that are checked when a block is freed \
               or resized and at the end; full, where blocks are also filled and wait when they are freed; page, where each ends at \
               a page that faults when it is touched, and freed ones fault, too (page=under: begins at one, page=both: either; \
               page=1/N: one block in N, those of new call sites first, for production); see errors [default: off]",
        hidden: false,
        read: guard::level,
    },
    RecorderOption {
        flag: "quarantine",
        key: Key::Quarantine,
        value: Some("SIZE"),
        help: "With --guard full: freed blocks that take so many bytes, with all that is kept of them, wait before their memory is used again [default: 64M]",
        hidden: false,
        read: size,
    },
    RecorderOption {
        flag: "guard-memory",
        key: Key::GuardMemory,
        value: Some("SIZE"),
        help: "With --guard page: pages of live blocks may take so much memory; what is more is guarded as with full [default: \
               half of the memory there is]",
        hidden: false,
        read: size,
    },
    RecorderOption {
        flag: "quarantine-blocks",
        key: Key::QuarantineBlocks,
        value: Some("N"),
        help: "And so many of them at most [default: 1048576]",
        hidden: false,
        read: guard::quarantine_blocks,
    },
    RecorderOption {
        flag: "check-every",
        key: Key::CheckEvery,
        value: Some("N|TIME"),
        help: "Look at some 256 guarded blocks after each N allocations or each TIME, such as 50ms or 1s, and so at all of them in turn",
        hidden: false,
        read: guard::check_every,
    },
    RecorderOption {
        flag: "fill-new",
        key: Key::FillNew,
        value: Some("BYTE"),
        help: "With --guard full: what new blocks are filled with, but for those of calloc, in hexadecimal digits, or off [default: ce]",
        hidden: false,
        read: guard::fill,
    },
    RecorderOption {
        flag: "fill-freed",
        key: Key::FillFreed,
        value: Some("BYTE"),
        help: "What freed blocks are filled with, or off: then nobody sees who writes into them [default: fe]",
        hidden: false,
        read: guard::fill,
    },
    RecorderOption {
        flag: "fill-bytes",
        key: Key::FillBytes,
        value: Some("SIZE"),
        help: "So many bytes of a block are filled at most [default: 64K]",
        hidden: false,
        read: size,
    },
    RecorderOption {
        flag: "guard-by",
        key: Key::GuardBy,
        value: Some("HOW"),
        help: "For debugging heapledger: close pages by advice (MADV_GUARD_INSTALL, where the kernel has it) or by protection \
               (mprotect)",
        hidden: true,
        read: guard::by,
    },
    RecorderOption {
        flag: "redzone",
        key: Key::Redzone,
        value: Some("SIZE"),
        help: "With --guard full: so many bytes are watched on both sides of each block at least, up to 2K [default: 16 in front, 48 behind]",
        hidden: false,
        read: guard::redzone,
    },
    RecorderOption {
        flag: "guard-align",
        key: Key::GuardAlign,
        value: Some("N"),
        help: "With --guard page: blocks end so close to their page, 1, 2, 4, 8 or 16 bytes; with 1 no read past an end is missed, but \
               a program that needs blocks aligned to 16 bytes, as vector instructions do, dies [default: 16]",
        hidden: false,
        read: guard::align,
    },
    RecorderOption {
        flag: "error-depth",
        key: Key::ErrorDepth,
        value: Some("N"),
        help: "Most frames of the stack of a call or an access that is an error, taken by unwind tables whatever --depth and --unwind \
               say of blocks [default: 512]",
        hidden: false,
        read: guard::error_depth,
    },
    RecorderOption {
        flag: "halt-on-error",
        key: Key::HaltOnError,
        value: None,
        help: "End the program by SIGABRT with the first thing that it does wrong; see errors",
        hidden: false,
        read: switch,
    },
    RecorderOption {
        flag: "unwind",
        key: Key::Unwind,
        value: Some("HOW"),
        help: "How call stacks are found: auto, fast (frame pointers first), slow (nothing remembered), tables (never a \
               guess) or frame-pointers [default: auto]",
        hidden: false,
        read: unwind,
    },
    RecorderOption {
        flag: "free-depth",
        key: Key::FreeDepth,
        value: Some("N"),
        help: "Frames that are taken of the stack of a call that frees: 1 is its caller, 0 none; whole; or whole/N, of one call in N. \
               Where blocks are guarded it is always whole [default: 1]",
        hidden: false,
        read: free_depth,
    },
    RecorderOption {
        flag: "fallback",
        key: Key::Fallback,
        value: Some("N"),
        help: "With --unwind fast: stacks with fewer frames are taken again, as with auto [default: 3]",
        hidden: false,
        read: fallback,
    },
    RecorderOption {
        flag: "label",
        key: Key::Label,
        value: Some("KEY=VALUE"),
        help: "Say something of the whole run, such as service=api; repeatable, at most 511 bytes in all",
        hidden: false,
        read: label,
    },
    RecorderOption {
        flag: "accounts",
        key: Key::Accounts,
        value: None,
        help: "Keep account of who holds how much: for each thread and heap, blocks and bytes now and at most, and who freed them; \
               see stats. Not without threads",
        hidden: false,
        read: switch,
    },
    RecorderOption {
        flag: "python",
        key: Key::Python,
        value: None,
        help: "Stacks have lines of Python: function, file and line of each frame that Python 3.11, 3.12 or 3.13 runs",
        hidden: false,
        read: switch,
    },
    RecorderOption {
        flag: "check-stacks",
        key: Key::CheckStacks,
        value: None,
        help: "For debugging heapledger: take every stack once more in full, and compare; see stats",
        hidden: false,
        read: switch,
    },
    RecorderOption {
        flag: "reuse",
        key: Key::Reuse,
        value: Some("0|1"),
        help: "For measuring: whether stacks are checked against the last one [default: 1]",
        hidden: true,
        read: switch,
    },
];

impl RecorderOption {
    /// `depth=N`, `check-stacks=1`: as it stands in the environment variable.
    pub fn item(&self) -> String {
        format!("{}={}", self.key.name(), self.value.unwrap_or("1"))
    }

    /// Checks a value and brings it into the form that the recorder reads.
    pub fn read(&self, value: &OsStr) -> Result<OsString, String> {
        (self.read)(value)
    }
}

fn any_path(value: &OsStr) -> Result<OsString, String> {
    if value.is_empty() {
        return Err("a directory is needed".into());
    }
    std::path::absolute(value).map(Into::into).map_err(|error| error.to_string())
}

fn text(value: &OsStr) -> Result<&str, String> {
    value.to_str().ok_or_else(|| "the value is not text".to_owned())
}

fn size(value: &OsStr) -> Result<OsString, String> {
    Ok(parse_size(text(value)?)?.to_string().into())
}

fn count(value: &OsStr) -> Result<OsString, String> {
    let text = text(value)?;
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let number: Option<u64> = text.parse().ok().filter(|_| plain);
    Ok(number.ok_or_else(|| format!("'{text}' is not a whole number"))?.to_string().into())
}

fn entries(value: &OsStr) -> Result<OsString, String> {
    let checked = count(value)?;
    let number: u64 = text(&checked)?.parse().unwrap_or(u64::MAX);
    if number <= HISTORY_ENTRIES_MAX {
        Ok(checked)
    } else {
        Err(format!("the history holds {HISTORY_ENTRIES_MAX} freed blocks at most"))
    }
}

fn depth(value: &OsStr) -> Result<OsString, String> {
    let checked = count(value)?;
    let number: u64 = text(&checked)?.parse().unwrap_or(0);
    if (1..=DEPTH_LIMIT_MAX).contains(&number) {
        Ok(checked)
    } else {
        Err(format!("the depth is 1 to {DEPTH_LIMIT_MAX}"))
    }
}

fn free_depth(value: &OsStr) -> Result<OsString, String> {
    let text = text(value)?;
    let depth = FreeDepth::parse(text.as_bytes());
    depth
        .map(|depth| depth.to_string().into())
        .ok_or_else(|| format!("'{text}' is neither a number of frames up to {DEPTH_LIMIT_MAX} nor whole, nor whole/N"))
}

fn fallback(value: &OsStr) -> Result<OsString, String> {
    let checked = count(value)?;
    let number: u64 = text(&checked)?.parse().unwrap_or(u64::MAX);
    if number <= DEPTH_LIMIT_MAX { Ok(checked) } else { Err(format!("there are at most {DEPTH_LIMIT_MAX} frames")) }
}

fn interval(value: &OsStr) -> Result<OsString, String> {
    let checked = size(value)?;
    let bytes: u64 = text(&checked)?.parse().unwrap_or(u64::MAX);
    if bytes <= SAMPLE_MAX { Ok(checked) } else { Err("at most one block in 1T can be asked for".into()) }
}

fn switch(value: &OsStr) -> Result<OsString, String> {
    let text = text(value)?;
    if ["0", "1"].contains(&text) { Ok(text.into()) } else { Err(format!("'{text}' is neither 0 nor 1")) }
}

fn parts(value: &OsStr) -> Result<OsString, String> {
    let mut chosen = Vec::new();
    for part in text(value)?.split([',', '+']).map(str::trim) {
        if !session::PARTS.iter().any(|(known, _)| *known == part) {
            let all = session::PARTS.map(|(known, _)| known).join(", ");
            return Err(format!("'{part}' is none of {all}"));
        }
        if !chosen.contains(&part) {
            chosen.push(part);
        }
    }
    Ok(chosen.join("+").into())
}

fn unwind(value: &OsStr) -> Result<OsString, String> {
    one_of(&session::unwind::ALL, value)
}

fn one_of(all: &[&str], value: &OsStr) -> Result<OsString, String> {
    let text = text(value)?;
    if all.contains(&text) { Ok(text.into()) } else { Err(format!("'{text}' is none of {}", all.join(", "))) }
}

fn label(value: &OsStr) -> Result<OsString, String> {
    let text = text(value)?;
    match session::is_label(text.as_bytes()) {
        true => Ok(text.into()),
        false => Err(format!("'{}' is no KEY=VALUE, or has control characters", text.escape_debug())),
    }
}

/// What is in front of the equals sign.
fn label_key(label: &OsStr) -> &[u8] {
    label.as_bytes().split(|byte| *byte == b'=').next().unwrap_or_default()
}

/// The settings of one run: key and value, in the order of the table, then what `run` itself adds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(Vec<(Key, OsString)>);

impl Settings {
    /// Sets a key, replacing what it was. Of labels there are many: one of another name is added.
    pub fn set(&mut self, key: Key, value: OsString) {
        self.0.retain(|(old, _)| *old != key || key == Key::Label);
        if key == Key::Label {
            let name = label_key(&value).to_owned();
            self.0.retain(|(old, own)| *old != key || label_key(own) != name);
        }
        self.0.push((key, value));
    }

    /// Whether something says already what this would.
    fn has(&self, key: Key, value: &OsStr) -> bool {
        match key {
            Key::Label => self.0.iter().any(|(own, label)| *own == key && label_key(label) == label_key(value)),
            _ => self.get(key).is_some(),
        }
    }

    /// The value of a key.
    pub fn get(&self, key: Key) -> Option<&OsStr> {
        self.0.iter().find(|(own, _)| *own == key).map(|(_, value)| value.as_os_str())
    }

    /// Takes over what a person has set in the environment, where no flag says otherwise. Returns the items that
    /// mean nothing, to be named once.
    pub fn add_environment(&mut self, variable: &OsStr) -> Vec<String> {
        let mut odd = Vec::new();
        for item in variable.as_bytes().split(|byte| *byte == b',').filter(|item| !item.is_empty()) {
            let at = item.iter().position(|byte| *byte == b'=').unwrap_or(item.len());
            let (name, value) = (item.get(..at).unwrap_or_default(), item.get(at + 1..).unwrap_or_default());
            let key = Key::of(name);
            if key.is_some_and(Key::is_of_one_process) {
                continue;
            }
            let option = OPTIONS.iter().find(|option| Some(option.key) == key);
            match option.map(|option| (option.key, option.read(&decode(value)))) {
                Some((key, Ok(value))) if !self.has(key, &value) => self.set(key, value),
                Some((_, Ok(_))) => {}
                Some((key, Err(problem))) => odd.push(format!("{}: {problem}", key.name())),
                None => odd.push(format!("{}: there is no such key", String::from_utf8_lossy(item))),
            }
        }
        odd
    }

    /// Bytes of all labels, with one between two: the recorder has room for [`session::LABELS_BYTES_MAX`].
    pub fn labels_bytes(&self) -> usize {
        self.0.iter().filter(|(key, _)| *key == Key::Label).map(|(_, label)| label.len() + 1).sum()
    }

    /// The value of the environment variable.
    pub fn variable(&self) -> OsString {
        let items: Vec<Vec<u8>> =
            self.0.iter().map(|(key, value)| [key.name().as_bytes(), b"=", &encode(value)].concat()).collect();
        OsString::from_vec(items.join(&b','))
    }
}

/// A value has no comma, because commas separate: `%2C`, and so `%25` for a percent sign.
fn encode(value: &OsStr) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    for byte in value.as_bytes() {
        match byte {
            b',' => out.extend_from_slice(b"%2C"),
            b'%' => out.extend_from_slice(b"%25"),
            _ => out.push(*byte),
        }
    }
    out
}

fn decode(value: &[u8]) -> OsString {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((first, behind)) = rest.split_first() {
        let (byte, next) = match (first, behind) {
            (b'%', [b'2', b'C' | b'c', next @ ..]) => (b',', next),
            (b'%', [b'2', b'5', next @ ..]) => (b'%', next),
            _ => (*first, behind),
        };
        out.push(byte);
        rest = next;
    }
    OsString::from_vec(out)
}

#[cfg(test)]
mod tests;
