//! Conditions on names of code, decided once for each code address and once for each call site.

use std::collections::{BTreeSet, HashMap};

use heapledger_format::{CodeId, Site};
use heapledger_source::SourceError;

use super::plan::TextTest;
use crate::fields::Field;
use crate::names::Started;
use crate::{Holders, NamedFrame, Names, NamingOptions};

/// Tests have a bit each.
type TestBits = u64;

/// Sites below this have a place of their own; what lies above is looked up. No ledger of a sane size has more.
const DENSE: usize = 1 << 24;

/// Call sites that are to be decided.
#[derive(Debug, Default)]
pub(crate) struct Undecided {
    /// One bit a site.
    dense: Vec<u64>,
    sparse: BTreeSet<Site>,
}

impl Undecided {
    #[inline]
    pub(crate) fn add(&mut self, site: Site) {
        let at = site.index();
        if at >= DENSE {
            self.sparse.insert(site);
            return;
        }
        if at / 64 >= self.dense.len() {
            self.dense.resize((at / 64 + 1).max(self.dense.len() * 2), 0);
        }
        self.dense[at / 64] |= 1 << (at % 64);
    }

    pub(crate) fn join(&mut self, mut other: Undecided) {
        if other.dense.len() > self.dense.len() {
            std::mem::swap(&mut self.dense, &mut other.dense);
        }
        self.dense.iter_mut().zip(other.dense).for_each(|(own, other)| *own |= other);
        self.sparse.extend(other.sparse);
    }

    fn sites(&self) -> impl Iterator<Item = Site> {
        let words = self.dense.iter().enumerate().filter(|(_, word)| **word != 0);
        let dense = words.flat_map(|(at, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| Site((at * 64 + bit) as u32))
        });
        dense.chain(self.sparse.iter().copied())
    }
}

/// What is decided of call sites.
#[derive(Debug, Default)]
struct Decided {
    /// By site.
    dense: Vec<Option<TestBits>>,
    sparse: HashMap<Site, TestBits>,
}

impl Decided {
    #[inline]
    fn get(&self, site: Site) -> Option<TestBits> {
        if site.index() < DENSE {
            return self.dense.get(site.index()).copied().flatten();
        }
        self.sparse.get(&site).copied()
    }

    fn set(&mut self, site: Site, bits: TestBits) {
        let at = site.index();
        if at >= DENSE {
            self.sparse.insert(site, bits);
            return;
        }
        if at >= self.dense.len() {
            self.dense.resize((at + 1).max(self.dense.len() * 2), None);
        }
        self.dense[at] = Some(bits);
    }
}

/// The tests, and what is decided of them.
#[derive(Debug)]
pub(crate) struct Stacks<'a> {
    tests: Vec<(Field, TextTest)>,
    names: Names<'a>,
    holders: Holders,
    started: Option<Started>,
    sites: Decided,
    codes: HashMap<CodeId, Code>,
}

/// What is decided of a code address.
#[derive(Clone, Debug)]
struct Code {
    bits: TestBits,
    /// The bits of tests on the holder, for the innermost frame here, and for the innermost that holds.
    innermost: TestBits,
    holder: Option<TestBits>,
}

impl<'a> Stacks<'a> {
    pub(crate) fn new(tests: Vec<(Field, TextTest)>, names: Names<'a>, holders: Holders) -> Stacks<'a> {
        let started = names.started();
        Stacks { tests, names, holders, started, sites: Decided::default(), codes: HashMap::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    pub(crate) fn into_names(self) -> Names<'a> {
        self.names
    }

    pub(crate) fn names(&mut self) -> &mut Names<'a> {
        &mut self.names
    }

    pub(crate) fn undecided(&self) -> Undecided {
        Undecided::default()
    }

    /// Whether the test of this index holds for a site; `None` if that was not decided yet.
    #[inline]
    pub(crate) fn holds(&self, site: Site, index: usize) -> Option<bool> {
        self.sites.get(site).map(|bits| bits >> index & 1 == 1)
    }

    /// Decides for these sites.
    pub(crate) fn decide(&mut self, sites: Undecided, progress: &mut dyn FnMut(f32)) -> Result<(), SourceError> {
        let sites: Vec<Site> = sites.sites().filter(|site| self.sites.get(*site).is_none()).collect();
        let of_exact = self.tests.iter().enumerate().filter(|(_, (field, _))| *field == Field::Exact);
        let of_exact = of_exact.fold(0, |bits: TestBits, (index, _)| bits | 1 << index);
        if self.tests.iter().any(|(field, _)| field.needs_names()) {
            self.names.resolve(sites.iter().copied(), NamingOptions::default(), progress)?;
        }
        for site in sites {
            let mut bits = 0;
            if of_exact != 0 && !self.names.is_guessed(site)? {
                bits |= of_exact;
            }
            let (mut innermost, mut holder) = (None, None);
            for id in self.names.codes(site)? {
                let code = self.code(id)?;
                bits |= code.bits;
                innermost = innermost.or(Some(code.innermost));
                holder = holder.or(code.holder);
            }
            bits |= holder.or(innermost).unwrap_or(0);
            self.sites.set(site, bits);
        }
        Ok(())
    }

    fn code(&mut self, id: CodeId) -> Result<Code, SourceError> {
        if let Some(code) = self.codes.get(&id) {
            return Ok(code.clone());
        }
        let frames = self.names.frames(id)?;
        let started = self.started.as_ref();
        let on_holder = |field: Field| field == Field::Holder;
        let bits_of = |frame: &NamedFrame, of: &dyn Fn(Field) -> bool| {
            let tests = self.tests.iter().enumerate().filter(|(_, (field, _))| of(*field));
            tests.fold(0, |bits: TestBits, (index, (field, test))| {
                bits | TestBits::from(holds_frame(*field, test, frame, started)) << index
            })
        };
        let code = Code {
            bits: frames.iter().fold(0, |bits, frame| bits | bits_of(frame, &|field| !on_holder(field))),
            innermost: frames.first().map_or(0, |frame| bits_of(frame, &on_holder)),
            holder: frames.iter().find(|frame| self.holders.holds(frame)).map(|frame| bits_of(frame, &on_holder)),
        };
        self.codes.insert(id, code.clone());
        Ok(code)
    }
}

/// Whether a frame is what a test asks for.
pub(crate) fn holds_frame(field: Field, test: &TextTest, frame: &NamedFrame, started: Option<&Started>) -> bool {
    match field {
        Field::Function | Field::Holder => {
            let readable = frame.function.as_deref();
            readable.is_some_and(|name| test.holds(name))
                || frame.raw_name.as_deref().is_some_and(|name| test.holds(name))
                || matches!(test, TextTest::OneOf(_))
                    && readable.is_some_and(|name| test.holds(without_parameters(name)))
        }
        Field::Module => frame.module.as_deref().is_some_and(|path| {
            of_path(test, path)
                || started.is_some_and(|started| {
                    *started.module == *path && (of_path(test, &started.name) || of_path(test, &started.file))
                })
        }),
        Field::File => frame.file.as_deref().is_some_and(|path| {
            let place = || frame.line.is_some_and(|line| of_path(test, &format!("{path}:{line}")));
            of_path(test, path) || matches!(test, TextTest::OneOf(_)) && place()
        }),
        _ => false,
    }
}

/// A path, any end of it, such as its last part, or a pattern in it.
pub(crate) fn of_path(test: &TextTest, path: &str) -> bool {
    match test {
        TextTest::OneOf(_) => {
            test.holds(path)
                || path.match_indices('/').any(|(at, _)| test.holds(path.get(at + 1..).unwrap_or_default()))
        }
        _ => test.holds(path),
    }
}

/// `worker2(int) const` without what it is called with: `worker2`.
pub(crate) fn without_parameters(name: &str) -> &str {
    // `operator()(int)` has parentheses of its own, and so has `(anonymous namespace)::f`.
    let from = name.find("operator()").map_or(0, |at| at + "operator()".len());
    let open = name.get(from..).unwrap_or_default().match_indices('(').map(|(at, _)| from + at);
    let open = open.into_iter().find(|at| *at > 0 && !name[*at..].starts_with("(anonymous namespace)"));
    open.map_or(name, |at| &name[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_left_out() {
        for (name, is) in [
            ("worker2(int)", "worker2"),
            ("main", "main"),
            ("(anonymous namespace)::f(char const*)", "(anonymous namespace)::f"),
            ("a::(anonymous namespace)::f(char)", "a::(anonymous namespace)::f"),
            ("S::operator()(int) const", "S::operator()"),
            ("", ""),
        ] {
            assert_eq!(without_parameters(name), is);
        }
    }

    #[test]
    fn the_end_of_a_path_is_enough() {
        let test = TextTest::OneOf(["src/parse.c".to_owned(), "jq.c:7".to_owned()].into());
        assert!(of_path(&test, "/home/me/src/parse.c") && of_path(&test, "src/parse.c") && of_path(&test, "x/jq.c:7"));
        assert!(!of_path(&test, "/home/me/other/parse.c") && !of_path(&test, "xsrc/parse.c"));
    }
}
