//! What is to be seen of a watched ledger, reckoned from values alone.

use heapledger_analysis::watch::{CellKey, Motion, Readings, Row, Totals, TotalsRates};
use heapledger_analysis::{Identity, Note};
use heapledger_format::{Kind, TallyCounter};
use heapledger_report::{Figures, Look, LookColumn, LookRow, LookState, clean, sentence};

use super::namer::{NameTable, UNNAMED};

/// What rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub(crate) enum Group {
    /// The function that holds the block
    #[value(alias = "fn")]
    Function,
    /// The call stack
    Stack,
    /// The thread that allocated
    Thread,
    /// The source file
    File,
    /// The program or library
    Module,
    /// The allocation function
    Kind,
}

impl Group {
    pub(crate) const ALL: [Group; 6] =
        [Group::Function, Group::Stack, Group::Thread, Group::File, Group::Module, Group::Kind];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Group::Function => "function",
            Group::Stack => "stack",
            Group::Thread => "thread",
            Group::File => "file",
            Group::Module => "module",
            Group::Kind => "kind",
        }
    }
}

/// What comes first: the greatest, or with names the first letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sort {
    /// Live bytes
    Bytes,
    /// Live blocks
    Blocks,
    /// Growth a second
    Rate,
    /// Growth since the mark, or since the first look
    Growth,
    /// Blocks allocated since the start
    Allocated,
    /// Age of the oldest block
    Oldest,
    /// The name
    Name,
}

impl Sort {
    /// The column that it goes by.
    pub(crate) fn column(self) -> Option<LookColumn> {
        match self {
            Sort::Bytes => Some(LookColumn::Live),
            Sort::Blocks => Some(LookColumn::Blocks),
            Sort::Rate => Some(LookColumn::Rate),
            Sort::Growth => Some(LookColumn::Growth),
            Sort::Allocated => Some(LookColumn::Allocated),
            Sort::Oldest => Some(LookColumn::Oldest),
            Sort::Name => None,
        }
    }

    /// The order by a column; the name if there is none.
    pub(crate) fn by(column: Option<LookColumn>) -> Sort {
        match column {
            Some(LookColumn::Live) => Sort::Bytes,
            Some(LookColumn::Blocks) => Sort::Blocks,
            Some(LookColumn::Rate) => Sort::Rate,
            Some(LookColumn::Growth) => Sort::Growth,
            Some(LookColumn::Allocated) => Sort::Allocated,
            Some(LookColumn::Oldest) => Sort::Oldest,
            None => Sort::Name,
        }
    }
}

/// One row's identity: it stays the same while figures and order change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RowId {
    Label(u32),
    Site(u32),
    Thread(Option<u32>),
    Kind(Kind),
}

/// How a person wants to see it.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) group: Group,
    pub(crate) sort: Sort,
    pub(crate) reverse: bool,
    /// Whether the innermost functions are shown, also those that allocate for others.
    pub(crate) wrappers: bool,
    /// Rows whose name does not contain this are left out.
    pub(crate) filter: String,
    /// The rows that were gone into.
    pub(crate) within: Vec<(Group, RowId)>,
}

/// What is known of the ledger.
#[derive(Debug, Default)]
pub(crate) struct Data {
    pub(crate) readings: Readings,
    pub(crate) names: NameTable,
    /// How it ended, if it did.
    pub(crate) ending: Option<String>,
    /// Whether bytes are written exactly, without units.
    pub(crate) exact_bytes: bool,
}

impl Data {
    /// Nothing yet. Bytes will be written exactly, without units, or with them.
    pub(crate) fn new(exact_bytes: bool) -> Data {
        Data { exact_bytes, ..Data::default() }
    }

    /// Whether anything changes.
    pub(crate) fn motion(&self) -> Motion {
        self.readings.motion(self.ending.is_some())
    }

    /// The figures above the table.
    pub(crate) fn look(&self, group: Group, rows_total: usize) -> Look {
        let Some(totals) = &self.readings.totals else { return Look { group: group.name(), ..Look::default() } };
        let identity = &totals.identity;
        // What has ended does not change any more.
        let running = self.motion() == Motion::Running;
        let rates = if running { self.readings.rates() } else { TotalsRates::default() };
        let sample = self.readings.samples.last();
        let marked = self.readings.mark.as_ref();
        // What is new is of the last reading of all records, which may be older than the totals.
        let read_at_ns = sample.map_or(totals.at_ns, |sample| sample.at_ns);
        Look {
            program: identity.program.clone().unwrap_or_else(|| "unknown program".to_owned()),
            pid: identity.pid,
            state: match () {
                () if self.ending.is_some() => LookState::Ended,
                () if identity.finished => LookState::Finished,
                () if identity.running => LookState::Running,
                () => LookState::Ended,
            },
            ending: self.ending.clone().unwrap_or_else(|| ending_words(identity)),
            uptime_ns: identity.wall_ns.or_else(|| totals.clock.span_ns()),
            figures: Figures { estimated: totals.sampling.is_on(), exact_bytes: self.exact_bytes },
            live_bytes: totals.live_bytes,
            live_blocks: totals.live_blocks,
            peak_bytes: totals.peak_bytes,
            allocations: totals.allocations,
            frees: totals.frees,
            bytes_per_second: rates.bytes_per_second,
            allocations_per_second: rates.allocations_per_second,
            frees_per_second: rates.frees_per_second,
            mark_age_ns: marked.map(|mark| read_at_ns.saturating_sub(mark.sample().at_ns)),
            young: marked.and(sample).map(|sample| sample.young).unwrap_or_default(),
            condition: self.readings.condition.clone(),
            chosen: sample.map(|sample| sample.live).unwrap_or_default(),
            group: group.name(),
            rows_total,
            read_ns: sample.map_or(0, |sample| sample.took_ns),
            losses: self.losses(totals),
        }
    }

    /// What of the blocks is not seen. What concerns stacks and history is told by `stats`.
    fn losses(&self, totals: &Totals) -> Vec<String> {
        let about_blocks = |note: &&Note| {
            matches!(
                note,
                Note::Damage(_)
                    | Note::Full
                    | Note::Stopped
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
        let mut losses: Vec<String> = totals.seen.notes.iter().filter(about_blocks).map(sentence).collect();
        let folded = self.readings.samples.last().map_or(0, |sample| sample.folded);
        if folded != 0 {
            losses.push(format!("{folded} blocks are shown without a stack: there are too many call sites."));
        }
        losses
    }

    /// The group that a key belongs to.
    fn id(&self, group: Group, wrappers: bool, key: &CellKey) -> RowId {
        let place = || {
            let name = self.names.site(key.site)?;
            Some(if wrappers { name.innermost } else { name.holder })
        };
        match group {
            Group::Function => RowId::Label(place().map_or(UNNAMED, |place| place.function)),
            Group::File => RowId::Label(place().map_or(UNNAMED, |place| place.file)),
            Group::Module => RowId::Label(place().map_or(UNNAMED, |place| place.module)),
            Group::Stack => RowId::Site(key.site),
            Group::Thread => RowId::Thread(key.thread),
            Group::Kind => RowId::Kind(key.kind),
        }
    }

    /// What a row is called.
    pub(crate) fn label(&self, id: RowId) -> String {
        match id {
            RowId::Label(label) => self.names.label(label).to_owned(),
            RowId::Site(site) => self.names.label(self.names.site(site).map_or(UNNAMED, |name| name.line)).to_owned(),
            RowId::Thread(None) => "(threads without a row)".to_owned(),
            RowId::Thread(Some(row)) => {
                let threads = self.readings.totals.as_ref().map_or(&[][..], |totals| &totals.threads);
                match threads.iter().find(|thread| thread.row == row) {
                    None => format!("thread {row}"),
                    Some(thread) => {
                        let gone = match thread.state {
                            heapledger_source::ThreadState::Gone => ", gone",
                            _ => "",
                        };
                        format!("{} {} (thread {row}{gone})", thread.id, clean(&thread.name))
                    }
                }
            }
            RowId::Kind(kind) => kind.to_string(),
        }
    }

    /// The rows of the table, in order.
    pub(crate) fn table(&self, view: &View) -> Vec<(RowId, LookRow)> {
        let inside = |key: &CellKey| view.within.iter().all(|(group, id)| self.id(*group, view.wrappers, key) == *id);
        let group = |key: &CellKey| inside(key).then(|| self.id(view.group, view.wrappers, key));
        let wanted = view.filter.to_lowercase();
        let mut table: Vec<(RowId, LookRow)> = Vec::new();
        for row in self.readings.rows(group) {
            let label = self.label(row.group);
            if wanted.is_empty() || label.to_lowercase().contains(&wanted) {
                table.push((row.group, self.row(&row, label, !view.within.is_empty())));
            }
        }
        sort(&mut table, view, self.readings.mark.is_some());
        table
    }

    fn row(&self, row: &Row<RowId>, label: String, part: bool) -> LookRow {
        let allocated = match &self.readings.totals {
            // What a whole thread or function allocated is no figure of a part of it.
            Some(totals) if !part => match row.group {
                RowId::Thread(number) => {
                    let thread = totals.threads.iter().find(|thread| Some(thread.row) == number);
                    thread.map(|thread| (thread.allocations, Some(thread.bytes_allocated)))
                }
                RowId::Kind(kind) => {
                    totals.kinds.iter().find(|(other, _)| *other == kind).map(|(_, calls)| (*calls, None))
                }
                RowId::Label(_) | RowId::Site(_) => None,
            },
            _ => None,
        };
        let age = |ticks| self.readings.totals.as_ref().and_then(|totals| totals.clock.age_ns(ticks));
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

/// Letters that exact bytes leave for names.
const LABEL: usize = 24;

/// The columns of figures that there is room for, and that say anything.
pub(crate) fn columns(group: Group, part: bool, motion: Motion, width: usize, figures: Figures) -> Vec<LookColumn> {
    let moving = motion == Motion::Running;
    let counted = matches!(group, Group::Thread | Group::Kind) && !part;
    let mut columns = vec![LookColumn::Live];
    if width >= 40 {
        columns.push(LookColumn::Blocks);
    }
    if moving && width >= 50 {
        columns.push(LookColumn::Rate);
    }
    // Stacks have long names.
    let stacks = group == Group::Stack;
    if motion != Motion::Still && width >= if stacks { 100 } else { 64 } {
        columns.push(LookColumn::Growth);
    }
    if counted && width >= 74 {
        columns.push(LookColumn::Allocated);
    }
    if width >= if moving && (counted || group == Group::Function) { 100 } else { 74 } {
        columns.push(LookColumn::Oldest);
    }
    // Exact bytes take more room: the last columns give it, so that names keep some.
    let room = |columns: &[LookColumn]| columns.iter().map(|column| column.width(figures) + 1).sum::<usize>() + LABEL;
    while figures.exact_bytes && columns.len() > 1 && room(&columns) > width {
        columns.pop();
    }
    columns
}

fn sort(table: &mut [(RowId, LookRow)], view: &View, marked: bool) {
    let held = |row: &LookRow| if marked { row.young } else { row.live };
    let rate = |row: &LookRow| row.bytes_per_second.map_or(i64::MIN, |rate| rate.round() as i64);
    table.sort_by(|(_, one), (_, other)| {
        let order = match view.sort {
            Sort::Bytes => held(other).bytes.cmp(&held(one).bytes),
            Sort::Blocks => held(other).blocks.cmp(&held(one).blocks),
            Sort::Rate => rate(other).cmp(&rate(one)),
            Sort::Growth => other.growth_bytes.cmp(&one.growth_bytes),
            Sort::Allocated => other.allocated_blocks.cmp(&one.allocated_blocks),
            Sort::Oldest => other.oldest_ns.cmp(&one.oldest_ns),
            Sort::Name => one.label.cmp(&other.label),
        };
        // What is equal keeps one order from look to look, or rows would dance.
        let order = order.then_with(|| held(other).bytes.cmp(&held(one).bytes));
        let order = if view.reverse { order.reverse() } else { order };
        order.then_with(|| one.label.cmp(&other.label))
    });
}

/// How a program ended, as far as its ledger says.
pub(crate) fn ending_words(identity: &Identity) -> String {
    match (identity.exit, identity.signal) {
        _ if identity.replaced => "went on as another program".to_owned(),
        (Some(status), _) => format!("ended with status {status}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests;
