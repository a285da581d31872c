//! Runs the real command line on real programs, and says where what it reports is not what happened.
//!
//! Everything is run twice, without us and under `heapledger run`: a person who looks at the program must not be
//! able to tell which is which. Then the ledger is read with the commands that a person would use, and held against
//! - what the victim's own `expect:` lines say ([`victim`], [`expect`]),
//! - what a counting library behind ours has counted in the same process ([`counts`]),
//! - itself ([`ledger::check_totals`]).

pub mod c_programs;
pub mod callgrind;
pub mod tools;
pub mod victim;

pub mod guard;
pub mod nobody;
pub mod own_books;
pub mod process;
pub mod scratch;
pub mod sdk;
pub mod terminal;
pub mod tracked;

pub mod chip;
pub mod commands;
pub mod counts;
pub mod esp;
pub mod expect;
pub mod families;
pub mod faults;
pub mod ledger;

pub mod book;
pub mod browser;
pub mod cases;
mod inputs;
pub mod killer;
pub mod long;
pub mod programs;
pub mod stress;
pub mod unwinding;
pub mod viewers;

/// What a test found wrong, in words for a person.
pub type Result<T = (), E = String> = std::result::Result<T, E>;

/// Says that something could not be tested here. Loud, because a test that silently tests nothing is worse than none.
pub fn skip(what: &str, why: &str) {
    eprintln!("SKIPPED: {what}: {why}");
}

/// Fails with a sentence unless something holds.
#[macro_export]
macro_rules! check {
    ($holds:expr, $($words:tt)+) => {
        let holds: bool = $holds;
        if !holds {
            return Err(format!($($words)+));
        }
    };
}
