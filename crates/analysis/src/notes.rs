//! What a report could not see. Every report ends with these.

use heapledger_format::record::Options;
use heapledger_format::session::process;
use heapledger_format::{SectionKind, TallyCounter};
use heapledger_source::{Damage, Ledger, SourceError};

use crate::{Engine, FamilyNote, FoundBy, errors};

/// Whether freed blocks are recorded: there is a ring, however little it holds.
pub(crate) fn records_frees(ledger: &Ledger) -> bool {
    ledger.header().options.has(Options::HISTORY)
}

/// How many of a program's frees the ledger still has. Figures of freed blocks are of these, whatever they are added to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreesHeld {
    /// All that were counted.
    pub all: u64,
    /// Those that are no longer in the history.
    pub missing: u64,
    /// Whether there is a history at all.
    pub recorded: bool,
    /// Whether these are estimates.
    pub estimated: bool,
}

/// One thing that was not seen. Reports turn it into a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// What was opened is a core dump or an image of memory: where its ledger was, and of which moment.
    FoundBy(FoundBy),
    /// A copy, or a ledger in a core dump, of which nobody knows when it was made: ages count to the last that is known.
    CopiedSometime,
    /// A loss that the recorder counted.
    Loss(TallyCounter, u64),
    /// Frees that the history has not, and no longer one would have: the ledger had no room for it.
    HistoryWithoutRoom(u64),
    /// Call stacks that firmware has found by a scan of the stack: frames in them may be of earlier calls.
    ScannedStacks(u64),
    /// Elements that were being written when they were read.
    InFlight(u64),
    /// By how much the totals and the records disagree.
    Unaccounted {
        /// Blocks that the totals have more.
        blocks: i64,
        /// Whether that is an estimate.
        estimated: bool,
    },
    /// What is wrong with the file.
    Damage(Damage),
    /// Sections that an earlier `heapledger` left out when it finished the ledger: their names, or numbers.
    LeftOut(Vec<String>),
    /// The ledger ran out of room; new blocks were no longer entered.
    Full,
    /// Recording stopped before the program ended.
    Stopped,
    /// The program ran before it was recorded, for so many milliseconds: what it allocated then is not in the ledger.
    Attached(u64),
    /// A module has a `malloc` of its own, to which the program's calls go: its path.
    OtherMalloc(String),
    /// The history is shorter than was asked for.
    HistoryCut {
        /// Frees that it was asked to hold.
        asked: u64,
        /// Those that it has room for.
        room: u64,
        /// With a ledger of so many bytes it would have had it; `None` if one that could be larger was asked for: a limit of the
        /// program's address space or file size was in the way.
        max_ledger: Option<u64>,
    },
    /// The target was halted in the middle of an update: one block may be half entered.
    Busy,
    /// Why functions of a module have no names.
    Module {
        /// Its path.
        path: String,
        /// One sentence.
        reason: String,
    },
    /// Modules whose functions have names, but no lines: they came without debug information. Their paths.
    WithoutDebugInfo(Vec<String>),
    /// Modules whose debug information could not be fetched from where it may be: their paths, and why.
    NotFetched {
        /// Their paths.
        paths: Vec<String>,
        /// Half a sentence.
        reason: String,
    },
    /// How to come by functions and lines of those modules that have none.
    Advice(Advice),
    /// What the program's engine runs has no names, because nobody had it tell them.
    Engine(Engine),
    /// Stacks have no lines of Python, though they were asked for: why.
    NoScriptLines(String),
    /// Functions have no names: the ledger has code addresses of a program, and nobody said which file that is. Its build id, if the
    /// ledger tells it.
    NoProgram(Option<String>),
    /// Stacks whose trie is damaged.
    StacksDamaged(u64),
    /// Something that the log lacks which the ledger was made of: a sentence.
    LogLacks(String),
    /// Something else that is to be known of it: a sentence.
    LogSays(String),
    /// Something of a session of several processes.
    Family(Box<FamilyNote>),
}

/// What to install or to type for functions and lines of modules that have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// Packages to install.
    pub packages: Vec<String>,
    /// The archive that has them, if it is not one that everybody has.
    pub archive: Option<String>,
    /// A server that has debug information of these packages, if none is asked yet.
    pub server: Option<String>,
    /// Files of packages that only the distribution's own package manager can tell, and how that is asked to install what
    /// belongs to them: the words before and behind their paths.
    pub files: Option<([&'static str; 2], Vec<String>)>,
    /// Modules that belong to no package, and their build ids: whoever built them has them with debug information.
    pub own: Vec<(String, Vec<u8>)>,
}

impl Advice {
    /// The advice for another ledger besides.
    pub fn join(&mut self, other: &Advice) {
        self.packages.extend(
            other.packages.iter().filter(|package| !self.packages.contains(package)).cloned().collect::<Vec<_>>(),
        );
        self.packages.sort();
        self.own.extend(other.own.iter().filter(|own| !self.own.contains(own)).cloned().collect::<Vec<_>>());
        self.archive = self.archive.take().or_else(|| other.archive.clone());
        self.server = self.server.take().or_else(|| other.server.clone());
        match (&mut self.files, &other.files) {
            (Some((_, own)), Some((_, files))) => {
                own.extend(files.iter().filter(|file| !own.contains(file)).cloned().collect::<Vec<_>>());
            }
            (own, files) => *own = own.take().or_else(|| files.clone()),
        }
    }
}

/// What all reports must say of a ledger, as far as it is not zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The notes, most important first.
    pub notes: Vec<Note>,
}

/// Totals that are losses, in the order in which they are reported. The others count what was done.
const LOSSES: &[TallyCounter] = &[
    TallyCounter::StacksDiffering,
    TallyCounter::LostNoRecord,
    TallyCounter::LostBytes,
    TallyCounter::LostNoIndex,
    TallyCounter::LostBusy,
    TallyCounter::LostNoThread,
    TallyCounter::FreesBusy,
    TallyCounter::FilesUnseen,
    TallyCounter::DeepBound,
    TallyCounter::DeepUnbound,
    TallyCounter::Displaced,
    TallyCounter::UnknownFrees,
    TallyCounter::SitesFull,
    TallyCounter::StacksCut,
    TallyCounter::StacksBroken,
    TallyCounter::StacksGuessed,
    TallyCounter::WideLost,
    TallyCounter::ThreadsUnnamed,
    TallyCounter::HistoryLost,
    TallyCounter::SumsLost,
    TallyCounter::ScriptsLost,
    TallyCounter::ScriptsCut,
    TallyCounter::LabelsLost,
    TallyCounter::MarksLost,
    TallyCounter::WindowsLost,
    TallyCounter::ErrorsLost,
    TallyCounter::ErrorsUnrecorded,
    TallyCounter::GuardedUnseen,
    TallyCounter::GuardedLess,
    TallyCounter::AccountsLost,
];

/// Bytes of a ledger for each entry of its history, which gets an eighth at most.
const LEDGER_BYTES_OF_AN_ENTRY: u64 = 8 * 64;
/// Entries of the history if nothing was asked for: a small ledger has fewer, and nobody wonders.
const HISTORY_DEFAULT: u64 = 65_536;
/// The key of a ledger under which it says how many entries were asked for.
const HISTORY_ASKED: &str = "history";

/// How many frees the history may hold, in this ledger.
fn history_room(ledger: &Ledger) -> u64 {
    ledger.header().section(SectionKind::History).map_or(0, |section| section.capacity)
}

/// Whether the ledger could not give the history what was asked for, or nothing at all.
fn history_is_short(ledger: &Ledger) -> Result<bool, SourceError> {
    let asked = ledger.process().number(HISTORY_ASKED).unwrap_or(0);
    Ok(history_room(ledger) < asked || ledger.count(SectionKind::History)? == 0)
}

fn history_cut(ledger: &Ledger) -> Option<Note> {
    let figure = |key| ledger.process().number(key);
    let asked = figure(HISTORY_ASKED).filter(|asked| *asked != HISTORY_DEFAULT && records_frees(ledger))?;
    let room = history_room(ledger);
    let needed = asked.saturating_mul(LEDGER_BYTES_OF_AN_ENTRY);
    let max_ledger = Some(needed).filter(|needed| figure("max_ledger").unwrap_or(0) < *needed);
    (room < asked).then_some(Note::HistoryCut { asked, room, max_ledger })
}

impl Seen {
    /// What `ledger` says of itself, `in_flight` elements having been passed over. Ask after reading it.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(ledger: &Ledger, in_flight: u64) -> Result<Seen, SourceError> {
        use heapledger_format::header::State;
        let mut notes: Vec<Note> = FoundBy::of(ledger)?.map(Note::FoundBy).into_iter().collect();
        let damage = ledger.damage();
        if damage.is_any() {
            notes.push(Note::Damage(damage));
        }
        let header = ledger.current_header()?;
        let has_ages = header.options.has(Options::TIME) && header.tick_ns != 0;
        if ledger.is_copy() && has_ages && ledger.copied_unix_ns().is_none() {
            notes.push(Note::CopiedSometime);
        }
        if header.busy != 0 {
            notes.push(Note::Busy);
        }
        notes.extend(ledger.process().all_of(process::MISSING_PREFIX).map(Note::LogLacks));
        notes.extend(ledger.process().all_of(process::REMARK_PREFIX).map(Note::LogSays));
        notes.extend(ledger.process().number(process::ATTACHED_MS).map(Note::Attached));
        notes.extend(ledger.process().text(process::AHEAD).map(Note::OtherMalloc));
        match header.state {
            State::Full => notes.push(Note::Full),
            State::Stopped => notes.push(Note::Stopped),
            State::Starting | State::Recording => {}
        }
        let name = |kind: u16| {
            SectionKind::from_number(kind).map_or_else(|| kind.to_string(), |kind| kind.name().replace('_', " "))
        };
        let left_out: Vec<String> = ledger.left_out().into_iter().map(name).collect();
        notes.extend((!left_out.is_empty()).then_some(Note::LeftOut(left_out)));
        notes.extend(history_cut(ledger));
        let wrong_frees = errors::wrong_frees(ledger)?;
        let tallies = ledger.tallies()?;
        let sampled = ledger.sample_interval() != 0;
        // Between samples, blocks that nobody entered are freed all the time.
        let expected = |counter: TallyCounter| sampled && counter == TallyCounter::UnknownFrees;
        let losses = LOSSES.iter().filter(|counter| !expected(**counter));
        let count = |counter: TallyCounter| match counter {
            TallyCounter::UnknownFrees => tallies.get(counter).saturating_sub(wrong_frees),
            _ => tallies.get(counter),
        };
        let losses = losses.map(|counter| (*counter, count(*counter))).filter(|(_, count)| *count != 0);
        let is_of_chip = ledger.is_of_chip();
        let without_room = header.state == State::Full || history_is_short(ledger)?;
        notes.extend(losses.map(|(counter, count)| match counter {
            // By frame pointers and tables a chip's are exact, and not counted.
            TallyCounter::StacksGuessed if is_of_chip => Note::ScannedStacks(count),
            TallyCounter::HistoryLost if without_room => Note::HistoryWithoutRoom(count),
            _ => Note::Loss(counter, count),
        }));
        let in_flight = in_flight + ledger.taken().map_or(0, |taken| taken.in_flight);
        if in_flight != 0 {
            notes.push(Note::InFlight(in_flight));
        }
        Ok(Seen { notes })
    }

    /// What two ledgers say of themselves, each thing once.
    ///
    /// # Errors
    /// If one of them can no longer be read.
    pub fn of_both([a, b]: [&Ledger; 2]) -> Result<Seen, SourceError> {
        let mut seen = Seen::of(a, 0)?;
        seen.join(Seen::of(b, 0)?.notes);
        Ok(seen)
    }

    /// Adds notes on another ledger, or on names. What is there already is not said twice.
    pub fn join(&mut self, notes: Vec<Note>) {
        let is_list = |note: &Note| matches!(note, Note::WithoutDebugInfo(_));
        let is_advice = |note: &Note| matches!(note, Note::Advice(_));
        for note in notes {
            // Modules without debug information are one list for both.
            if let (Note::WithoutDebugInfo(more), Some(Note::WithoutDebugInfo(paths))) =
                (&note, self.notes.iter_mut().find(|note| is_list(note)))
            {
                paths.extend(more.iter().filter(|path| !paths.contains(path)).cloned().collect::<Vec<_>>());
                paths.sort();
            } else if let (Note::Advice(more), Some(Note::Advice(advice))) =
                (&note, self.notes.iter_mut().find(|note| is_advice(note)))
            {
                advice.join(more);
            } else if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// Takes over what of `ledger` has been found damaged by now: names and stacks are read later than blocks.
    pub fn renew_damage(&mut self, ledger: &Ledger) {
        let damage = ledger.damage();
        self.notes.retain(|note| !matches!(note, Note::Damage(_)));
        if damage.is_any() {
            self.notes.push(Note::Damage(damage));
        }
    }

    /// The same without what `drop` says: not every report is about everything.
    #[must_use]
    pub fn without(mut self, drop: &[TallyCounter]) -> Seen {
        self.notes.retain(|note| match note {
            Note::Loss(counter, _) => !drop.contains(counter),
            Note::HistoryWithoutRoom(_) => !drop.contains(&TallyCounter::HistoryLost),
            _ => true,
        });
        self
    }
}
