//! Looking at a ledger again and again: what lives, how fast it grows, what is new since a mark.
//!
//! A [`Reader`] takes [`Totals`], which cost little, and [`Sample`]s, for which all records are read. Everything else
//! here is reckoning on those: [`rows`] by any group, rates over the last seconds ([`Samples`]), the heap over the last
//! minutes ([`Curve`]), and all of it together ([`Readings`]): as a [`View`] wants it, the rows of a live view.
//!
//! # What a mark promises
//!
//! A [`Mark`] divides blocks into those that the reading at the mark saw, which are *old*, and all others, which are
//! *young*. It goes by sequence numbers, which are never used twice, and so reuse of an address does not fool it. Numbers
//! below `next_number - order bound`, as they were when that reading began, are old: no thread can take such a number any
//! more. Above that the reading has kept each number that it saw. So the mark is exact but for what was allocated
//! while its reading went on: such a block may be on either side. How long it went on is known ([`Sample::took_ns`]). Times
//! would do worse: they lag by up to a step of the kernel's coarse clock.

mod chooser;
mod curve;
mod mark;
mod names;
mod read;
mod readings;
mod rows;
mod samples;
mod view;

pub use chooser::Chooser;
pub use curve::Curve;
pub use mark::Mark;
pub use names::{FoundNames, FrameLabels, NameTable, SiteName, UNNAMED};
pub use read::{Cell, CellKey, Reader, Sample, Totals};
pub use readings::{Motion, Readings, TotalsRates};
pub use rows::{Row, rows};
pub use samples::{RATE_WINDOW_NS, Samples, per_second};
pub use view::{LookRow, RowFigure, RowId, RowOrder, View, row_orders};
