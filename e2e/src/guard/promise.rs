//! Where a level finds what a case does: the table "kind by level", as rules.

use super::{Access, Case, Level};

/// What is promised of a case at a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Promise {
    /// It is found at one of these, by the names of the ledger.
    Found(Vec<String>),
    /// It is not found, by nobody's fault: what it does leaves no trace.
    Nothing,
    /// As it happens: by what lies beside the block, or by budgets.
    Either,
}

const PAGE: i64 = 4096;
/// What the blocks of all allocators are aligned to.
const GRAIN: i64 = 16;
/// Bytes in front of a block that a level without pages watches: its header.
const WATCHED_BEFORE: i64 = 16;
/// And behind it: the canary. The slack as well, but how much there is is the allocator's affair.
const WATCHED_BEHIND: i64 = 4;

/// Functions of the C library whose ranges nobody reckons: what they touch is found as if the program had.
const NOT_JUDGED: [&str; 1] = ["sscanf"];
/// Those that are judged when they are over, by what has come of them: where a page is closed, they may meet that first.
const JUDGED_AFTER: [&str; 8] = ["fread", "fgets", "fgetws", "getline", "inet_ntop", "strftime", "swprintf", "strtol"];

fn found(places: &[&str]) -> Promise {
    Promise::Found(places.iter().map(|place| (*place).to_owned()).collect())
}

impl Case {
    /// Whether a function of the C library does it.
    pub fn is_call(&self) -> bool {
        self.by != "instruction"
    }

    /// What is to be found of it at a level.
    pub fn promise(&self, level: Level) -> Promise {
        if let Some((_, places)) = self.special.iter().find(|(name, _)| name == level.name()) {
            return match &**places {
                "?" => Promise::Either,
                "-" => Promise::Nothing,
                places => found(&places.split('|').collect::<Vec<_>>()),
            };
        }
        if self.access == Access::Free {
            // By the state of the block, whatever stands around it.
            return found(&[if self.by == "realloc" { "realloc" } else { "free" }]);
        }
        let is_judged = self.is_call() && !NOT_JUDGED.contains(&&*self.by);
        match level {
            Level::Off => Promise::Nothing,
            Level::Light => self.by_canaries(),
            Level::Page | Level::Under if is_judged && JUDGED_AFTER.contains(&&*self.by) => {
                found(&["call", "instruction"])
            }
            _ if is_judged => found(&["call"]),
            Level::Full if self.is_after_free() && self.access == Access::Write => found(&["quarantine", "exit"]),
            Level::Full => self.by_canaries(),
            Level::Page | Level::Under if self.is_after_free() => found(&["instruction"]),
            Level::Page => self.beside_a_page(true),
            Level::Under => self.beside_a_page(false),
        }
    }

    fn is_after_free(&self) -> bool {
        self.kind == "heap-use-after-free"
    }

    /// The first byte that is touched wrongly, and the one behind the last.
    fn range(&self) -> (i64, i64) {
        (self.offset, self.offset.saturating_add(self.bytes))
    }

    fn by_canaries(&self) -> Promise {
        let (first, end) = self.range();
        let size = self.size.unwrap_or(i64::MAX);
        match self.access {
            Access::Read | Access::Free => Promise::Nothing,
            // Somebody else may have the memory; the allocator may stumble over it.
            Access::Write if self.is_after_free() => Promise::Either,
            Access::Write if first < 0 && end > -WATCHED_BEFORE => found(&["free"]),
            Access::Write if first >= 0 && first < size.saturating_add(WATCHED_BEHIND) => found(&["free"]),
            Access::Write => Promise::Either,
        }
    }

    /// Of a block that ends at a page, or begins at one.
    fn beside_a_page(&self, ends_there: bool) -> Promise {
        let (first, end) = self.range();
        let Some(size) = self.size else { return Promise::Either };
        let places = |bytes: i64, grain: i64| (bytes + grain - 1) / grain * grain;
        // As close as alignment lets it come.
        let taken = places(size, self.alignment.max(GRAIN));
        let pages = places(taken, PAGE);
        let (front, behind) = if ends_there { (pages - taken, taken) } else { (0, pages) };
        if size == 0 {
            // Nothing of it can be touched. On which side of a page its address stands is a matter of taste.
            return found(&["instruction", "free"]);
        }
        let in_closed_page = if self.kind == "heap-buffer-underflow" { first < -front } else { end > behind };
        let beyond = first >= behind + PAGE || end <= -front - PAGE;
        match self.access {
            _ if beyond => Promise::Either,
            // What comes first is seen first.
            Access::Write if in_closed_page && self.touches_slack(front, behind) => found(&["instruction", "free"]),
            _ if in_closed_page => found(&["instruction"]),
            Access::Write => found(&["free"]),
            Access::Read | Access::Free => Promise::Nothing,
        }
    }

    fn touches_slack(&self, front: i64, behind: i64) -> bool {
        let (first, end) = self.range();
        if self.kind == "heap-buffer-underflow" { end > -front } else { first < behind }
    }
}
