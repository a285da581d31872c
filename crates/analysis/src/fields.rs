//! The list of all that can be asked of a block or an event: what conditions, orders, columns and `-f` know, and how each
//! is read, compared and printed. Whatever else lists fields is made of it, or held against it by a test. The rows stand in
//! [`list`]; here is what a row can say, and what is made of the rows.

use std::fmt;
use std::sync::LazyLock;

pub mod documents;
mod label;
mod list;
mod objects;
mod op;

pub use label::LabelKey;
pub use list::Field;
use list::ROWS;
pub use objects::JsonObject;
pub use op::Op;

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
    /// A mark that the program set.
    Mark,
    /// A window of the program.
    Window,
    /// A label that the program gave, all of it or what stands behind one of its keys.
    Label,
    /// A thread's share of a heap: the row of the thread above 32 bits, the row of the heap in them.
    Account,
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
    /// The name of a mark or a window.
    Moment,
    /// A label, or what stands behind one of its keys.
    Label,
    YesNo,
    Event,
}

impl Unit {
    /// Whether it is a figure of the record, and nothing that must be looked up by its stack.
    const fn is_figure(self) -> bool {
        !matches!(self, Unit::Function | Unit::File | Unit::Module | Unit::Stack)
    }

    pub(crate) fn compared(self) -> Type {
        match self {
            Unit::Bytes => Type::Bytes,
            Unit::Address => Type::Address,
            Unit::Number | Unit::Weight | Unit::Account => Type::Count,
            Unit::Time | Unit::Age | Unit::Span => Type::Time,
            Unit::Thread | Unit::Heap => Type::Row,
            Unit::Kind => Type::Kind,
            Unit::Function | Unit::Module | Unit::Stack => Type::Text,
            Unit::File => Type::File,
            Unit::Mark | Unit::Window => Type::Moment,
            Unit::Label => Type::Label,
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
        matches!(self, Type::Row | Type::Kind | Type::Text | Type::File | Type::Moment | Type::Label)
    }
}

/// What a ledger must record: the option, what it is called, and what `run --without` calls it.
type Need = (u32, &'static str, Option<&'static str>);

/// What else an event column of a block's allocation or free is called.
type EndNames = [&'static str; 2];

/// All that is to be known of a field.
#[derive(Debug)]
struct FieldRow {
    /// What it is called, and what else it may be called.
    names: &'static [&'static str],
    /// What else it may be called as a column.
    column_names: &'static [&'static str],
    unit: Unit,
    needs: &'static [Need],
    /// Where it stands among the fields of conditions, with what it is compared, and what it means.
    condition: Option<(u8, &'static str, &'static str)>,
    /// Where it stands among the columns of events; 0: it is not there.
    event: u8,
    /// Whether it is a column of blocks; they stand in the order of the list.
    is_column: bool,
    /// Whether blocks can be sorted by it, and then whether the greatest comes first.
    sort: Option<bool>,
    /// Its letter in the classic manner of sorting, what it is called there, and whether a capital reverses that.
    letter: Option<(char, &'static str, bool)>,
    /// How blocks are added up by it.
    group: Option<GroupUse>,
    /// Where it stands among what the rows of a live view are by, its name in their heading, and what a row is then.
    watched: Option<(u8, &'static str, &'static str)>,
    /// Where its conversion of `-f` stands, the letter, and what it writes.
    conversion: Option<(u8, char, &'static str)>,
    /// Whether an event has its own; if not, it is that of the event's block.
    is_own: bool,
    /// The columns of an event's two ends.
    ends: Option<EndNames>,
    /// How it stands in objects of JSON.
    json: Option<JsonUse>,
}

/// How blocks are added up by a field.
#[derive(Debug)]
struct GroupUse {
    /// Where it stands among what is added up by.
    place: u8,
    names: &'static [&'static str],
    /// How a group is told of it: `in heap`. Empty: it is seen.
    told: &'static str,
    /// What blocks of a group have in common.
    meaning: &'static str,
}

/// How a field stands in objects of JSON.
#[derive(Debug)]
struct JsonUse {
    /// Where in those of blocks and of events; 0: it is not there.
    places: [u8; 2],
    key: &'static str,
    meaning: &'static str,
}

const fn row(names: &'static [&'static str], unit: Unit, needs: &'static [Need]) -> FieldRow {
    FieldRow {
        names,
        column_names: names,
        unit,
        needs,
        condition: None,
        event: 0,
        is_column: false,
        sort: None,
        letter: None,
        group: None,
        watched: None,
        conversion: None,
        is_own: false,
        ends: None,
        json: None,
    }
}

impl FieldRow {
    const fn condition(self, place: u8, compared: &'static str, meaning: &'static str) -> FieldRow {
        FieldRow { condition: Some((place, compared, meaning)), ..self }
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

    const fn letter(self, letter: char, called: &'static str) -> FieldRow {
        FieldRow { letter: Some((letter, called, true)), ..self }
    }

    const fn small_letter(self, letter: char, called: &'static str) -> FieldRow {
        FieldRow { letter: Some((letter, called, false)), ..self }
    }

    const fn grouped(
        self,
        place: u8,
        names: &'static [&'static str],
        told: &'static str,
        meaning: &'static str,
    ) -> FieldRow {
        FieldRow { group: Some(GroupUse { place, names, told, meaning }), ..self }
    }

    const fn watched(self, place: u8, name: &'static str, meaning: &'static str) -> FieldRow {
        FieldRow { watched: Some((place, name, meaning)), ..self }
    }

    const fn conversion(self, place: u8, letter: char, written: &'static str) -> FieldRow {
        FieldRow { conversion: Some((place, letter, written)), ..self }
    }

    const fn own(self) -> FieldRow {
        FieldRow { is_own: true, ..self }
    }

    const fn ends(self, names: EndNames) -> FieldRow {
        FieldRow { ends: Some(names), is_own: true, ..self }
    }

    const fn json(self, places: [u8; 2], key: &'static str, meaning: &'static str) -> FieldRow {
        FieldRow { json: Some(JsonUse { places, key, meaning }), ..self }
    }
}

/// Fields and what each is called.
pub(crate) type FieldNames = Vec<(Field, &'static [&'static str])>;

/// Fields of which `of` says something, in the order that it says.
fn placed<T>(of: impl Fn(Field, &'static FieldRow) -> Option<(u8, T)>) -> Vec<(Field, T)> {
    let mut placed: Vec<(u8, Field, T)> =
        ROWS.iter().filter_map(|(field, row)| of(*field, row).map(|(place, what)| (place, *field, what))).collect();
    placed.sort_by_key(|(place, ..)| *place);
    placed.into_iter().map(|(_, field, what)| (field, what)).collect()
}

/// A place, if it is one.
fn place<T>(place: u8, what: T) -> Option<(u8, T)> {
    (place != 0).then_some((place, what))
}

/// Those that conditions are about.
pub(crate) static CONDITIONS: LazyLock<FieldNames> =
    LazyLock::new(|| placed(|_, row| row.condition.map(|(place, ..)| (place, row.names))));
/// The columns of events, those of an event itself.
pub(crate) static EVENT_COLUMNS: LazyLock<FieldNames> =
    LazyLock::new(|| placed(|_, row| place(row.event, row.column_names)));
/// The columns of blocks.
pub(crate) static COLUMNS: LazyLock<FieldNames> =
    LazyLock::new(|| placed(|field, row| row.is_column.then_some((field.index() as u8, row.column_names))));
/// What blocks are sorted by.
pub(crate) static SORT_KEYS: LazyLock<FieldNames> =
    LazyLock::new(|| placed(|field, row| row.sort.map(|_| (field.index() as u8, row.names))));

/// What the rows of a live view are by.
static WATCHED: LazyLock<Vec<(Field, (&str, &str))>> =
    LazyLock::new(|| placed(|_, row| row.watched.map(|(place, name, meaning)| (place, (name, meaning)))));

/// What blocks and events are added up by.
pub(crate) static GROUPS: LazyLock<FieldNames> =
    LazyLock::new(|| placed(|_, row| row.group.as_ref().map(|group| (group.place, group.names))));

/// Of those, how many are figures.
pub(crate) const GROUP_FIGURES: usize = {
    let (mut at, mut count) = (0, 0);
    while at < ROWS.len() {
        let (_, FieldRow { group, unit, .. }) = &ROWS[at];
        count += (group.is_some() && unit.is_figure()) as usize;
        at += 1;
    }
    count
};

fn firsts(names: &'static FieldNames) -> impl Iterator<Item = &'static str> {
    names.iter().filter_map(|(_, names)| names.first().copied())
}

fn letters(capital_of: fn(char) -> String) -> String {
    let letters = ROWS.iter().filter_map(|(_, row)| row.letter).map(|(letter, called, has_capital)| {
        let capital = if has_capital { capital_of(letter) } else { String::new() };
        format!("{letter}{capital} {called}")
    });
    letters.collect::<Vec<_>>().join(", ")
}

impl Field {
    fn row(self) -> &'static FieldRow {
        match self {
            Field::LabelOf(_) => &list::LABEL_OF,
            field => &ROWS[field.index()].1,
        }
    }

    /// Whether it is something that a program tells of its blocks: see [`Told`](crate::Told).
    pub fn is_told(self) -> bool {
        matches!(self.unit(), Unit::Label | Unit::Mark | Unit::Window) && self != Field::Since
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        if let Field::LabelOf(key) = self {
            return key.name();
        }
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

    /// What blocks are added up by: the names.
    pub fn block_groups() -> impl Iterator<Item = &'static str> {
        let groups = GROUPS.iter().filter(|(field, _)| !field.is_of_events());
        groups.filter_map(|(_, names)| names.first().copied())
    }

    /// What events are added up by: the names.
    pub fn event_groups() -> impl Iterator<Item = &'static str> {
        firsts(&GROUPS)
    }

    /// What the rows of a live view may be by, each with its name in their heading and what a row is then.
    pub fn watched() -> &'static [(Field, (&'static str, &'static str))] {
        &WATCHED
    }

    /// Its name in the heading of rows that are by it.
    pub fn watched_name(self) -> &'static str {
        self.row().watched.map_or("", |(_, name, _)| name)
    }

    /// What it is called where blocks are added up by it.
    pub fn group_names(self) -> &'static [&'static str] {
        self.row().group.as_ref().map_or(&[], |group| group.names)
    }

    /// How groups are told what their blocks have in common: `by thread`. Empty: it is seen.
    pub fn group_told(self) -> &'static str {
        self.row().group.as_ref().map_or("", |group| group.told)
    }

    /// Whether only events have it.
    pub fn is_of_events(self) -> bool {
        let row = self.row();
        row.event != 0 && !row.is_column
    }

    /// The conversions of `-f` that are fields, and what they write.
    pub fn conversions() -> impl Iterator<Item = (Field, (char, &'static str))> {
        placed(|_, row| row.conversion.map(|(place, letter, written)| (place, (letter, written)))).into_iter()
    }

    /// The letters of the classic manner of sorting: `p address, n size`.
    pub fn letters() -> String {
        letters(|_| String::new())
    }

    /// The same with capitals, where these are letters too: `p P address, n N size`.
    pub fn letters_and_capitals() -> String {
        letters(|letter| format!(" {}", letter.to_ascii_uppercase()))
    }

    /// The field of conditions that has that name.
    pub fn of(name: &str) -> Option<Field> {
        let same = |names: &&[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        CONDITIONS.iter().find(|(_, names)| same(names)).map(|(field, _)| *field).or_else(|| Field::of_label(name))
    }

    /// The field with that letter in the classic manner of sorting, and whether it has a capital.
    pub(crate) fn of_letter(letter: char) -> Option<Field> {
        let small = letter.to_ascii_lowercase();
        let has = |row: &FieldRow| {
            row.letter.is_some_and(|(known, _, capital)| known == small && (capital || letter == small))
        };
        ROWS.iter().find(|(_, row)| has(row)).map(|(field, _)| *field)
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
        !self.unit().is_figure()
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_row_and_every_place_one_field() {
        for (index, (field, _)) in ROWS.iter().enumerate() {
            assert_eq!(field.index(), index, "{field}");
        }
        let places: [fn(&FieldRow) -> u8; 7] = [
            |row| row.condition.map_or(0, |(place, ..)| place),
            |row| row.conversion.map_or(0, |(place, ..)| place),
            |row| row.event,
            |row| row.group.as_ref().map_or(0, |group| group.place),
            |row| row.watched.map_or(0, |(place, ..)| place),
            |row| row.json.as_ref().map_or(0, |json| json.places[0]),
            |row| row.json.as_ref().map_or(0, |json| json.places[1]),
        ];
        for of in places {
            let mut places: Vec<u8> = ROWS.iter().map(|(_, row)| of(row)).filter(|place| *place != 0).collect();
            places.sort_unstable();
            assert!(places.iter().copied().eq(1..=places.len() as u8), "{places:?}");
        }
        for names in [&CONDITIONS, &EVENT_COLUMNS, &COLUMNS, &SORT_KEYS, &GROUPS] {
            let mut all: Vec<&str> = names.iter().flat_map(|(_, names)| names.iter().copied()).collect();
            all.sort_unstable();
            assert!(all.is_sorted_by(|one, other| one < other), "{all:?}");
        }
    }
}
