//! How somebody wants to see a ledger that is watched, and the rows that are to be seen then.

use heapledger_format::{Kind, Site, TallyCounter, ThreadRow};
use heapledger_source::Thread;

use super::names::UNNAMED;
use super::{CellKey, Readings, Row};
use crate::fields::Field;
use crate::query::GroupField;
use crate::{Amount, Note};

/// A figure of a row: what there are columns of, and what rows are put in order by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowFigure {
    /// Bytes that live; with a mark, of those that came after it.
    Bytes,
    /// Blocks, likewise.
    Blocks,
    /// Growth in bytes a second.
    Rate,
    /// Growth in bytes since the mark or the first look.
    Growth,
    /// Blocks allocated since the start.
    Allocated,
    /// Age of the oldest block.
    Oldest,
}

/// What rows are put in order by: the greatest of a figure first, or names by their letters.
pub type RowOrder = Option<RowFigure>;

/// All orders of rows: the name, and what comes first.
pub fn row_orders() -> [(RowOrder, &'static str, &'static str); 7] {
    [
        (Some(RowFigure::Bytes), GroupField::Bytes.name(), "Live bytes"),
        (Some(RowFigure::Blocks), GroupField::Blocks.name(), "Live blocks"),
        (Some(RowFigure::Rate), "rate", "Growth a second"),
        (Some(RowFigure::Growth), "growth", "Growth since the mark, or since the first look"),
        (Some(RowFigure::Allocated), "allocated", "Blocks allocated since the start"),
        (Some(RowFigure::Oldest), GroupField::Oldest.name(), "Age of the oldest block"),
        (None, GroupField::Name.name(), "The name"),
    ]
}

/// One row's identity: it stays the same while figures and order change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowId {
    /// What has this label in the [table of names](super::NameTable).
    Label(u32),
    /// A call site.
    Site(Site),
    /// A row of the threads; `None`: threads without one.
    Thread(Option<ThreadRow>),
    /// A function of the malloc family.
    Kind(Kind),
}

/// How a person wants to see it.
#[derive(Clone, Debug)]
pub struct View {
    /// What rows are by: one of [those that they may be by](Field::watched).
    pub by: Field,
    /// In which order they are.
    pub order: RowOrder,
    /// Reverse the order.
    pub reverse: bool,
    /// Whether the innermost functions are shown, also those that allocate for others.
    pub wrappers: bool,
    /// Rows whose name does not contain this are left out.
    pub filter: String,
    /// The rows that were gone into.
    pub within: Vec<(Field, RowId)>,
}

impl View {
    /// All rows, in that order.
    pub fn new(by: Field, order: RowOrder) -> View {
        View { by, order, reverse: false, wrappers: false, filter: String::new(), within: Vec::new() }
    }
}

/// A row of the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LookRow {
    /// Its name.
    pub label: String,
    /// Its live blocks.
    pub live: Amount,
    /// Those of them that came after the mark.
    pub young: Amount,
    /// By how many bytes it grew in a second.
    pub bytes_per_second: Option<f64>,
    /// By how many blocks it grew in a second.
    pub blocks_per_second: Option<f64>,
    /// By how many bytes it grew since the mark, or since the first look.
    pub growth_bytes: i64,
    /// By how many blocks.
    pub growth_blocks: i64,
    /// Blocks allocated since the start; known of threads and allocation functions.
    pub allocated_blocks: Option<u64>,
    /// Bytes allocated since the start; known of threads.
    pub allocated_bytes: Option<u64>,
    /// How old its oldest block is, in nanoseconds.
    pub oldest_ns: Option<u64>,
}

impl Readings {
    /// Sites of the newest reading whose names nobody asked for yet, those that hold most first. From now on they are
    /// asked for.
    pub fn sites_to_name(&mut self) -> Vec<Site> {
        self.samples.last().map_or_else(Vec::new, |sample| self.names.ask(sample))
    }

    /// A thread that has this row, as the newest totals know it.
    pub fn thread(&self, row: ThreadRow) -> Option<&Thread> {
        self.totals.as_ref()?.threads.iter().find(|thread| thread.row == row)
    }

    /// Why blocks are missing. What concerns stacks and history is left out.
    pub fn missing_blocks(&self) -> impl Iterator<Item = &Note> {
        let about_blocks = |note: &&Note| {
            matches!(
                note,
                Note::Damage(_)
                    | Note::Full
                    | Note::Stopped
                    | Note::OtherMalloc(_)
                    | Note::Busy
                    | Note::Loss(
                        TallyCounter::LostNoRecord
                            | TallyCounter::LostNoIndex
                            | TallyCounter::LostBusy
                            | TallyCounter::LostNoThread
                            | TallyCounter::FreesBusy
                            | TallyCounter::SitesFull,
                        _
                    )
            )
        };
        self.totals.iter().flat_map(|totals| &totals.seen.notes).filter(about_blocks)
    }

    /// The row that a key belongs to; `None` if rows are by nothing that keys tell.
    fn row_id(&self, by: Field, wrappers: bool, key: &CellKey) -> Option<RowId> {
        let label = |of: fn(&super::FrameLabels) -> u32| {
            let name = self.names.site(key.site);
            RowId::Label(name.map_or(UNNAMED, |name| of(if wrappers { &name.innermost } else { &name.holder })))
        };
        match by {
            Field::Function => Some(label(|frame| frame.function)),
            Field::File => Some(label(|frame| frame.file)),
            Field::Module => Some(label(|frame| frame.module)),
            Field::Stack => Some(RowId::Site(key.site)),
            Field::Thread => Some(RowId::Thread(key.thread)),
            Field::Kind => Some(RowId::Kind(key.kind)),
            _ => None,
        }
    }

    /// The rows of the table, in order; `label` says what a row is called.
    pub fn table(&self, view: &View, label: &dyn Fn(RowId) -> String) -> Vec<(RowId, LookRow)> {
        let id = |by, key: &CellKey| self.row_id(by, view.wrappers, key);
        let inside = |key: &CellKey| view.within.iter().all(|(by, wanted)| id(*by, key) == Some(*wanted));
        let group = |key: &CellKey| id(view.by, key).filter(|_| inside(key));
        let wanted = view.filter.to_lowercase();
        let mut table: Vec<(RowId, LookRow)> = Vec::new();
        for row in self.rows(group) {
            let label = label(row.group);
            if wanted.is_empty() || label.to_lowercase().contains(&wanted) {
                table.push((row.group, self.look_row(&row, label, !view.within.is_empty())));
            }
        }
        sort(&mut table, view, self.mark.is_some());
        table
    }

    fn look_row(&self, row: &Row<RowId>, label: String, part: bool) -> LookRow {
        let allocated = match &self.totals {
            // What a whole thread or function allocated is no figure of a part of it.
            Some(totals) if !part => match row.group {
                RowId::Thread(number) => {
                    let thread = number.and_then(|number| self.thread(number));
                    thread.map(|thread| (thread.allocations, Some(thread.bytes_allocated)))
                }
                RowId::Kind(kind) => {
                    totals.kinds.iter().find(|(other, _)| *other == kind).map(|(_, calls)| (*calls, None))
                }
                RowId::Label(_) | RowId::Site(_) => None,
            },
            _ => None,
        };
        let age = |ticks| self.totals.as_ref().and_then(|totals| totals.clock.age_ns(ticks));
        LookRow {
            label,
            live: row.live,
            young: row.young,
            bytes_per_second: row.bytes_per_second,
            blocks_per_second: row.blocks_per_second,
            growth_bytes: row.growth_bytes,
            growth_blocks: row.growth_blocks,
            allocated_blocks: allocated.map(|(blocks, _)| blocks),
            allocated_bytes: allocated.and_then(|(_, bytes)| bytes),
            oldest_ns: row.oldest.and_then(age),
        }
    }
}

fn sort(table: &mut [(RowId, LookRow)], view: &View, marked: bool) {
    let held = |row: &LookRow| if marked { row.young } else { row.live };
    let rate = |row: &LookRow| row.bytes_per_second.map_or(i64::MIN, |rate| rate.round() as i64);
    table.sort_by(|(_, one), (_, other)| {
        let order = match view.order {
            Some(RowFigure::Bytes) => held(other).bytes.cmp(&held(one).bytes),
            Some(RowFigure::Blocks) => held(other).blocks.cmp(&held(one).blocks),
            Some(RowFigure::Rate) => rate(other).cmp(&rate(one)),
            Some(RowFigure::Growth) => other.growth_bytes.cmp(&one.growth_bytes),
            Some(RowFigure::Allocated) => other.allocated_blocks.cmp(&one.allocated_blocks),
            Some(RowFigure::Oldest) => other.oldest_ns.cmp(&one.oldest_ns),
            None => one.label.cmp(&other.label),
        };
        // What is equal keeps one order from look to look, or rows would dance.
        let order = order.then_with(|| held(other).bytes.cmp(&held(one).bytes));
        let order = if view.reverse { order.reverse() } else { order };
        order.then_with(|| one.label.cmp(&other.label))
    });
}

#[cfg(test)]
mod tests;
