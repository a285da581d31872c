//! What a program is told of its heaps and tasks while it runs: figures, and text in the form of ESP-IDF's.
//!
//! Nothing here knows where blocks are kept, and nothing is allocated: it is told of blocks one by one, and writes to whatever takes
//! text.

pub mod heaps;
pub mod heaps_text;
pub mod tasks;
pub mod tasks_text;
pub mod text;

#[cfg(test)]
mod tasks_tests;
