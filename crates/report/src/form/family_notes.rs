//! What a report on a session of several processes could not see, in sentences.

use heapledger_analysis::{FamilyNote, Note};

use crate::form::notes::{name, sentence};
use crate::form::units::{Figures, counted, span};

fn processes(number: u64) -> String {
    counted(number, "process", "processes")
}

/// What a note on processes is of; any other note is itself.
pub(super) fn inner(note: &Note) -> &Note {
    match note {
        Note::Family(family) => match &**family {
            FamilyNote::OfProcesses { note, .. } => note,
            _ => note,
        },
        _ => note,
    }
}

/// Whether nothing is missing for it: it says how figures are meant.
pub(super) fn is_remark(note: &Note) -> bool {
    matches!(
        note,
        Note::Family(family) if matches!(**family, FamilyNote::OwnPeaks | FamilyNote::SessionPeak { too_late: 0, .. } | FamilyNote::CopiesLeftOut(_))
    )
}

/// A note on a session as a sentence.
pub(super) fn sentence_of(note: &FamilyNote) -> String {
    match note {
        FamilyNote::OfProcesses { note, processes: 1 } => format!("In one process: {}", sentence(note)),
        FamilyNote::OfProcesses { note, processes: number } => {
            format!("In {}, together: {}", processes(*number), sentence(note))
        }
        FamilyNote::Without { why, processes: number } => {
            format!("{} without figures: {}.", processes(*number), why.trim_end_matches('.'))
        }
        FamilyNote::WithoutMore { processes: number } => {
            format!("{} more without figures, for other reasons.", processes(*number))
        }
        FamilyNote::OwnPeaks => "Each process is shown at its own peak, and not all were at theirs at the same time; \
             --at session-peak is of the moment when all together had most."
            .to_owned(),
        FamilyNote::SessionPeak { at_ns, processes: number, live_bytes, known_bytes, too_late } => {
            let mut text = format!(
                "Shown is what lived {} after the session began: then {} had the most together that `run` saw, {}. Blocks \
                 are known of {}.",
                span(*at_ns),
                processes(*number),
                Figures::default().bytes(*live_bytes),
                Figures::default().bytes(*known_bytes)
            );
            if *too_late > 0 {
                text.push_str(&format!(
                    " What {} freed since is no longer in the history (--history): what is shown of that is too little.",
                    processes(*too_late)
                ));
            }
            text
        }
        FamilyNote::NotSeen(number) => format!(
            "{} began without the recorder: LD_PRELOAD was lost on the way (env -i, sudo), or the program is static or has \
             more rights. Shorter ones may have been missed.",
            processes(*number)
        ),
        FamilyNote::Limited(text) => text.clone(),
        FamilyNote::LinesUnread(number) => {
            format!("{} of session.jsonl could not be read.", counted(*number, "line", "lines"))
        }
        FamilyNote::FilesUnread(number) => format!(
            "{} in the session's directory cannot be read as ledgers.",
            counted(*number, "file", "files")
        ),
        FamilyNote::CopiesLeftOut(number) => format!(
            "{} left out: the session has another ledger of the same program of a process, a copy or the original.",
            counted(*number, "file in the session's directory is", "files in the session's directory are")
        ),
        FamilyNote::TooMany(number) => format!("{} more than are read.", processes(*number)),
        FamilyNote::RunKilled => {
            "The session has no end: its `heapledger run` was killed. `heapledger recover` finishes ledgers that are left."
                .to_owned()
        }
    }
}

/// What a program calls it.
pub(super) fn name_of(note: &FamilyNote) -> &'static str {
    match note {
        FamilyNote::OfProcesses { note, .. } => name(note),
        FamilyNote::Without { .. } | FamilyNote::WithoutMore { .. } => "process_without",
        FamilyNote::OwnPeaks => "own_peaks",
        FamilyNote::SessionPeak { .. } => "session_peak",
        FamilyNote::NotSeen(_) => "processes_not_seen",
        FamilyNote::Limited(_) => "session_limited",
        FamilyNote::LinesUnread(_) | FamilyNote::FilesUnread(_) => "session_damaged",
        FamilyNote::CopiesLeftOut(_) => "copies_left_out",
        FamilyNote::TooMany(_) => "too_many_processes",
        FamilyNote::RunKilled => "session_unended",
    }
}
