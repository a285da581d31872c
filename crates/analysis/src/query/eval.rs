//! Deciding for blocks and events.

use heapledger_format::{Entry, FreedEntry, Kind, Site, ThreadRow, Ticks};
use heapledger_source::{Ledger, SourceError};

use super::expr::Filter;
use super::moments::Moments;
use super::plan::{Condition, Plan, TextTest};
use super::rows::Rows;
use super::stacks::{Stacks, Undecided};
use crate::fields::{Field, Type, Unit};
use crate::fold::{Act, Element, Fold, fold};
use crate::{Clock, Event, EventKind, Holders, Names};

/// What a filter decides on: a live block, or an event.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'e> {
    block: &'e Entry,
    /// The free, as far as it is known.
    free: Option<&'e FreedEntry>,
    /// Whether number, time, thread and stack are those of the free.
    is_free: bool,
    freed: bool,
}

impl<'e> Subject<'e> {
    /// A live block, or its allocation.
    pub fn live(block: &'e Entry) -> Subject<'e> {
        Subject { block, free: None, is_free: false, freed: false }
    }

    /// The allocation of a block that was freed.
    pub fn allocation(freed: &'e FreedEntry) -> Subject<'e> {
        Subject { block: &freed.block, free: Some(freed), is_free: false, freed: true }
    }

    /// A free.
    pub fn free(freed: &'e FreedEntry) -> Subject<'e> {
        Subject { block: &freed.block, free: Some(freed), is_free: true, freed: true }
    }

    fn end(&self) -> Option<&'e FreedEntry> {
        self.free.filter(|_| self.is_free)
    }

    /// The block as it was allocated.
    #[inline]
    pub fn block(&self) -> &'e Entry {
        self.block
    }

    /// Sequence number.
    #[inline]
    pub fn number(&self) -> u64 {
        self.end().map_or(self.block.number, |free| free.number)
    }

    /// Who did it: the row of the thread.
    #[inline]
    pub fn thread(&self) -> Option<ThreadRow> {
        self.end().map_or(self.block.thread, |free| free.thread)
    }

    /// On whose account the block is, and of which heap: the row of the thread above 32 bits, that of the heap in them.
    #[inline]
    pub fn account(&self) -> Option<u64> {
        Some(u64::from(self.block.thread.map_or(u32::MAX, |row| row.0)) << 32 | u64::from(self.block.heap?))
    }

    /// By which function.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.end().map_or(self.block.kind, |free| free.by)
    }

    /// Where from.
    #[inline]
    pub fn site(&self) -> Site {
        self.end().map_or(self.block.site, |free| free.site)
    }

    /// When.
    #[inline]
    pub fn time(&self) -> Option<Ticks> {
        self.end().map_or(self.block.time, |free| free.time)
    }

    /// On which processor core.
    #[inline]
    pub fn core(&self) -> Option<u8> {
        self.end().map_or(self.block.core, |free| free.core)
    }

    /// What that core's counter said; nobody has it of frees.
    #[inline]
    pub fn cycles(&self) -> Option<u32> {
        self.block.cycles.filter(|_| !self.is_free)
    }

    /// How long the block lived.
    #[inline]
    pub fn lifetime(&self) -> Option<Ticks> {
        Some(self.free?.time?.since(self.block.time?))
    }

    /// Whether it is a free.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.is_free
    }

    /// Whether the block is freed by now.
    #[inline]
    pub fn is_freed(&self) -> bool {
        self.freed
    }

    /// A figure of it, times in ticks; `None` if not known.
    #[inline]
    fn measured(&self, field: Field, clock: &Clock) -> Option<u64> {
        let figure = field.figure(self);
        if field.unit() == Unit::Age { figure.map(|ticks| clock.age(Ticks(ticks)).0) } else { figure }
    }

    fn row(&self, field: Field) -> Option<u32> {
        field.figure(self).and_then(|row| u32::try_from(row).ok())
    }
}

impl<'e> From<&'e Event> for Subject<'e> {
    fn from(event: &'e Event) -> Subject<'e> {
        match &event.kind {
            EventKind::Allocation { freed: Some(freed) } => Subject::allocation(freed),
            EventKind::Allocation { freed: None } => Subject::live(&event.block),
            EventKind::Free(freed) => Subject::free(freed),
        }
    }
}

/// Decides which blocks or events of a ledger a filter means.
///
/// Conditions on names of code are decided once for each call site. [`Evaluator::prepare_blocks`] does that for all
/// live blocks at once, which is much faster than one by one.
#[derive(Debug)]
pub struct Evaluator<'a> {
    ledger: &'a Ledger,
    clock: Clock,
    text: String,
    node: Option<Condition>,
    rows: Vec<Rows>,
    moments: Vec<(Field, TextTest, Moments)>,
    stacks: Stacks<'a>,
}

/// The call sites whose names must be known before a filter can decide.
struct ToDecide<'f, 'a> {
    filter: &'f Evaluator<'a>,
    sites: Undecided,
}

impl ToDecide<'_, '_> {
    #[inline]
    fn look(&mut self, subject: &Subject<'_>) {
        if self.filter.known(subject).is_none() {
            self.sites.add(subject.site());
        }
    }
}

impl Fold<Entry> for ToDecide<'_, '_> {
    #[inline]
    fn add(&mut self, block: &Entry, _: Act, _: u64) {
        self.look(&Subject::live(block));
    }

    fn join(&mut self, other: Self) {
        self.sites.join(other.sites);
    }
}

impl Fold<FreedEntry> for ToDecide<'_, '_> {
    const ACTS: &'static [Act] = &[Act::Allocation, Act::Free];

    #[inline]
    fn add(&mut self, freed: &FreedEntry, act: Act, _: u64) {
        self.look(&freed.subject(act));
    }

    fn join(&mut self, other: Self) {
        self.sites.join(other.sites);
    }
}

impl<'a> Evaluator<'a> {
    /// Makes `filter` ready for `ledger`. `holders` says which functions hold blocks. Have it
    /// [checked](Filter::check) before: what is not recorded is not found.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn new(
        ledger: &'a Ledger,
        filter: &Filter,
        clock: Clock,
        names: Names<'a>,
        holders: Holders,
    ) -> Result<Evaluator<'a>, SourceError> {
        let plan = Plan::of(filter.expr());
        let rows = plan.rows.into_iter().map(|(field, test)| Rows::new(field, test, ledger));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        let moments = plan.moments.into_iter().map(|(field, test)| (field, test, Moments::default())).collect();
        let stacks = Stacks::new(plan.named, names, holders);
        let text = filter.to_string();
        let mut evaluator = Evaluator { ledger, clock, text, node: plan.node, rows, moments, stacks };
        evaluator.read_moments()?;
        Ok(evaluator)
    }

    fn read_moments(&mut self) -> Result<(), SourceError> {
        for (field, test, moments) in &mut self.moments {
            *moments = Moments::new(*field, test, self.ledger)?;
        }
        Ok(())
    }

    /// Learns of the marks that a running program has set meanwhile. For whoever goes through its blocks again and does not
    /// [prepare](Evaluator::prepare_blocks) for it.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn refresh(&mut self) -> Result<(), SourceError> {
        if self.ledger.is_finished() { Ok(()) } else { self.read_moments() }
    }

    /// The filter, as it can be read again.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether all are meant.
    pub fn is_all(&self) -> bool {
        self.node.is_none()
    }

    /// Whether names of code must be found to decide.
    pub fn needs_names(&self) -> bool {
        !self.stacks.is_empty()
    }

    /// Finds the names that live blocks need, in one pass over the records, if names are needed. Marks that were set since are
    /// learnt.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn prepare_blocks(&mut self, progress: &mut dyn FnMut(f32)) -> Result<(), SourceError> {
        self.refresh()?;
        if !self.needs_names() {
            return Ok(());
        }
        let fresh = || ToDecide { filter: self, sites: self.stacks.undecided() };
        let sites = fold::<Entry, _>(self.ledger, None, usize::MAX, &fresh, &mut |_| {})?.sum.sites;
        self.stacks.decide(sites, progress)
    }

    /// As [`Evaluator::prepare_blocks`], for all events of the history too.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn prepare_events(&mut self, progress: &mut dyn FnMut(f32)) -> Result<(), SourceError> {
        self.prepare_blocks(progress)?;
        self.prepare_freed(self.ledger, progress)
    }

    /// As [`Evaluator::prepare_events`], for what was freed by `ledger` alone: another one of the same run, whose
    /// call sites have the same numbers.
    ///
    /// # Errors
    /// If that ledger can no longer be read.
    pub fn prepare_freed(&mut self, ledger: &Ledger, progress: &mut dyn FnMut(f32)) -> Result<(), SourceError> {
        if !self.needs_names() {
            return Ok(());
        }
        let fresh = || ToDecide { filter: self, sites: self.stacks.undecided() };
        let sites = fold::<FreedEntry, _>(ledger, None, usize::MAX, &fresh, &mut |_| {})?.sum.sites;
        self.stacks.decide(sites, progress)
    }

    /// Whether the filter means this live block.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    #[inline]
    pub fn block(&mut self, block: &Entry) -> Result<bool, SourceError> {
        self.subject(&Subject::live(block))
    }

    /// Whether the filter means this, from what is known by now, for several threads at once; `None` if that is not
    /// enough.
    #[inline]
    pub fn known(&self, subject: &Subject<'_>) -> Option<bool> {
        self.node.as_ref().map_or(Some(true), |node| self.node(node, subject))
    }

    /// Whether the filter means this event.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn event(&mut self, event: &Event) -> Result<bool, SourceError> {
        self.subject(&Subject::from(event))
    }

    /// Whether the filter means this.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn subject(&mut self, subject: &Subject<'_>) -> Result<bool, SourceError> {
        if self.node.is_none() {
            return Ok(true);
        }
        if let Some(decided) = self.known(subject) {
            return Ok(decided);
        }
        // Came since all was prepared, or nothing was: what is not known of it is looked up now.
        for rows in &mut self.rows {
            if let Some(row) = subject.row(rows.field()).filter(|row| rows.accepts(*row).is_none()) {
                rows.learn(row, self.ledger)?;
            }
        }
        if self.needs_names() {
            let mut sites = self.stacks.undecided();
            sites.add(subject.site());
            self.stacks.decide(sites, &mut |_| {})?;
        }
        Ok(self.known(subject).unwrap_or(false))
    }

    /// The names found so far, to name what is shown.
    pub fn into_names(self) -> Names<'a> {
        self.stacks.into_names()
    }

    /// The names found so far, to find more.
    pub fn names(&mut self) -> &mut Names<'a> {
        self.stacks.names()
    }

    fn node(&self, node: &Condition, subject: &Subject<'_>) -> Option<bool> {
        match node {
            Condition::All(parts) => self.join(parts, subject, false),
            Condition::Any(parts) => self.join(parts, subject, true),
            Condition::Not(part) => self.node(part, subject).map(|holds| !holds),
            Condition::Number(field, test) => {
                let figure = subject.measured(*field, &self.clock);
                let is_time = field.kind() == Type::Time;
                let figure = if is_time { figure.and_then(|ticks| self.clock.ns(Ticks(ticks))) } else { figure };
                Some(figure.is_some_and(|figure| test.holds(figure)))
            }
            Condition::Ticks(field, test) => {
                Some(subject.measured(*field, &self.clock).is_some_and(|ticks| test.holds(ticks)))
            }
            Condition::Kind(holds) => Some(holds.get(usize::from(subject.kind().0)).copied().unwrap_or(false)),
            Condition::Row(field, numbers, index) => match subject.row(*field) {
                None => Some(false),
                Some(row) if numbers.holds(u64::from(row)) => Some(true),
                Some(row) => self.rows.get(*index).map_or(Some(false), |rows| rows.accepts(row)),
            },
            Condition::During(index) => {
                let moments = self.moments.get(*index);
                Some(moments.is_some_and(|(.., moments)| moments.has(subject.number(), subject.thread())))
            }
            Condition::Named(index) => self.stacks.holds(subject.site(), *index),
        }
    }

    /// Whether one of the parts is as `wanted`; if none is, the opposite.
    fn join(&self, parts: &[Condition], subject: &Subject<'_>, wanted: bool) -> Option<bool> {
        let mut known = true;
        for part in parts {
            match self.node(part, subject) {
                Some(holds) if holds == wanted => return Some(wanted),
                Some(_) => {}
                None => known = false,
            }
        }
        known.then_some(!wanted)
    }
}
