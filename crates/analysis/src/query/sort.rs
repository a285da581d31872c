//! Orders of blocks.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use heapledger_format::{Entry, Kind};
use heapledger_source::{Ledger, SourceError};

use super::{Subject, SyntaxError, keys};
use crate::Told;
use crate::fields::{Field, SORT_KEYS, Unit};

/// Where functions of the malloc family come in the order of their names.
static KINDS: LazyLock<[u64; 256]> = LazyLock::new(|| {
    let mut kinds: Vec<Kind> = (0..=u8::MAX).map(Kind).collect();
    kinds.sort_by_key(|kind| (kind.name(), kind.0));
    let mut ranks = [0; 256];
    for (rank, kind) in (0u64..).zip(kinds) {
        ranks[usize::from(kind.0)] = rank;
    }
    ranks
});

/// What is not known comes before 0.
fn rank(figure: Option<u64>) -> u64 {
    figure.map_or(0, |figure| figure.saturating_add(1))
}

/// A number of a block that is in the order of a field.
#[inline]
fn rank_by(field: Field, entry: &Entry) -> u64 {
    let figure = field.figure(&Subject::live(entry));
    match field.unit() {
        // The later, the younger.
        Unit::Age => !rank(figure),
        Unit::Kind => KINDS[usize::from(entry.kind.0)],
        Unit::Thread => figure.unwrap_or(u64::from(u32::MAX)),
        _ => rank(figure),
    }
}

/// One key of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SortKey {
    /// By what.
    pub by: Field,
    /// Whether the greatest comes first.
    pub descending: bool,
}

/// What is needed to sort by what a program told of its blocks.
#[derive(Debug, PartialEq, Eq)]
struct ToldOrder {
    told: Told,
    /// For each key: where its labels come, if it is about labels.
    places: Vec<HashMap<u64, u64>>,
}

/// An order: what the first key leaves equal, the second puts in order, and so on. What all leave equal is ordered by
/// number, so that every order is a definite one. Written as a text, it can be read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortKeys {
    keys: Vec<SortKey>,
    /// If it is by that.
    told: Option<Arc<ToldOrder>>,
}

impl Default for SortKeys {
    /// Lowest address first.
    fn default() -> SortKeys {
        SortKeys::new(vec![SortKey { by: Field::Address, descending: false }])
    }
}

impl SortKeys {
    /// These keys, the first one first.
    pub fn new(keys: Vec<SortKey>) -> SortKeys {
        SortKeys { keys, told: None }
    }

    /// The same order of the blocks of `ledger`, where it may be by what its program told of them: by labels, marks, windows.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn in_ledger(self, ledger: &Ledger) -> Result<SortKeys, SourceError> {
        if !self.keys.iter().any(|key| key.by.is_told()) {
            return Ok(self);
        }
        let told = Told::of(ledger)?;
        let places = |key: &SortKey| if key.by.unit() == Unit::Label { told.places(key.by) } else { HashMap::new() };
        let places = self.keys.iter().map(places).collect();
        Ok(SortKeys { told: Some(Arc::new(ToldOrder { told, places })), ..self })
    }

    /// A number of a block that is in the order of the key at that place.
    #[inline]
    fn rank(&self, at: usize, by: Field, entry: &Entry) -> u64 {
        let Some(ToldOrder { told, places }) = self.told.as_deref().filter(|_| by.is_told()) else {
            return rank_by(by, entry);
        };
        let figure = told.figure(by, &Subject::live(entry));
        match by.unit() {
            // Those that came since.
            Unit::Label => figure.map_or(0, |label| {
                places.get(at).and_then(|places| places.get(&label).copied()).unwrap_or(u64::from(u32::MAX))
            }),
            _ => rank(figure),
        }
    }

    /// Reads `size:desc,number`. A key without `:asc` or `:desc` has the direction that people mean: `size`, `actual`
    /// and `overhead` largest first, everything else smallest first; `age` is oldest first.
    ///
    /// # Errors
    /// If it cannot be understood: what, and where.
    pub fn parse(text: &str) -> Result<SortKeys, SyntaxError> {
        let keys = keys::sort(&SORT_KEYS, Field::descends, text)?;
        Ok(SortKeys::new(keys.into_iter().map(|(by, descending)| SortKey { by, descending }).collect()))
    }

    /// Reads `Ns`: letters, capitals for the reverse. p address, n size, s number, t thread, a function.
    ///
    /// # Errors
    /// If it cannot be understood: what, and where.
    pub fn classic(text: &str) -> Result<SortKeys, SyntaxError> {
        let mut keys: Vec<SortKey> = Vec::new();
        let meant = format!("expected letters of: {}", Field::letters_and_capitals());
        if text.is_empty() {
            return Err(SyntaxError::new("no sort key", text, 0..0).help(&meant));
        }
        for (at, letter) in text.char_indices() {
            let place = at..at + letter.len_utf8();
            let Some(by) = Field::of_letter(letter) else {
                return Err(SyntaxError::new("unknown sort key", text, place).help(&meant));
            };
            if keys.iter().any(|known| known.by == by) {
                return Err(SyntaxError::new(format!("a second key for '{}'", by.name()), text, place));
            }
            keys.push(SortKey { by, descending: letter.is_ascii_uppercase() });
        }
        Ok(SortKeys::new(keys))
    }

    /// The keys, the first one first.
    pub fn keys(&self) -> &[SortKey] {
        &self.keys
    }

    /// Reverse the order.
    pub fn reversed(mut self) -> SortKeys {
        if !self.keys.iter().any(|key| key.by == Field::Number) {
            self.keys.push(SortKey { by: Field::Number, descending: false });
        }
        self.keys.iter_mut().for_each(|key| key.descending = !key.descending);
        self
    }

    /// Numbers that are in this order, of what each key is about.
    pub(crate) fn ranks(&self, entry: &Entry) -> Box<[u64]> {
        let rank = |(at, key): (usize, &SortKey)| {
            let rank = self.rank(at, key.by, entry);
            if key.descending { !rank } else { rank }
        };
        self.keys.iter().enumerate().map(rank).collect()
    }

    /// Which of two blocks comes first.
    pub fn compare(&self, one: &Entry, other: &Entry) -> Ordering {
        for (at, key) in self.keys.iter().enumerate() {
            let order = self.rank(at, key.by, one).cmp(&self.rank(at, key.by, other));
            if order != Ordering::Equal {
                return if key.descending { order.reverse() } else { order };
            }
        }
        one.number.cmp(&other.number)
    }
}

impl fmt::Display for SortKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, key) in self.keys.iter().enumerate() {
            let (comma, direction) = (if index > 0 { "," } else { "" }, if key.descending { "desc" } else { "asc" });
            write!(f, "{comma}{}:{direction}", key.by.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use heapledger_format::{Site, ThreadRow, Ticks};

    use super::*;

    fn parsed(text: &str) -> Result<String, String> {
        SortKeys::parse(text).map(|keys| keys.to_string()).map_err(|error| error.to_string())
    }

    fn classic(text: &str) -> Result<String, String> {
        SortKeys::classic(text).map(|keys| keys.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn both_manners_mean_the_same() {
        assert_eq!(parsed("size:desc,seq").as_deref(), Ok("size:desc,number:asc"));
        assert_eq!(classic("Ns"), parsed("size:desc,seq"));
        assert_eq!(classic("pnsta"), parsed("addr,size:asc,number,thread,kind"));
        assert_eq!(classic("PNST"), parsed("addr:desc,size:desc,number:desc,thread:desc"));
        assert_eq!(parsed("size").as_deref(), Ok("size:desc"));
        assert_eq!(parsed("age").as_deref(), Ok("age:desc"));
        assert_eq!(parsed("age:asc").as_deref(), Ok("age:asc"));
        assert_eq!(parsed(" Size : asc , time").as_deref(), Ok("size:asc,time:asc"));
    }

    /// What people mean by the order of a field.
    fn told_apart(key: &str, one: &Entry, other: &Entry) -> Ordering {
        let overhead = |entry: &Entry| entry.actual.zip(entry.size).map(|(actual, size)| actual.saturating_sub(size));
        match key.split(':').next().unwrap_or_default() {
            "addr" => one.address.cmp(&other.address),
            "size" => one.size.cmp(&other.size),
            "actual" => one.actual.cmp(&other.actual),
            "overhead" => overhead(one).cmp(&overhead(other)),
            "number" => one.number.cmp(&other.number),
            "time" => one.time.cmp(&other.time),
            "age" => other.time.cmp(&one.time),
            "thread" => one.thread.is_none().cmp(&other.thread.is_none()).then(one.thread.cmp(&other.thread)),
            "kind" => (one.kind.name(), one.kind.0).cmp(&(other.kind.name(), other.kind.0)),
            "heap" => one.heap.cmp(&other.heap),
            "core" => one.core.cmp(&other.core),
            "cycles" => one.cycles.cmp(&other.cycles),
            "site" => one.site.cmp(&other.site),
            // What is told is not known here: labels by their numbers, and no marks.
            "label" => one.label.cmp(&other.label),
            "mark" | "window" => Ordering::Equal,
            other => panic!("{other} is not told apart here"),
        }
    }

    #[test]
    fn ranks_are_in_the_order_that_people_mean() {
        let entry = |number: u64, size: Option<u64>, kind: Kind| Entry {
            number,
            address: number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20,
            size,
            actual: size.map(|size| size + number % 3),
            kind,
            site: Site((number % 4) as u32),
            thread: Some(ThreadRow((number % 5) as u32)).filter(|row| row.0 != 4),
            heap: Some((number % 3) as u8).filter(|row| *row != 2),
            time: Some(Ticks(number / 3)).filter(|time| time.0 != 5),
            core: Some((number % 2) as u8).filter(|_| number % 7 != 2),
            cycles: Some((number as u32).wrapping_mul(0x1234_5678)).filter(|_| number % 5 != 1),
            ..Entry::NONE
        };
        let kinds = [Kind::MALLOC, Kind::CALLOC, Kind::FREE, Kind(200), Kind(201)];
        let entries: Vec<Entry> = (0..40)
            .map(|number| entry(number, Some(number % 7).filter(|size| *size != 3), kinds[number as usize % 5]))
            .collect();
        let names = Field::sort_keys();
        for key in names.flat_map(|name| [format!("{name}:asc"), format!("{name}:desc")]) {
            let keys = SortKeys::parse(&key).expect("known");
            let (mut compared, mut ranked) = (entries.clone(), entries.clone());
            compared.sort_by(|one, other| {
                let order = told_apart(&key, one, other);
                if key.ends_with(":desc") { order.reverse() } else { order }.then(one.number.cmp(&other.number))
            });
            assert!(compared.is_sorted_by(|one, other| keys.compare(one, other).is_lt()), "{key}");
            ranked.sort_by_key(|entry| (keys.ranks(entry), entry.number));
            assert_eq!(compared, ranked, "{key}");
        }
    }

    #[test]
    fn an_error_points_at_the_key() {
        let error = parsed("size, thraed").expect_err("wrong");
        assert_eq!(error, "unknown sort key\n  size, thraed\n        ^^^^^^\ndid you mean 'thread'?");
        assert!(parsed("size,").is_err_and(|why| why.contains("missing")));
        assert!(parsed("size:down").is_err_and(|why| why.contains("asc or desc")));
        assert!(parsed("size,size").is_err_and(|why| why.contains("twice")));
        assert!(classic("NX").is_err_and(|why| why.contains(" NX\n   ^")));
        assert!(classic("nN").is_err());
        assert!(classic("A").is_err());
        assert!(classic("").is_err());
    }
}
