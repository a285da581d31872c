//! The list of all that can be asked of a block or an event: what conditions, orders, columns and `-f` know, and how each
//! is read, compared and printed. Whatever else lists fields is made of it, or held against it by a test.
//!
//! A field that is reckoned from what is there needs a variant here, a row in [`ROWS`], and an arm in [`Field::figure`].

use std::fmt;
use std::sync::LazyLock;

use heapledger_format::record::Options;

use crate::query::Subject;

/// What can be asked of a block or an event. In conditions, functions, files and modules are those of any frame; in
/// columns and groups, those of the function that holds the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// What the allocation function returned.
    Address,
    /// Bytes asked for.
    Size,
    /// Bytes that the block really has.
    Actual,
    /// Actual bytes less those asked for.
    Overhead,
    /// Sequence number, from 0.
    Number,
    /// Time since the ledger began.
    Time,
    /// How long ago.
    Age,
    /// How long the block lived.
    Lifetime,
    /// The thread: its row or its name.
    Thread,
    /// The function of the malloc family.
    Kind,
    /// The heap: its row or its name.
    Heap,
    /// Number of the call site.
    Site,
    /// For how many blocks it stands.
    Weight,
    /// A function.
    Function,
    /// The function that holds the block: the innermost that is no wrapper of an allocation function.
    Holder,
    /// A source file, perhaps with a line.
    File,
    /// A module.
    Module,
    /// All functions of the stack.
    Stack,
    /// Whether no frame of the stack was guessed.
    Exact,
    /// Whether the block is freed by now.
    Freed,
    /// `allocation` or `free`.
    Event,
}

/// Of which type a field is, and in what unit its figures are: how it is compared and printed follows from that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// An address.
    Address,
    /// A number that names something.
    Number,
    /// How many blocks a record stands for.
    Weight,
    /// A moment, in ticks since the ledger began.
    Time,
    /// The same moment, as the time since then.
    Age,
    /// A time from one moment to another, in ticks.
    Span,
    /// A row of the threads.
    Thread,
    /// A row of the heaps.
    Heap,
    /// A function of the malloc family.
    Kind,
    /// A function's name.
    Function,
    /// A source file's name.
    File,
    /// A module's name.
    Module,
    /// The functions of a stack.
    Stack,
    /// Yes or no.
    YesNo,
    /// `allocation` or `free`.
    Event,
}

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Bytes,
    Address,
    Count,
    Time,
    /// A row by its number or its name.
    Row,
    Kind,
    Text,
    File,
    YesNo,
    Event,
}

impl Unit {
    pub(crate) fn compared(self) -> Type {
        match self {
            Unit::Bytes => Type::Bytes,
            Unit::Address => Type::Address,
            Unit::Number | Unit::Weight => Type::Count,
            Unit::Time | Unit::Age | Unit::Span => Type::Time,
            Unit::Thread | Unit::Heap => Type::Row,
            Unit::Kind => Type::Kind,
            Unit::Function | Unit::Module | Unit::Stack => Type::Text,
            Unit::File => Type::File,
            Unit::YesNo => Type::YesNo,
            Unit::Event => Type::Event,
        }
    }
}

impl Type {
    /// Whether values have an order.
    pub(crate) fn is_ordered(self) -> bool {
        matches!(self, Type::Bytes | Type::Address | Type::Count | Type::Time)
    }

    /// Whether patterns can be looked for.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Type::Row | Type::Kind | Type::Text | Type::File)
    }
}

/// What a ledger must record: the option, what it is called, and what `run --without` calls it.
type Need = (u32, &'static str, Option<&'static str>);

const ACTUAL: &[Need] = &[(Options::ACTUAL_SIZE, "actual sizes", Some("actual"))];
const TIME: &[Need] = &[(Options::TIME, "times", Some("time"))];
const LIFETIME: &[Need] = &[TIME[0], (Options::HISTORY, "history", Some("history"))];
const THREAD: &[Need] = &[(Options::THREAD, "threads", Some("thread"))];
const HEAP: &[Need] = &[(Options::HEAP, "heaps", Some("heap"))];
const STACK: &[Need] = &[(Options::STACK, "call stacks", Some("stack"))];

/// What else an event column of a block's allocation or free is called.
type EndNames = [&'static str; 2];

/// All that is to be known of a field.
struct FieldRow {
    field: Field,
    /// What it is called, and what else it may be called.
    names: &'static [&'static str],
    /// What else it may be called as a column.
    column_names: &'static [&'static str],
    unit: Unit,
    needs: &'static [Need],
    /// Where it stands among the fields of conditions, and among the columns of events; 0: it is not there.
    condition: u8,
    event: u8,
    /// Whether it is a column of blocks; they stand in the order of the list.
    is_column: bool,
    /// Whether blocks can be sorted by it, and then whether the greatest comes first.
    sort: Option<bool>,
    /// Its letter in the classic manner of sorting, and whether a capital reverses that.
    letter: Option<(char, bool)>,
    /// Its conversion of `-f`.
    conversion: Option<char>,
    /// The columns of an event's two ends.
    ends: Option<EndNames>,
}

const fn row(field: Field, names: &'static [&'static str], unit: Unit, needs: &'static [Need]) -> FieldRow {
    FieldRow {
        field,
        names,
        column_names: names,
        unit,
        needs,
        condition: 0,
        event: 0,
        is_column: false,
        sort: None,
        letter: None,
        conversion: None,
        ends: None,
    }
}

impl FieldRow {
    const fn condition(self, place: u8) -> FieldRow {
        FieldRow { condition: place, ..self }
    }

    const fn event(self, place: u8) -> FieldRow {
        FieldRow { event: place, ..self }
    }

    const fn column(self) -> FieldRow {
        FieldRow { is_column: true, ..self }
    }

    const fn column_called(self, column_names: &'static [&'static str]) -> FieldRow {
        FieldRow { is_column: true, column_names, ..self }
    }

    const fn least_first(self) -> FieldRow {
        FieldRow { sort: Some(false), ..self }
    }

    const fn greatest_first(self) -> FieldRow {
        FieldRow { sort: Some(true), ..self }
    }

    const fn letter(self, letter: char) -> FieldRow {
        FieldRow { letter: Some((letter, true)), ..self }
    }

    const fn small_letter(self, letter: char) -> FieldRow {
        FieldRow { letter: Some((letter, false)), ..self }
    }

    const fn conversion(self, letter: char) -> FieldRow {
        FieldRow { conversion: Some(letter), ..self }
    }

    const fn ends(self, names: EndNames) -> FieldRow {
        FieldRow { ends: Some(names), ..self }
    }
}

/// The list, in the order of the fields.
#[rustfmt::skip]
static ROWS: [FieldRow; 21] = [
    row(Field::Address, &["addr", "address", "ptr"], Unit::Address, &[]).condition(4).event(7).column().least_first().letter('p').conversion('p'),
    row(Field::Size, &["size"], Unit::Bytes, &[]).condition(1).event(8).column().greatest_first().letter('n').conversion('n'),
    row(Field::Actual, &["actual"], Unit::Bytes, ACTUAL).condition(2).event(9).column().greatest_first().conversion('m'),
    row(Field::Overhead, &["overhead"], Unit::Bytes, ACTUAL).condition(3).event(10).column().greatest_first().conversion('o'),
    row(Field::Number, &["number", "seq", "seqno"], Unit::Number, &[]).condition(5).event(2).column().least_first().letter('s').conversion('s').ends(["alloc_number", "free_number"]),
    row(Field::Time, &["time"], Unit::Time, TIME).condition(6).event(3).column().least_first().conversion('T').ends(["alloc_time", "free_time"]),
    row(Field::Age, &["age"], Unit::Age, TIME).condition(7).event(4).column().greatest_first(),
    row(Field::Lifetime, &["lifetime"], Unit::Span, LIFETIME).condition(8).event(19),
    row(Field::Thread, &["thread"], Unit::Thread, THREAD).condition(9).event(5).column().least_first().letter('t').conversion('t').ends(["alloc_thread", "free_thread"]),
    row(Field::Kind, &["kind", "by"], Unit::Kind, &[]).condition(10).event(6).column().least_first().small_letter('a').conversion('a').ends(["alloc_kind", "free_kind"]),
    row(Field::Heap, &["heap"], Unit::Heap, HEAP).condition(11).event(11).column().least_first(),
    row(Field::Site, &["site"], Unit::Number, STACK).condition(12).event(13).column().least_first(),
    row(Field::Weight, &["weight"], Unit::Weight, &[]).event(12).column().conversion('W'),
    row(Field::Function, &["fn", "function", "func"], Unit::Function, STACK).condition(13).event(14).column_called(&["fn", "function", "func", "holder"]).ends(["alloc_fn", "free_fn"]),
    row(Field::Holder, &["holder"], Unit::Function, STACK).condition(14),
    row(Field::File, &["file"], Unit::File, STACK).condition(15).event(15).column().ends(["alloc_file", "free_file"]),
    row(Field::Module, &["module", "lib"], Unit::Module, STACK).condition(16).event(16).column(),
    row(Field::Stack, &["stack"], Unit::Stack, STACK).event(17).column().ends(["alloc_stack", "free_stack"]),
    row(Field::Exact, &["exact"], Unit::YesNo, STACK).condition(17),
    row(Field::Freed, &["freed"], Unit::YesNo, &[]).condition(18).event(18),
    row(Field::Event, &["event"], Unit::Event, &[]).condition(19).event(1),
];

/// Fields and what each is called.
pub(crate) type FieldNames = Vec<(Field, &'static [&'static str])>;

/// Those that `of` gives a place, in that order.
fn placed(of: fn(&FieldRow) -> u8, names: fn(&FieldRow) -> &'static [&'static str]) -> FieldNames {
    let mut rows: Vec<&FieldRow> = ROWS.iter().filter(|row| of(row) != 0).collect();
    rows.sort_by_key(|row| of(row));
    rows.into_iter().map(|row| (row.field, names(row))).collect()
}

/// Those that conditions are about.
pub(crate) static CONDITIONS: LazyLock<FieldNames> = LazyLock::new(|| placed(|row| row.condition, |row| row.names));
/// The columns of events, those of an event itself.
pub(crate) static EVENT_COLUMNS: LazyLock<FieldNames> =
    LazyLock::new(|| placed(|row| row.event, |row| row.column_names));
/// The columns of blocks.
pub(crate) static COLUMNS: LazyLock<FieldNames> =
    LazyLock::new(|| placed(|row| if row.is_column { row.field as u8 + 1 } else { 0 }, |row| row.column_names));
/// What blocks are sorted by.
pub(crate) static SORT_KEYS: LazyLock<FieldNames> =
    LazyLock::new(|| placed(|row| if row.sort.is_some() { row.field as u8 + 1 } else { 0 }, |row| row.names));

fn firsts(names: &'static FieldNames) -> impl Iterator<Item = &'static str> {
    names.iter().filter_map(|(_, names)| names.first().copied())
}

impl Field {
    fn row(self) -> &'static FieldRow {
        &ROWS[self as usize]
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().names.first().copied().unwrap_or("")
    }

    /// What conditions are about: the names.
    pub fn conditions() -> impl Iterator<Item = &'static str> {
        firsts(&CONDITIONS)
    }

    /// What blocks are sorted by: the names.
    pub fn sort_keys() -> impl Iterator<Item = &'static str> {
        firsts(&SORT_KEYS)
    }

    /// The columns of blocks: the names.
    pub fn columns() -> impl Iterator<Item = &'static str> {
        firsts(&COLUMNS)
    }

    /// The conversions of `-f` that are fields.
    pub fn conversions() -> impl Iterator<Item = (char, Field)> {
        ROWS.iter().filter_map(|row| Some((row.conversion?, row.field)))
    }

    /// The field of conditions that has that name.
    pub fn of(name: &str) -> Option<Field> {
        let same = |names: &&[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        CONDITIONS.iter().find(|(_, names)| same(names)).map(|(field, _)| *field)
    }

    /// The field with that letter in the classic manner of sorting, and whether it has a capital.
    pub(crate) fn of_letter(letter: char) -> Option<Field> {
        let small = letter.to_ascii_lowercase();
        let has =
            |row: &&FieldRow| row.letter.is_some_and(|(known, capital)| known == small && (capital || letter == small));
        ROWS.iter().find(has).map(|row| row.field)
    }

    /// What its figures are, and how it is printed.
    #[inline]
    pub fn unit(self) -> Unit {
        self.row().unit
    }

    pub(crate) fn kind(self) -> Type {
        self.unit().compared()
    }

    /// Whether people who sort by it want the greatest first.
    pub(crate) fn descends(self) -> bool {
        self.row().sort == Some(true)
    }

    /// What must be recorded for it: the option, what it is called, and what `run --without` calls it.
    pub fn needs(self) -> &'static [(u32, &'static str, Option<&'static str>)] {
        self.row().needs
    }

    /// The columns of an event's allocation and of its free.
    pub(crate) fn ends(self) -> Option<&'static [&'static str; 2]> {
        self.row().ends.as_ref()
    }

    /// Whether it is decided call site by call site.
    pub(crate) fn is_of_stack(self) -> bool {
        self.needs_names() || self == Field::Exact
    }

    /// Whether names of code must be found for it.
    pub fn needs_names(self) -> bool {
        matches!(self.unit(), Unit::Function | Unit::File | Unit::Module | Unit::Stack)
    }

    /// Its figure, as its unit says; `None` if it has none, or it is not known. What a record stands for is known to who
    /// knows how it was chosen.
    #[inline]
    pub fn figure(self, subject: &Subject<'_>) -> Option<u64> {
        let block = subject.block();
        match self {
            Field::Address => Some(block.address),
            Field::Size => block.size,
            Field::Actual => block.actual,
            Field::Overhead => Some(block.actual?.saturating_sub(block.size?)),
            Field::Number => Some(subject.number()),
            Field::Time | Field::Age => subject.ticks(),
            Field::Lifetime => subject.lifetime_ticks(),
            Field::Thread => subject.thread().map(u64::from),
            Field::Kind => Some(u64::from(subject.kind().0)),
            Field::Heap => block.heap.map(u64::from),
            Field::Site => Some(u64::from(subject.site())),
            _ => None,
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// By what a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `==`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `~`: a part of it matches a pattern.
    Matches,
    /// `!~`
    MatchesNot,
    /// `in (…)`: equal to one of several.
    In,
}

impl Op {
    pub(crate) fn is_order(self) -> bool {
        matches!(self, Op::Below | Op::AtMost | Op::Above | Op::AtLeast)
    }

    pub(crate) fn is_pattern(self) -> bool {
        matches!(self, Op::Matches | Op::MatchesNot)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Equal => "==",
            Op::Unequal => "!=",
            Op::Below => "<",
            Op::AtMost => "<=",
            Op::Above => ">",
            Op::AtLeast => ">=",
            Op::Matches => "~",
            Op::MatchesNot => "!~",
            Op::In => "in",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_row_and_every_place_one_field() {
        for (index, row) in ROWS.iter().enumerate() {
            assert_eq!(row.field as usize, index, "{}", row.field);
        }
        for of in [|row: &FieldRow| row.condition, |row: &FieldRow| row.event] {
            let mut places: Vec<u8> = ROWS.iter().map(of).filter(|place| *place != 0).collect();
            places.sort_unstable();
            assert!(places.iter().copied().eq(1..=places.len() as u8), "{places:?}");
        }
        for names in [&CONDITIONS, &EVENT_COLUMNS, &COLUMNS, &SORT_KEYS] {
            let mut all: Vec<&str> = names.iter().flat_map(|(_, names)| names.iter().copied()).collect();
            all.sort_unstable();
            assert!(all.is_sorted_by(|one, other| one < other), "{all:?}");
        }
    }

    #[test]
    fn the_document_names_every_field() {
        let text = include_str!("../../../docs/queries.md");
        for name in Field::conditions().chain(Field::sort_keys()).chain(Field::columns()) {
            assert!(text.contains(&format!("`{name}`")), "docs/queries.md does not name {name}");
        }
    }
}
