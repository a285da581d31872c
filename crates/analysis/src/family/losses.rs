//! What was not seen of a session: the losses of its processes, added up, and what is missing of it as a whole.

use heapledger_source::{Family, MemberLedger};

use super::MemberRead;
use crate::Note;

/// Reasons that are told apart. A forged session may have as many as it has processes.
const REASONS_MAX: usize = 8;
/// Losses that are told apart; there are fewer kinds.
const LOSSES_MAX: usize = 64;

/// Something that was not seen of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FamilyNote {
    /// A loss of so many processes, added up.
    OfProcesses {
        /// What it is, with the sum of its figures.
        note: Note,
        /// Of how many programs it is.
        processes: u64,
    },
    /// So many processes could not be recorded, or their ledgers not be read: why.
    Without {
        /// Half a sentence.
        why: String,
        /// How many.
        processes: u64,
    },
    /// The same, for further reasons.
    WithoutMore {
        /// How many.
        processes: u64,
    },
    /// Figures of the peak are of each process at its own: of the moment at which all together had most, it is not known what
    /// call sites held.
    OwnPeaks,
    /// Figures are of the moment at which all together had most, as `run` saw it.
    SessionPeak {
        /// When that was, in nanoseconds since the session began.
        at_ns: u64,
        /// Processes that held something then.
        processes: u64,
        /// Bytes that lived in them.
        live_bytes: u64,
        /// Of these, bytes of blocks that are known one by one.
        known_bytes: u64,
        /// Processes whose histories do not reach back to that moment.
        too_late: u64,
    },
    /// Processes that `run` saw and that never began to record.
    NotSeen(u64),
    /// What was limited: a sentence of `run`.
    Limited(String),
    /// Lines of the session's file that could not be read.
    LinesUnread(u64),
    /// Files that are called ledgers and are none.
    FilesUnread(u64),
    /// Ledgers of processes that have another one in the session: left out.
    CopiesLeftOut(u64),
    /// Processes beyond the most that are read.
    TooMany(u64),
    /// The session has no last line, and nobody writes it any more: its `run` was killed.
    RunKilled,
}

/// Two notes that differ in their figures only, as one; `None` if they tell of different things.
pub fn joined(one: &Note, other: &Note) -> Option<Note> {
    match (one, other) {
        (Note::Loss(counter, a), Note::Loss(same, b)) if counter == same => {
            Some(Note::Loss(*counter, a.saturating_add(*b)))
        }
        (Note::HistoryWithoutRoom(a), Note::HistoryWithoutRoom(b)) => {
            Some(Note::HistoryWithoutRoom(a.saturating_add(*b)))
        }
        (Note::InFlight(a), Note::InFlight(b)) => Some(Note::InFlight(a.saturating_add(*b))),
        (Note::StacksDamaged(a), Note::StacksDamaged(b)) => Some(Note::StacksDamaged(a.saturating_add(*b))),
        (Note::Unaccounted { blocks: a, estimated }, Note::Unaccounted { blocks: b, estimated: also })
            if estimated == also && (*a > 0) == (*b > 0) =>
        {
            Some(Note::Unaccounted { blocks: a.saturating_add(*b), estimated: *estimated })
        }
        _ if one == other => Some(one.clone()),
        _ => None,
    }
}

/// What was not seen; the notes are taken out of `read`.
pub fn family_notes(family: &Family, read: &mut [MemberRead]) -> Vec<FamilyNote> {
    let mut notes = of_session(family);
    let mut reasons: Vec<(String, u64)> = Vec::new();
    let mut more = 0;
    let mut losses: Vec<(Note, u64)> = Vec::new();
    for (member, read) in family.members.iter().zip(read) {
        let why = match read {
            MemberRead::Totals(totals) => {
                for note in std::mem::take(&mut totals.notes) {
                    add_loss(&mut losses, note);
                }
                continue;
            }
            MemberRead::Without(None) => continue,
            MemberRead::Without(Some(_)) if matches!(member.ledger, MemberLedger::Missing(_)) => {
                "its ledger is gone".to_owned()
            }
            MemberRead::Without(Some(why)) | MemberRead::Failed(why) => why.clone(),
        };
        if let Some((_, processes)) = reasons.iter_mut().find(|(known, _)| *known == why) {
            *processes += 1;
        } else if reasons.len() < REASONS_MAX {
            reasons.push((why, 1));
        } else {
            more += 1;
        }
    }
    notes.extend(reasons.into_iter().map(|(why, processes)| FamilyNote::Without { why, processes }));
    notes.extend((more != 0).then_some(FamilyNote::WithoutMore { processes: more }));
    notes.extend(losses.into_iter().map(|(note, processes)| FamilyNote::OfProcesses { note, processes }));
    notes
}

/// Adds a loss to one of its kind.
fn add_loss(losses: &mut Vec<(Note, u64)>, note: Note) {
    for (known, processes) in &mut *losses {
        if let Some(sum) = joined(known, &note) {
            (*known, *processes) = (sum, *processes + 1);
            return;
        }
    }
    if losses.len() < LOSSES_MAX {
        losses.push((note, 1));
    }
}

/// What is missing of the session as a whole.
fn of_session(family: &Family) -> Vec<FamilyNote> {
    let mut notes = Vec::new();
    if let Some(ended) = &family.ended {
        notes.extend((ended.not_seen != 0).then_some(FamilyNote::NotSeen(ended.not_seen)));
        notes.extend(ended.limits.iter().cloned().map(FamilyNote::Limited));
    } else if !family.is_running() {
        notes.push(FamilyNote::RunKilled);
    }
    let loss = family.loss;
    notes.extend((loss.lines != 0).then_some(FamilyNote::LinesUnread(loss.lines)));
    notes.extend((loss.unreadable != 0).then_some(FamilyNote::FilesUnread(loss.unreadable)));
    notes.extend((loss.copies != 0).then_some(FamilyNote::CopiesLeftOut(loss.copies)));
    notes.extend((loss.processes != 0).then_some(FamilyNote::TooMany(loss.processes)));
    notes
}
