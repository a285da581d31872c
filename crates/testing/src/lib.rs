//! What the tests of several crates share. Never part of a product: nobody but tests depends on it.
//!
//! It knows `format` and no other crate, so that the unit tests of every reader can use it: a crate that is built for
//! its own tests is another crate than the one its users see, and their types do not fit each other.
#![forbid(unsafe_code)]

pub mod everything;
pub mod ledger;
pub mod processor;
pub mod scratch;
pub mod watched;

pub use everything::everything;
pub use ledger::{Builder, freed_at, layout_32, sample};
pub use scratch::Scratch;
pub use watched::Watched;
