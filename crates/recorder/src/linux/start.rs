//! Starting to record: the first call of a process comes here.

use super::ledger::{self, CODEC, Ledger, PAGE_BYTES};
use super::options::{Request, VARIABLE, VARIABLE_BYTES_MAX};
use super::shared::{ORDER_BOUND, Phase, Settings, Shared, TICK_NS};
use core::ffi::CStr;
use core::sync::atomic::Ordering;
use heapledger_format::bytes::WordSize;
use heapledger_format::header::{Header, State, flag};
use heapledger_format::record::{Options, layout_64};
use heapledger_format::section::heap;
use heapledger_format::{MAGIC, SectionKind};
use heapledger_linux::memory::{FileMapping, PATH_BYTES_MAX};
use heapledger_linux::process;
use heapledger_linux::syscall::{self, Errno, open_flag};
use heapledger_linux::text::Text;

const EM_X86_64: u16 = 62;
/// Least that a ledger is allowed.
const LEDGER_BYTES_MIN: u64 = 64 << 10;
/// Most that a ledger takes unless told otherwise: room for 200 million blocks.
const LEDGER_BYTES_DEFAULT_MAX: u64 = 8 << 30;

/// What the library of hooks knows and the ledger should hold.
pub struct Hooks<'a> {
    /// Path of the module whose `malloc` is called.
    pub next: &'a CStr,
    /// Path of the module whose `operator new` is called; empty if it is not known yet.
    pub cxx: &'a CStr,
    /// Names of the heaps, in the order of their rows.
    pub heaps: &'a [&'a [u8]],
}

/// Starts recording, once; returns whether this process records from now on.
pub fn start(shared: &'static Shared, hooks: &Hooks) -> bool {
    let claimed = shared.phase.compare_exchange(
        Phase::Unstarted as u8,
        Phase::Starting as u8,
        Ordering::AcqRel,
        Ordering::Relaxed,
    );
    if claimed.is_err() {
        return false;
    }
    let _signals = syscall::SignalsBlocked::new();
    let phase = if set_up(shared, hooks).is_some() { Phase::On } else { Phase::Off };
    shared.phase.store(phase as u8, Ordering::Release);
    phase == Phase::On
}

/// Whether nobody has called [`start`] yet.
#[inline(always)]
pub fn is_unstarted(shared: &Shared) -> bool {
    shared.phase.load(Ordering::Relaxed) == Phase::Unstarted as u8
}

fn set_up(shared: &'static Shared, hooks: &Hooks) -> Option<()> {
    let value = process::environment::<VARIABLE_BYTES_MAX>(VARIABLE.as_bytes());
    let request = Request::parse(value.as_ref().map_or(&[], |value| value.bytes()));
    if !request.unknown.bytes().is_empty() {
        complain(&[VARIABLE.as_bytes(), b": not understood: ", request.unknown.bytes()]);
    }
    let session = request.session.unwrap_or_else(syscall::random);
    if request.pid.is_some_and(|pid| pid != u64::from(syscall::getpid())) {
        // A child of the watched process: its ledger is not this one.
        if let Some(dir) = request.dir() {
            let mut path = Text::<PATH_BYTES_MAX>::new();
            push_ledger_dir(&mut path, dir);
            note_child(path, session);
        }
        return None;
    }
    if !shared.modules.start() {
        complain(&[b"this glibc is older than 2.35: nothing is recorded"]);
        return None;
    }
    let settings =
        Settings { options: request.options, depth_limit: request.depth as usize, strategy: request.strategy };
    // SAFETY: the phase is `Starting`: no other thread looks at settings or ledger yet.
    let ledger = unsafe {
        *shared.settings.get() = settings;
        &mut *shared.ledger.get()
    };
    let start_unix_ns = shared.clock.start();
    let image = open_ledger(ledger, &request, session, start_unix_ns)?;
    let begun = shared.index.start()
        && shared.history.start(request.history)
        && shared.sites.start(ledger)
        && describe_heaps(ledger, hooks)
        && describe_process(ledger, &request, session, image, hooks)
        && shared.mark.set().is_ok();
    if !begun {
        ledger.set_state(State::Stopped);
        ledger.open_for_readers();
        complain(&[b"no memory for the recorder: nothing is recorded"]);
        return None;
    }
    place_anchor(ledger);
    ledger.set_state(State::Recording);
    ledger.open_for_readers();
    Some(())
}

/// One line on standard error, only for what the person must know.
fn complain(parts: &[&[u8]]) {
    let mut line = Text::<256>::new();
    line.push(b"heapledger: ");
    for part in parts {
        line.push(part);
    }
    line.push(b"\n");
    let _ = syscall::write(2, line.bytes());
}

fn push_ledger_dir(path: &mut Text<PATH_BYTES_MAX>, base: &CStr) {
    path.push(base.to_bytes()).push(b"/heapledger-").push_number(u64::from(syscall::getuid()));
}

/// Makes sure that the directory exists, is ours alone and no link.
fn usable_dir(path: &CStr) -> bool {
    const OTHERS: u32 = 0o077;
    let _ = syscall::make_directory(path, 0o700);
    let flags = open_flag::DIRECTORY | open_flag::NO_FOLLOW | open_flag::CLOSE_ON_EXEC;
    let Ok(fd) = syscall::open(path, flags, 0) else { return false };
    let identity = syscall::identify(fd);
    syscall::close(fd);
    identity.is_ok_and(|identity| identity.uid == syscall::getuid() && identity.mode & OTHERS == 0)
}

/// Creates and maps the ledger's file in the first directory that has room; returns its image number.
fn open_ledger(ledger: &mut Ledger, request: &Request, session: u64, start_unix_ns: u64) -> Option<u64> {
    let memory = process::memory_limit();
    let mut bytes_max = request.max_ledger.unwrap_or((memory / 4).min(LEDGER_BYTES_DEFAULT_MAX)).max(LEDGER_BYTES_MIN);
    if let Some(limit) = syscall::limit(syscall::LIMIT_ADDRESS_BYTES) {
        // The mapping is address space that the program may want itself.
        bytes_max = bytes_max.min(limit / 16);
    }
    let runtime = process::environment::<PATH_BYTES_MAX>(b"XDG_RUNTIME_DIR");
    let temporary = process::environment::<PATH_BYTES_MAX>(b"TMPDIR");
    let candidates = [
        request.dir(),
        runtime.as_ref().map(Text::c_str),
        Some(c"/dev/shm"),
        temporary.as_ref().map(Text::c_str),
        Some(c"/tmp"),
    ];
    let first = usize::from(request.dir().is_none());
    // A directory that was asked for is the only one.
    let candidates = candidates.get(first..if first == 0 { 1 } else { candidates.len() }).unwrap_or(&[]);
    let mut reason: &[u8] = b"no directory for the ledger is usable";
    for base in candidates.iter().flatten().filter(|base| !base.to_bytes().is_empty()) {
        let mut dir = Text::<PATH_BYTES_MAX>::new();
        push_ledger_dir(&mut dir, base);
        if dir.is_cut() || !usable_dir(dir.c_str()) {
            continue;
        }
        match create(ledger, request, dir.bytes(), session, bytes_max, start_unix_ns) {
            Ok(image) => return Some(image),
            Err(why) => reason = why,
        }
    }
    complain(&[reason, b": nothing is recorded"]);
    None
}

fn create(
    ledger: &mut Ledger,
    request: &Request,
    dir: &[u8],
    session: u64,
    mut bytes_max: u64,
    start_unix_ns: u64,
) -> Result<u64, &'static [u8]> {
    const IMAGES_MAX: u64 = 10_000;
    let mut image = 0;
    loop {
        let mut header = Header::new(CODEC, layout_64(request.options), request.options);
        header.machine = EM_X86_64;
        header.flags = flag::PUBLISHED_SINGLY;
        header.tick_ns = TICK_NS;
        header.start_unix_ns = start_unix_ns;
        header.order_bound = ORDER_BOUND as u32;
        header.depth_limit = request.depth as u16;
        header.id = ((u128::from(syscall::random()) << 64) | u128::from(syscall::random())).to_le_bytes();
        // At most an eighth for freed blocks, so that live ones have room.
        let history = request.history.min(bytes_max / 8 / 64) / 64 * 64;
        let bytes = ledger::plan(&mut header, bytes_max, history);
        let mut path = Text::<PATH_BYTES_MAX>::new();
        path.push(dir).push(b"/").push_hex(session).push(b"-").push_number(image).push(b".hlive");
        if path.is_cut() {
            return Err(b"the ledger's path is too long");
        }
        let too_long = syscall::limit(syscall::LIMIT_FILE_BYTES).is_some_and(|limit| bytes > limit);
        let created = if too_long { Err(Errno::NOMEM) } else { FileMapping::create(path, bytes as usize) };
        match created {
            Ok(mapping) => {
                let ready = ledger.set_up(mapping, &header, bytes_max);
                return if ready { Ok(image) } else { Err(b"no room for the ledger") };
            }
            // An earlier program of this process: exec starts another ledger.
            Err(Errno::EXIST) if image < IMAGES_MAX => image += 1,
            // Address space or file size is limited: less will do.
            Err(_) if bytes_max / 2 >= LEDGER_BYTES_MIN => bytes_max /= 2,
            Err(_) => return Err(b"the ledger's file cannot be made or mapped"),
        }
    }
}

fn append(ledger: &Ledger, kind: SectionKind, bytes: &[u8]) -> Option<u64> {
    let at = ledger.lease(kind, bytes.len() as u64)?;
    // SAFETY: these bytes were just leased to us.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), ledger.section(kind).at(at), bytes.len()) };
    Some(at)
}

fn describe_heaps(ledger: &Ledger, hooks: &Hooks) -> bool {
    hooks.heaps.iter().all(|name| {
        let (Some(name_at), Some(row)) =
            (append(ledger, SectionKind::Strings, name), ledger.lease(SectionKind::Heaps, 1))
        else {
            return false;
        };
        const BYTES: usize = heap::bytes(WordSize::W64);
        // SAFETY: the row was just leased to us.
        let element = unsafe { core::slice::from_raw_parts_mut(ledger.section(SectionKind::Heaps).at(row), BYTES) };
        CODEC.put(element, heap::name_at(WordSize::W64), 4, name_at)
            && CODEC.put(element, heap::name_bytes(WordSize::W64), 4, name.len() as u64)
            && CODEC.put(element, heap::low(WordSize::W64), 8, u64::MAX)
            && CODEC.put(element, heap::state(WordSize::W64), 4, 1)
    })
}

fn describe_process(ledger: &Ledger, request: &Request, session: u64, image: u64, hooks: &Hooks) -> bool {
    let pair = |key: &[u8], value: &[u8]| {
        append(ledger, SectionKind::Process, key).is_some()
            && append(ledger, SectionKind::Process, b"=").is_some()
            && append(ledger, SectionKind::Process, value).is_some()
            && append(ledger, SectionKind::Process, b"\0").is_some()
    };
    let number = |key: &[u8], value: u64| pair(key, Text::<24>::new().push_number(value).bytes());
    let described = number(b"pid", u64::from(syscall::getpid()))
        && number(b"ppid", u64::from(syscall::getppid()))
        && number(b"start_ticks", process::start_ticks())
        && number(b"uid", u64::from(syscall::getuid()))
        && pair(b"session", Text::<24>::new().push_hex(session).bytes())
        && number(b"image", image)
        && pair(b"exe", process::link::<1024>(c"/proc/self/exe").bytes())
        && pair(b"cwd", process::link::<1024>(c"/proc/self/cwd").bytes())
        && pair(b"next", hooks.next.to_bytes())
        && pair(b"cxx", hooks.cxx.to_bytes())
        && number(b"history", request.history)
        && number(b"max_ledger", request.max_ledger.unwrap_or(0))
        && pair(b"version", env!("CARGO_PKG_VERSION").as_bytes());
    // Arguments come in pieces and may be very many: as far as there is room.
    let mut in_argument = false;
    let mut room = true;
    let mut program = Text::<256>::new();
    let mut named = false;
    process::arguments(&mut |piece| {
        if !named {
            // The name by which it was called: what a symbolic link leads to would surprise.
            let first = piece.split(|byte| *byte == 0).next().unwrap_or(&[]);
            program.push(first.rsplit(|byte| *byte == b'/').next().unwrap_or(first));
            named = true;
        }
        for part in piece.split_inclusive(|byte| *byte == 0) {
            if !in_argument {
                room &= append(ledger, SectionKind::Process, b"arg=").is_some();
            }
            room &= append(ledger, SectionKind::Process, part).is_some();
            in_argument = !part.ends_with(b"\0");
        }
        room
    });
    described && pair(b"program", program.bytes())
}

/// A page of private memory from which a core dump leads to the ledger's file.
fn place_anchor(ledger: &Ledger) {
    let (Ok(page), Some(mapping)) = (syscall::map_anonymous(PAGE_BYTES), ledger.mapping()) else { return };
    let mut text = Text::<1024>::new();
    text.push(&MAGIC).push(b"anchor\n").push(mapping.path().bytes()).push(b"\n");
    // SAFETY: a fresh page, longer than the text; nobody else knows it.
    unsafe { core::ptr::copy_nonoverlapping(text.bytes().as_ptr(), page, text.bytes().len()) };
}

/// Leaves a mark that a child process of the watched one was not watched: one byte in a file.
fn note_child(mut path: Text<PATH_BYTES_MAX>, session: u64) {
    path.push(b"/").push_hex(session).push(b".children");
    let flags =
        open_flag::WRITE | open_flag::CREATE | open_flag::APPEND | open_flag::NO_FOLLOW | open_flag::CLOSE_ON_EXEC;
    if let Ok(fd) = syscall::open(path.c_str(), flags, 0o600) {
        let _ = syscall::write(fd, b".");
        syscall::close(fd);
    }
}

/// A forked child finds out that it is one: it never records, and says so once.
#[cold]
pub fn note_forked_child(shared: &'static Shared) {
    let claimed = shared.phase.compare_exchange(Phase::On as u8, Phase::Off as u8, Ordering::AcqRel, Ordering::Relaxed);
    let (Ok(_), Some(mapping)) = (claimed, shared.ledger().mapping()) else { return };
    let live = mapping.path().bytes();
    let Some(slash) = live.iter().rposition(|byte| *byte == b'/') else { return };
    let (dir, name) = live.split_at(slash);
    let session = name.get(1..17).and_then(heapledger_linux::text::hex);
    let mut path = Text::new();
    path.push(dir);
    if let Some(session) = session {
        note_child(path, session);
    }
}

/// Whether this option is recorded, for the library of hooks: what is not needed need not be asked.
pub fn records(shared: &Shared, option: u32) -> bool {
    shared.settings().options.has(option)
}

const _: () = assert!(Options::ALL.0 < 64);
