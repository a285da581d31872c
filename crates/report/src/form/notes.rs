//! What a report could not see, in sentences.

use std::io::{self, Write};
use std::time::Duration;

use heapledger_analysis::{Advice, Coverage, Engine, FoundBy, FreesHeld, Moment, Note, Seen};
use heapledger_format::TallyCounter;
use heapledger_source::Damage;
use heapledger_symbols::Hex;

use crate::form::attached::attached;
use crate::form::family_notes;
use crate::form::units::{Figures, Paint, clean, count, counted, plain_bytes, span};

mod losses;

use losses::{history_without_room, loss};

/// A note as a sentence for a person.
pub fn sentence(note: &Note) -> String {
    match note {
        Note::FoundBy(found) => moment(found),
        Note::CopiedSometime => {
            "It is not known when this was copied: ages are counted to the last that was recorded, and are at least what \
             is said."
                .to_owned()
        }
        Note::Loss(counter, number) => loss(*counter, *number),
        Note::HistoryWithoutRoom(number) => history_without_room(*number),
        Note::ScannedStacks(number) => format!(
            "{} by a scan of the stack: the innermost frame is certain, and some of the others may be of earlier calls.",
            was(*number, "call stack was found", "call stacks were found")
        ),
        Note::InFlight(number) => {
            format!("{} being entered while the ledger was read.", was(*number, "element was", "elements were"))
        }
        Note::Unaccounted { blocks, estimated } => {
            let figures = Figures { estimated: *estimated, ..Figures::default() };
            let missing = figures.counted(blocks.unsigned_abs(), "block is", "blocks are");
            if *blocks > 0 {
                format!(
                    "{missing} in the totals and not among the records: calls under way, or records that were lost."
                )
            } else {
                format!("{missing} among the records and not yet in the totals: calls that were under way.")
            }
        }
        Note::Damage(damage) => damaged(damage),
        Note::LeftOut(sections) => format!(
            "An earlier heapledger finished this ledger and left out what it did not know: section {}.",
            sections.join(", ")
        ),
        Note::Full => "The ledger ran out of room: frees were followed, new blocks were not entered.".to_owned(),
        Note::Stopped => "Recording stopped before the program ended: the program said so, there was no memory for it, or the \
                          program forbade itself system calls that recording takes (seccomp)."
            .to_owned(),
        Note::Attached(ms) => attached(*ms),
        Note::OtherMalloc(path) => format!(
            "{} has a malloc of its own, to which the program's calls go: what it does not pass on is not seen.",
            clean(path)
        ),
        Note::HistoryCut { asked, room, max_ledger } => {
            let more = match max_ledger {
                Some(bytes) => format!(
                    "it gets at most an eighth of the ledger. For all of them: --max-ledger {}M",
                    bytes.div_ceil(1 << 20)
                ),
                None => "a limit of the program's address space or file size (ulimit -v, ulimit -f) keeps the ledger small"
                    .to_owned(),
            };
            let room = counted(*room, "free", "frees");
            format!("The history has room for {room}, not for the {} asked for: {more}.", count(*asked))
        }
        Note::Busy => "The target was halted in the middle of an update: one block may be half entered.".to_owned(),
        Note::Module { reason, .. } => format!("{}.", capital(reason)),
        Note::NotFetched { paths, reason } => {
            format!("Debug information of {} could not be fetched: {reason}.", file_names(paths))
        }
        Note::WithoutDebugInfo(paths) => {
            let modules = file_names(paths);
            format!("No debug information for {modules}: symbol names only, no lines.")
        }
        Note::Advice(advice) => advised(advice),
        Note::Engine(engine) => engine_told(*engine),
        Note::NoScriptLines(why) => format!("Stacks have no lines of Python: {}.", clean(why)),
        Note::NoProgram(build_id) => {
            let build_id = build_id.as_ref().map(|id| format!(" of build id {}", clean(id))).unwrap_or_default();
            format!(
                "Functions have no names: the ledger tells code addresses, and not which file they are of. Name the program{build_id}: \
                 `--exe FILE`, also more than one (a boot loader, a chip's ROM)."
            )
        }
        Note::StacksDamaged(number) => {
            format!("{} damaged in the ledger and shown in part.", was(*number, "stack is", "stacks are"))
        }
        Note::LogLacks(text) | Note::LogSays(text) => text.clone(),
        Note::Family(note) => family_notes::sentence_of(note),
    }
}

/// Frees that are not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingFrees {
    /// How many.
    pub frees: u64,
    /// Whether that is an estimate.
    pub estimated: bool,
    /// Whether the ledger recorded freed blocks at all.
    pub recorded: bool,
}

/// Why frees are not shown: half a sentence, to stand behind "Caution: ".
pub fn missing_frees(missing: MissingFrees) -> String {
    let MissingFrees { frees, estimated, recorded } = missing;
    let frees = Figures { estimated, exact_bytes: false }.counted(frees, "free is", "frees are");
    if recorded {
        format!("history is incomplete: {frees} no longer in the ring")
    } else {
        format!("freed blocks were not recorded (--history 0): {frees} not shown")
    }
}

/// What figures of allocated blocks, or of freed ones, are of, if the history does not hold all frees: to stand right
/// behind such a figure, which would look whole.
pub fn part_of_frees(held: FreesHeld, freed_alone: bool) -> Option<String> {
    let figures = Figures { estimated: held.estimated, exact_bytes: false };
    let frees = figures.counted(held.all.saturating_sub(held.missing), "free", "frees");
    match (held.missing, held.recorded, freed_alone) {
        (0, ..) => None,
        (_, true, false) => Some(format!("of live blocks and the last {frees}")),
        (_, true, true) => Some(format!("of the last {frees}")),
        (_, false, false) => Some("of live blocks alone: frees were not recorded".to_owned()),
        (_, false, true) => Some("frees were not recorded".to_owned()),
    }
}

/// What the history of ledgers has not, in words.
pub fn missing_events(events: &Coverage) -> String {
    let &Coverage { frees_missing, frees_shown_before, frees_recorded, .. } = events;
    let estimated = events.sampled.is_some();
    if frees_shown_before == 0 {
        return missing_frees(MissingFrees { frees: frees_missing, estimated, recorded: frees_recorded });
    }
    let frees = Figures { estimated, exact_bytes: false }.counted(frees_shown_before, "free is", "frees are");
    let shown = format!("{frees} left out, because an earlier copy of the ledger shows them");
    match frees_missing.saturating_sub(frees_shown_before) {
        0 => shown,
        gone => {
            let gone = MissingFrees { frees: gone, estimated, recorded: frees_recorded };
            format!("{shown}; {}", missing_frees(gone))
        }
    }
}

fn file_names(paths: &[String]) -> String {
    let names: Vec<&str> = paths.iter().map(|path| path.rsplit('/').next().unwrap_or(path)).collect();
    names.join(", ")
}

/// One name for programs, the same for the same kind of note.
pub(crate) fn name(note: &Note) -> &'static str {
    match note {
        Note::FoundBy(_) => "found_by",
        Note::CopiedSometime => "copied_sometime",
        Note::Loss(counter, _) => counter.name(),
        Note::HistoryWithoutRoom(_) => TallyCounter::HistoryLost.name(),
        Note::ScannedStacks(_) => TallyCounter::StacksGuessed.name(),
        Note::InFlight(_) => "in_flight",
        Note::Unaccounted { .. } => "unaccounted",
        Note::Damage(_) => "damage",
        Note::LeftOut(_) => "left_out",
        Note::Full => "full",
        Note::Stopped => "stopped",
        Note::Attached(_) => "attached",
        Note::OtherMalloc(_) => "other_malloc",
        Note::HistoryCut { .. } => "history_cut",
        Note::Busy => "busy",
        Note::Module { .. } => "module",
        Note::WithoutDebugInfo(_) => "without_debug_info",
        Note::NotFetched { .. } => "not_fetched",
        Note::Advice(_) => "advice",
        Note::Engine(_) => "engine",
        Note::NoScriptLines(_) => "no_script_lines",
        Note::NoProgram(_) => "no_program",
        Note::StacksDamaged(_) => "stacks_damaged",
        Note::LogLacks(_) => "log_lacks",
        Note::LogSays(_) => "log_says",
        Note::Family(note) => family_notes::name_of(note),
    }
}

/// Modules and packages that are named in one sentence; more would be a screen of them.
const NAMED: usize = 8;

/// What to type for functions and lines.
fn advised(advice: &Advice) -> String {
    let Advice { packages, archive, server, files, own } = advice;
    let mut ways = Vec::new();
    if !packages.is_empty() {
        let archive = archive.as_ref().map(|archive| format!(" (archive {archive})")).unwrap_or_default();
        let more = if packages.len() > NAMED { " …" } else { "" };
        let named = packages.get(..NAMED).unwrap_or(packages).join(" ");
        ways.push(format!("`apt install {named}{more}`{archive}"));
    }
    if let Some(([before, behind], files)) = files {
        let named: Vec<String> = files.iter().take(NAMED).map(|file| quoted(file)).collect();
        ways.push(format!("`{before} {} {behind}`", named.join(" ")).replace(" )`", ")`"));
    }
    if !ways.is_empty() {
        ways.extend(server.as_ref().map(|server| format!("`DEBUGINFOD_URLS={server}`")));
    }
    let mut parts = vec![ways.join(" or ")];
    parts.retain(|part| !part.is_empty());
    if let [(path, build_id), others @ ..] = own.as_slice() {
        let name = |path: &String| path.rsplit('/').next().unwrap_or(path).to_owned();
        let mut names = vec![name(path)];
        names.extend(others.iter().take(NAMED - 1).map(|(path, _)| name(path)));
        let more = if own.len() > NAMED { " …" } else { "" };
        let id = if others.is_empty() && !build_id.is_empty() {
            format!(" (build id {})", Hex(build_id))
        } else {
            String::new()
        };
        parts.push(format!(
            "for {}{more}{id} `--exe FILE`, as it was before it was stripped or with its debug information, or `--debug-dir DIR`",
            names.join(", ")
        ));
    }
    format!("To see more: {}.", parts.join("; "))
}

/// A path as a shell takes it.
fn quoted(path: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._+-".contains(letter);
    if path.chars().all(is_plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

/// What to start an engine with, so that what it runs has names.
fn engine_told(engine: Engine) -> String {
    match engine {
        Engine::Python { minor, has_pools, has_lines } => {
            let (first, last) = LINES_OF_PYTHON;
            let lines = match minor {
                _ if has_lines => None,
                Some(minor) if minor > last => Some("To see Python's functions: `python3 -X perf …`.".to_owned()),
                Some(minor) if minor < first => Some(format!(
                    "To see Python's lines: `heapledger run --python`, of Python 3.{first} to 3.{last} (this is 3.{minor})."
                )),
                _ => Some("To see Python's lines: `heapledger run --python …`.".to_owned()),
            };
            let objects =
                has_pools.then(|| "Small objects have stacks of their own with `PYTHONMALLOC=malloc`.".to_owned());
            lines.into_iter().chain(objects).collect::<Vec<_>>().join(" ")
        }
        Engine::Node => {
            "To see JavaScript's functions: `node --perf-basic-prof --interpreted-frames-native-stack …`.".to_owned()
        }
        Engine::Java => {
            "To see Java's compiled methods: `java -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions \
             -XX:+DumpPerfMapAtExit …`."
                .to_owned()
        }
    }
}

/// First and last Python whose lines stacks can have, by their second numbers.
const LINES_OF_PYTHON: (u32, u32) = (11, 13);

/// Which moment the report is of.
fn moment(found: &FoundBy) -> String {
    let (image, read) = (&found.image, &found.read);
    let mut text = match found.moment {
        Moment::OfImage if found.is_core => format!("The ledger was read from {image} itself: it is as of then."),
        Moment::OfImage if found.has_addresses => {
            format!("The ledger was found at {:#x} in {image}.", found.address.unwrap_or(0))
        }
        Moment::OfImage => {
            format!("The ledger was found {} into {image}.", plain_bytes(found.address.unwrap_or(0)))
        }
        Moment::Now => {
            format!("{image} leads to {read}, and the program runs: the report is of now, not of that moment.")
        }
        Moment::Crash => {
            format!("{image} leads to {read}: the report is of the program's end, when the core dump was written.")
        }
        Moment::End => format!(
            "{image} leads to {read}: the report is of the program's end; nothing was entered after the core dump's \
             time stamp."
        ),
        Moment::Later(by) => {
            format!("{image} leads to {read}: the report is of the program's end, {} after that moment.", lasting(by))
        }
        Moment::SnapshotBefore(by) => format!(
            "{image} leads to {read}: the report is of a snapshot or a copy that was taken {} before that moment; there is no \
             ledger of the program's end.",
            lasting(by)
        ),
        Moment::SnapshotAfter(by) => format!(
            "{image} leads to {read}: the report is of a snapshot or a copy that was taken {} after that moment; there is no \
             ledger of the program's end.",
            lasting(by)
        ),
        Moment::Copied => format!(
            "{image} leads to {read}: the report is of when that was copied, not of that moment; there is no ledger \
             of the program's end."
        ),
    };
    if found.cut {
        text.push_str(if found.is_core { " The core dump itself ends early." } else { " The file itself ends early." });
    }
    if found.altered {
        text.push_str(" By its checksum, bytes of it were changed on the way: any figure may be wrong.");
    }
    text
}

fn lasting(time: Duration) -> String {
    span(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

fn was(number: u64, one: &str, many: &str) -> String {
    counted(number, one, many)
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    // A path at the beginning of a sentence stays as it is.
    match letters.next() {
        Some(first) if first != '/' => first.to_uppercase().chain(letters).collect(),
        _ => text.to_owned(),
    }
}

fn damaged(damage: &Damage) -> String {
    let mut parts = Vec::new();
    if let Some(at) = damage.cut_at {
        parts.push(format!("it ends early, after {}", plain_bytes(at)));
    }
    if damage.header {
        parts.push("its header is damaged, so any figure may be wrong".to_owned());
    }
    if damage.pieces_lost != 0 {
        parts.push(format!("{} unreadable", was(damage.pieces_lost, "piece is", "pieces are")));
    }
    if damage.bytes_skipped != 0 {
        parts.push(format!("{} skipped", plain_bytes(damage.bytes_skipped)));
    }
    if damage.elements_missing != 0 {
        parts.push(format!("{} missing", was(damage.elements_missing, "element is", "elements are")));
    }
    if damage.elements_wrong != 0 {
        parts.push(format!("{} out of it", counted(damage.elements_wrong, "reference leads", "references lead")));
    }
    format!("The ledger is damaged: {}.", parts.join(", "))
}

/// Whether a note means that figures may be wrong. Of frames that were found by frame pointers nothing is missing; nor do
/// they say that names are, or of which moment the report is.
pub(crate) fn is_loss(note: &Note) -> bool {
    !matches!(
        family_notes::inner(note),
        Note::Loss(TallyCounter::StacksGuessed, _)
            | Note::ScannedStacks(_)
            | Note::Module { .. }
            | Note::WithoutDebugInfo(_)
            | Note::NotFetched { .. }
            | Note::Advice(_)
            | Note::Engine(_)
            | Note::NoScriptLines(_)
            | Note::FoundBy(_)
            | Note::CopiedSometime
            | Note::LogSays(_)
    ) && !family_notes::is_remark(note)
}

/// Writes the notes, if there are any.
pub(crate) fn write(out: &mut dyn Write, seen: &Seen, paint: Paint) -> io::Result<()> {
    // That names are missing is the usual case and no loss of the ledger's.
    let (names, losses): (Vec<&Note>, Vec<&Note>) = seen.notes.iter().partition(|note| {
        matches!(
            note,
            Note::Module { .. }
                | Note::WithoutDebugInfo(_)
                | Note::NotFetched { .. }
                | Note::Advice(_)
                | Note::Engine(_)
                | Note::NoScriptLines(_)
        )
    });
    let (losses, others): (Vec<&Note>, Vec<&Note>) = losses.into_iter().partition(|note| is_loss(note));
    let (found, remarks) = others.into_iter().partition(|note| matches!(note, Note::FoundBy(_) | Note::CopiedSometime));
    let parts = [("Moment    :", found), ("Not seen  :", losses), ("Note      :", remarks), ("Names     :", names)];
    for (heading, notes) in parts {
        if !notes.is_empty() {
            writeln!(out, "{}", paint.strong(heading))?;
        }
        for note in notes {
            writeln!(out, "  {}", paint.lines(&clean(&sentence(note)), 2, 2))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loss_is_a_sentence() {
        for counter in TallyCounter::ALL {
            for number in [1, 2] {
                let text = sentence(&Note::Loss(*counter, number));
                assert!(text.ends_with('.') && text.contains(&number.to_string()), "{text}");
            }
        }
        let no_thread = sentence(&Note::Loss(TallyCounter::LostNoThread, 2));
        assert!(no_thread.contains("no memory") && no_thread.contains("(seccomp)"), "both causes: {no_thread}");
        assert!(sentence(&Note::Damage(Damage::default())).ends_with('.'));
        assert_eq!(capital("no debug"), "No debug");
        assert_eq!(capital("/usr/x was"), "/usr/x was");
    }
}
