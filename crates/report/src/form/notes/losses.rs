//! Calls that could not be recorded, or not whole, in sentences.

use heapledger_format::TallyCounter;

use super::was;
use crate::form::units::{count, counted};

/// What to type where the ledger's file could not grow: its place is full, or what it may take.
const MORE_ROOM: &str = "More room: run --ledger-dir DIR on a disk with room, or --max-ledger SIZE";
/// What to do where private memory was refused.
const MORE_MEMORY: &str = "More memory: a higher ulimit -v; with run --sample 512K less is needed";

/// How often something was lost, and what is to be done about it.
pub(super) fn loss(counter: TallyCounter, number: u64) -> String {
    let blocks = || was(number, "block was", "blocks were");
    let stacks = |one: &str, many: &str| counted(number, &format!("stack {one}"), &format!("stacks {many}"));
    match counter {
        TallyCounter::LostNoRecord => {
            format!("{} not entered: there was no room for another record. {MORE_ROOM}.", blocks())
        }
        TallyCounter::LostBytes => {
            format!("{} asked for in blocks that were not entered.", was(number, "byte was", "bytes were"))
        }
        TallyCounter::LostNoIndex => format!(
            "{} not entered: there was no memory for the index, or it cannot hold the address. {MORE_MEMORY}.",
            blocks()
        ),
        TallyCounter::LostBusy => {
            format!("{} not entered: the call came from a signal handler, within the recorder.", blocks())
        }
        TallyCounter::LostNoThread => {
            let refused = "the program's filter of system calls (seccomp) refused it";
            format!("{} not entered: there was no memory for a thread's state, or {refused}. {MORE_MEMORY}.", blocks())
        }
        TallyCounter::FreesBusy => {
            let frees = was(number, "free", "frees");
            format!(
                "{frees} came from a signal handler, within the recorder: if their blocks were entered, they are shown as live."
            )
        }
        TallyCounter::Displaced => {
            format!("{} given out again without a free being seen; they count as freed.", blocks())
        }
        TallyCounter::DeepBound => format!(
            "{} asked for RTLD_DEEPBIND: what a library opened so allocates or frees itself is not seen; blocks of \
             others that it frees look alive.",
            counted(number, "call of dlopen", "calls of dlopen")
        ),
        TallyCounter::DeepUnbound => format!(
            "{} asked for RTLD_DEEPBIND and did not get it: a library opened so would free guarded blocks by the C library's \
             free. It is bound as without that flag: to the program's functions before its own, where both have them.",
            counted(number, "call of dlopen", "calls of dlopen")
        ),
        TallyCounter::FilesUnseen => format!(
            "{} not linked with --wrap: what they allocate or free themselves is not seen; blocks of others that they free look \
             alive.",
            was(number, "file of the program was", "files of the program were")
        ),
        TallyCounter::UnknownFrees => {
            format!(
                "{} of blocks that the ledger does not know: from before it began, or not entered.",
                counted(number, "free", "frees")
            )
        }
        TallyCounter::StacksDiffering => {
            format!("{} from what a full walk gave: please report this.", stacks("differed", "differed"))
        }
        TallyCounter::SitesFull => {
            format!("{} left out: the table of call sites is full. {MORE_ROOM}.", stacks("was", "were"))
        }
        TallyCounter::StacksCut => {
            format!("{} cut at the depth limit: run --depth N takes more frames.", stacks("was", "were"))
        }
        TallyCounter::StacksBroken => format!("{} before the outermost frame.", stacks("ended", "ended")),
        TallyCounter::StacksGuessed => {
            format!(
                "{} through code without unwind tables; those frames were found by frame pointers.",
                stacks("passes", "pass")
            )
        }
        TallyCounter::WideLost => {
            format!("The exact size of {} lost.", was(number, "huge block was", "huge blocks were"))
        }
        TallyCounter::ThreadsUnnamed => {
            format!("{} no row of their own.", counted(number, "thread got", "threads got"))
        }
        TallyCounter::HistoryLost => {
            format!("{} found no room in the history: run --history N gives it more.", counted(number, "free", "frees"))
        }
        TallyCounter::SumsLost => {
            format!("{} no room in the sums by call site.", counted(number, "free found", "frees found"))
        }
        TallyCounter::ScriptsLost | TallyCounter::ScriptsCut => of_scripts(counter, number),
        TallyCounter::LabelsLost => format!("{} no room.", counted(number, "label found", "labels found")),
        TallyCounter::MarksLost => format!("{} no room.", counted(number, "mark found", "marks found")),
        TallyCounter::WindowsLost => format!("{} no room.", counted(number, "window found", "windows found")),
        TallyCounter::ErrorsLost => format!("{} no room.", counted(number, "error found", "errors found")),
        TallyCounter::ErrorsUnrecorded => format!(
            "{} in forked children, or after the end of the recording: standard error has a line of each, the ledger none.",
            was(number, "error was found", "errors were found")
        ),
        TallyCounter::GuardedUnseen | TallyCounter::GuardedLess => of_guard(counter, number),
        TallyCounter::AccountsLost => {
            format!(
                "{} no room: what these threads hold is in no account.",
                counted(number, "account found", "accounts found")
            )
        }
        other => format!("{}: {}.", other.name(), count(number)),
    }
}

/// Of frees that the history has not, because the ledger had no room.
pub(super) fn history_without_room(number: u64) -> String {
    format!("{} not in the history: the ledger had no room for it. {MORE_ROOM}.", was(number, "free is", "frees are"))
}

/// Of guarded blocks.
fn of_guard(counter: TallyCounter, number: u64) -> String {
    if counter == TallyCounter::GuardedUnseen {
        let blocks = counted(number, "guarded block", "guarded blocks");
        return format!("Nobody looked at {blocks} when the program ended: damage of theirs is not among its errors.");
    }
    format!(
        "{} guarded less than was asked for, as far as there was room: by fills or canaries. --guard-memory SIZE lets \
         pages of blocks take more.",
        was(number, "block was", "blocks were")
    )
}

/// Of lines of scripts.
fn of_scripts(counter: TallyCounter, number: u64) -> String {
    let stacks = counted(number, "stack", "stacks");
    if counter == TallyCounter::ScriptsCut {
        return format!("Of {stacks} only the innermost 2,000 or so lines of Python are there.");
    }
    format!("{stacks} without lines of Python: something did not look as it should, or a table is full.")
}
