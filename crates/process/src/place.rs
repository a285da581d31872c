//! Where a ledger's file lies, and making it.
#![forbid(unsafe_code)]

use crate::ledger::{self, CODEC, HISTORY_PART, Ledger};
use crate::options::Request;
use crate::order::ORDER_BOUND;
use crate::room;
use crate::shared::TICK_NS;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering};
use heapledger_format::header::{Header, flag};
use heapledger_format::record::labelled_layout_64;
use heapledger_format::session::{BASES, Base, DIRECTORY, LEDGER_BYTES_DEFAULT_MAX, LEDGER_MEMORY_PART, ending};
use heapledger_linux::memory::{FileMapping, PATH_BYTES_MAX};
use heapledger_linux::process;
use heapledger_linux::syscall::{self, Errno, open_flag};
use heapledger_linux::text::Text;

const EM_X86_64: u16 = 62;
/// Least that a ledger is allowed.
const LEDGER_BYTES_MIN: u64 = 64 << 10;
/// With less address space than this to spare, a program under `ulimit -v` is left alone.
const ADDRESS_BYTES_MIN: u64 = 48 << 20;
/// Most programs that one process may become by `exec`.
const IMAGES_MAX: u64 = 10_000;
/// How often a directory is made that somebody removes at the same moment: `recover` and `run` take empty ones away.
const DIRECTORY_TRIES: usize = 16;

/// What a new ledger is made from.
pub(crate) struct Opening<'a> {
    pub(crate) request: &'a Request,
    pub(crate) session: u64,
    /// Whether it is of another process than the one that was started, and has its number in its name.
    pub(crate) is_child: bool,
    pub(crate) id: [u8; 16],
    pub(crate) start_unix_ns: u64,
}

/// Appends the user's directory of ledgers below `base`.
pub(crate) fn push_ledger_dir(path: &mut Text<PATH_BYTES_MAX>, base: &CStr) {
    path.push(base.to_bytes()).push(b"/").push(DIRECTORY.as_bytes()).push_number(u64::from(syscall::getuid()));
}

/// Makes sure that the directory exists, is ours alone and no link.
pub(crate) fn usable_dir(path: &CStr) -> bool {
    const OTHERS: u32 = 0o077;
    let flags = open_flag::DIRECTORY | open_flag::NO_FOLLOW | open_flag::CLOSE_ON_EXEC;
    let open = || {
        let no_base = syscall::make_directory(path, 0o700) == Err(Errno::NOENT);
        Some(syscall::open(path, flags, 0)).filter(|opened| no_base || *opened != Err(Errno::NOENT))
    };
    let Some(Ok(fd)) = (0..DIRECTORY_TRIES).find_map(|_| open()) else { return false };
    let identity = syscall::identify(fd);
    syscall::close(fd);
    identity.is_ok_and(|identity| identity.uid == syscall::getuid() && identity.mode & OTHERS == 0)
}

/// Whose directory was made sure of, plus 1. Forked children know it, too.
static SURE_OF_PLUS_1: AtomicU64 = AtomicU64::new(0);

fn user_plus_1() -> u64 {
    u64::from(syscall::getuid()).wrapping_add(1)
}

/// Most bytes of a ledger: what was asked for, or what the machine and the container can bear.
fn bytes_max(request: &Request) -> Result<u64, &'static [u8]> {
    let memory = process::memory_limit();
    let wanted =
        request.max_ledger.unwrap_or((memory / LEDGER_MEMORY_PART).min(LEDGER_BYTES_DEFAULT_MAX)).max(LEDGER_BYTES_MIN);
    let Some(limit) = syscall::limit(syscall::LIMIT_ADDRESS_BYTES) else { return Ok(wanted) };
    // What the recorder maps is address space that the program may want itself.
    let left = limit.saturating_sub(process::mapped_bytes());
    if left < ADDRESS_BYTES_MIN {
        return Err(b"the limit of the address space (ulimit -v) leaves too little room");
    }
    Ok(wanted.min(left / room::PART))
}

/// The first place that has room for all that the ledger may become; else the one with the most. (A container's
/// `/dev/shm` has 64 MiB.)
fn roomiest<'a>(places: &[Option<&'a CStr>], wanted: u64) -> Option<(usize, &'a CStr)> {
    let mut best = None;
    let there = || places.iter().enumerate().filter_map(|(index, place)| Some((index, (*place)?)));
    if there().count() == 1 {
        return there().next();
    }
    for (index, place) in there() {
        let free = syscall::free_bytes(place).unwrap_or(0);
        if free >= wanted {
            return Some((index, place));
        }
        if best.is_none_or(|(_, most)| free > most) {
            best = Some(((index, place), free));
        }
    }
    best.map(|(found, _)| found)
}

impl Opening<'_> {
    /// Creates and maps the ledger's file where there is room; returns its image number.
    /// # Errors
    /// Why there is none, as part of a sentence.
    pub(crate) fn ledger(&self, ledger: &mut Ledger) -> Result<u64, &'static [u8]> {
        let request = self.request;
        let bytes_max = bytes_max(request)?;
        if request.in_memory {
            return self.create(ledger, None, bytes_max);
        }
        let named = BASES.map(|base| match base {
            // To read the environment takes as long as the rest of this.
            Base::Variable(name) if request.dir().is_none() => process::environment::<PATH_BYTES_MAX>(name.as_bytes()),
            Base::Variable(_) | Base::Path(_) => None,
        });
        let mut left = [None; BASES.len()];
        for ((place, base), named) in left.iter_mut().zip(BASES).zip(&named) {
            *place = match base {
                Base::Path(path) => Some(path),
                Base::Variable(_) => named.as_ref().map(Text::c_str),
            };
        }
        if let Some(dir) = request.dir() {
            left = [Some(dir), None, None, None]; // the only one
        }
        let mut reason: &[u8] = b"no directory for the ledger is usable";
        while let Some((index, base)) = roomiest(&left, bytes_max) {
            if let Some(place) = left.get_mut(index) {
                *place = None;
            }
            let mut dir = Text::<PATH_BYTES_MAX>::new();
            push_ledger_dir(&mut dir, base);
            // A forked child's parent has made sure of it. Should it be gone, or another user's, it is looked at again below.
            let is_known = self.request.forked.is_some() && SURE_OF_PLUS_1.load(Ordering::Relaxed) == user_plus_1();
            if base.to_bytes().is_empty() || dir.is_cut() || !(is_known || usable_dir(dir.c_str())) {
                continue;
            }
            SURE_OF_PLUS_1.store(user_plus_1(), Ordering::Relaxed);
            match self.create(ledger, Some(dir.c_str()), bytes_max) {
                Ok(image) => return Ok(image),
                Err(why) => reason = why,
            }
        }
        Err(reason)
    }

    fn header(&self) -> Header {
        let mut header = Header::new(CODEC, labelled_layout_64(self.request.options), self.request.options);
        header.machine = EM_X86_64;
        header.flags = flag::PUBLISHED_SINGLY;
        header.tick_ns = TICK_NS;
        header.start_unix_ns = self.start_unix_ns;
        header.order_bound = ORDER_BOUND as u32;
        header.depth_limit = self.request.depth as u16;
        header.id = self.id;
        header
    }

    fn path(&self, dir: &CStr, image: u64) -> Result<Text<PATH_BYTES_MAX>, &'static [u8]> {
        let mut path = Text::new();
        path.push(dir.to_bytes()).push(b"/").push_hex(self.session).push(b"-").push_number(image);
        if self.is_child {
            path.push(b"-").push_number(u64::from(syscall::getpid()));
        }
        path.push(ending::LIVE.as_bytes());
        if path.is_cut() { Err(b"the ledger's path is too long") } else { Ok(path) }
    }

    /// In a directory, or in memory.
    fn create(&self, ledger: &mut Ledger, dir: Option<&CStr>, mut bytes_max: u64) -> Result<u64, &'static [u8]> {
        let (mut image, mut tries) = (0_u64, 0_usize);
        loop {
            let mut header = self.header();
            let history = (self.request.history.min(bytes_max / HISTORY_PART / 64) / 64).wrapping_mul(64);
            let bytes = ledger::plan(&mut header, bytes_max, history);
            let created = match dir {
                Some(_) if syscall::limit(syscall::LIMIT_FILE_BYTES).is_some_and(|limit| bytes > limit) => {
                    Err(Errno::NOMEM)
                }
                Some(dir) => FileMapping::create(self.path(dir, image)?, bytes as usize),
                None => FileMapping::of_memory(bytes as usize),
            };
            match created {
                Ok(mapping) => {
                    let ready = ledger.set_up(mapping, &header, bytes_max, !self.request.children.bytes().is_empty());
                    return if ready { Ok(image) } else { Err(b"no room for the ledger") };
                }
                // An earlier program of this process: exec starts another ledger.
                Err(Errno::EXIST) if image < IMAGES_MAX => image = image.wrapping_add(1),
                // Removed since it was looked at, because it was empty.
                Err(Errno::NOENT) if tries < DIRECTORY_TRIES && dir.is_some_and(usable_dir) => {
                    tries = tries.wrapping_add(1)
                }
                // Address space or file size is limited: less will do.
                Err(_) if bytes_max / 2 >= LEDGER_BYTES_MIN => bytes_max /= 2,
                Err(_) => return Err(b"the ledger's file cannot be made or mapped"),
            }
        }
    }
}
