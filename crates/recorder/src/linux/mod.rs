//! The backend for a Linux process: a ledger in a shared file mapping.
//!
//! ```text
//! shared file mapping (ledger.rs)            private memory
//!   header, section table                      shadow map: address -> slot   (index.rs)
//!   records            <- slots.rs             hash tables over pcs and sites (sites.rs, segments.rs)
//!   history ring       <- history.rs           owners of history chunks       (history.rs)
//!   sites, pcs         <- sites.rs             state of each thread           (state.rs, threads.rs)
//!   modules, strings   <- modules.rs
//!   threads, tallies   <- threads.rs
//! ```
//!
//! # Safety
//! All tables are memory that is mapped once and never unmapped, zero when fresh, and accessed
//! through atomics wherever two threads can meet. A [`state::ThreadState`] belongs to one kernel
//! thread at a time, see [`threads`].

pub mod access;
mod backend;
pub mod capture;
pub mod cells;
pub mod chunks;
pub mod history;
pub mod hooks;
pub mod index;
pub mod ledger;
pub mod modules;
pub mod options;
pub mod order;
pub mod peak;
mod place;
pub mod places;
pub mod publication;
pub mod room;
pub mod sampling;
mod segments;
pub mod shared;
pub mod sites;
pub mod slots;
pub mod start;
pub mod state;
pub mod threads;
mod wide;
