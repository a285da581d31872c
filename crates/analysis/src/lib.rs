//! Reckoning on ledgers: from a ledger to plain values that a report can show.
//!
//! You supply an opened [`Ledger`](heapledger_source::Ledger), what the time is, and a symbolizer; this
//! crate answers with a [`Summary`], a [`Selection`] of live blocks, the [`Events`] of the history, and
//! [`Names`] for the stacks that are to be shown. It prints nothing and knows no terminal.
//!
//! Memory is in proportion to what is shown (32 bytes a block) and to the tables of the ledger, not to the number of
//! blocks.
#![forbid(unsafe_code)]

mod amount;
mod blocks;
mod check;
mod chosen;
mod clock;
mod counts;
pub mod diff;
mod engine;
mod errors;
mod events;
mod executables;
mod extents;
mod family;
pub mod fields;
mod fold;
mod frees;
mod groups;
mod holders;
mod identity;
mod kept;
mod lives;
mod memory;
mod moment;
mod names;
mod notes;
mod one_run;
mod passing;
mod peak;
mod program_files;
pub mod query;
mod sampling;
mod selection;
mod sites;
mod sizes;
mod summary;
mod suppress;
mod timeline;
mod told;
pub mod tree;
mod verify;
pub mod watch;
pub mod whereis;

pub use amount::{Amount, Estimate};
pub use blocks::{Blocks, BlocksIter};
pub use check::{
    CheckedProgram, Doubt, Evidence, Figure, Finding, Growth, Leaked, Limits, MatchingBlocks, PeakTogether,
    ProcessShare, Responsible, Verdict, allocated_by_site, check, grown, peak_by_site, together,
};
pub use chosen::Chosen;
pub use clock::Clock;
pub use engine::Engine;
pub use errors::{Excused, excuse, is_wrong, sites_of};
pub use events::{Coverage, Event, EventIter, EventKind, EventList, Events, Wanted, as_freed};
pub use executables::{Given, NotOurs, ProgramFile, SameBuild, check_firmware, given};
pub use family::{
    AlikeProcesses, AncestorBlocks, Blamed, BlamedBlock, BlockOfAncestor, CurveColumn, CurveProcess, EarlierFree,
    FamilyCurve, FamilyGroup, FamilyGroups, FamilyLook, FamilyLooks, FamilyNote, FamilySummary, FamilyTotals,
    ForkPlace, FreedBlock, FreedOfParent, Inheritance, InheritedTotals, MemberRead, MemberTotals, ProcessLook,
    ProcessTotals, ProgramChange, ProgramTotals, alike, blamed_blocks, family_notes, freed_blocks, inherited_frees,
    joined, programs_changed,
};
pub use groups::{Group, GroupKey, Groups};
pub use holders::{Holders, begins_program, is_in_python_library, is_in_rust_library, is_of_our_header};
pub use identity::{Identity, RunMarks};
pub use kept::is_kept_by_design;
pub use lives::{Chain, Life, Lives};
pub use memory::{Memory, Private, Sections};
pub use moment::{FoundBy, Moment};
pub use names::{NamedFrame, NamedStack, Names, NamingOptions};
pub use notes::{Advice, FreesHeld, Note, Seen};
pub use one_run::{NotOneRun, in_order};
pub use passing::{HEADERS, Passing, parse_glob};
pub use peak::Peak;
pub use sampling::{Sampled, Sampling};
pub use selection::{Selection, Sort};
pub use sites::{SiteTotals, Sites};
pub use sizes::{SizeSum, sizes_by_site};
pub use summary::{HeapTotals, KindTotals, Summary, ThreadTotals, Unwinding};
pub use suppress::{SuppressionError, Suppressions};
pub use timeline::{HeapTimeline, SeenBy, TimelineColumn, TimelinePart, TimelinePoint};
pub use told::Told;
pub use verify::{Verified, verify, verify_chip};
