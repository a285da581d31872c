//! What is left of a stack when it is compared across runs and across builds.
//!
//! Addresses move with every start, lines with every edit. Compilers divide a function (`foo.part.0`, `foo.cold`) and
//! make special ones of it (`foo.constprop.0`, `foo.isra.0`); linkers rename (`foo.lto_priv.0`, `foo.llvm.123`). So a
//! stack is the names of its functions without all of that, inlined ones among them: whether a call was inlined is the
//! compiler's business as well. Code without a name is known by its module, and by its place in it if both runs had the
//! very same module, told by its build id or, if neither has one, by its path and size. Ledgers without modules are those
//! of chips, where code does not move: there its address is enough.
//!
//! Operators `new` at the inner end are left out: where blocks are sampled, or a runtime is linked in, they are recorded as the `malloc` that they
//! call, and stand on the stack; else they are who was called, and do not.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use heapledger_source::Module;

use crate::{NamedFrame, NamedStack};

/// A stack without what changes from run to run. Equal keys of one [`StackKeys`], equal stacks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackKey(Box<[u32]>);

/// Makes keys of the stacks of two ledgers.
#[derive(Debug, Default)]
pub struct StackKeys {
    words: HashMap<Arc<str>, u32>,
    /// Modules, by path, that are the same in both ledgers.
    same: BTreeSet<Box<str>>,
    /// Whether code lies at the same addresses in both.
    stays: bool,
}

impl StackKeys {
    /// For ledgers with these modules.
    pub fn new(a: &[Module], b: &[Module]) -> StackKeys {
        let ids = |modules: &[Module]| -> BTreeMap<String, (Vec<u8>, u64)> {
            // What has a build id needs no size.
            let bytes = |module: &Module| match module.build_id.as_slice() {
                [] => module.high.saturating_sub(module.low),
                _ => 0,
            };
            let path = |module: &Module| module.path.to_string_lossy().into_owned();
            modules.iter().map(|module| (path(module), (module.build_id.clone(), bytes(module)))).collect()
        };
        let stays = a.is_empty() && b.is_empty();
        let (a, b) = (ids(a), ids(b));
        let same = a.into_iter().filter(|(path, id)| b.get(path) == Some(id)).map(|(path, _)| path.into()).collect();
        StackKeys { words: HashMap::new(), same, stays }
    }

    /// The key of a stack.
    pub fn key(&mut self, stack: &NamedStack) -> StackKey {
        let mut words = Vec::with_capacity(stack.frames.len());
        let mut part_of = None;
        for frame in behind_operators(&stack.frames) {
            let (word, is_part) = self.word(frame);
            // A part of a function that the function itself has called is the function.
            if part_of.take() == Some(word) {
                words.pop();
            }
            words.push(word);
            part_of = is_part.then_some(word);
        }
        StackKey(words.into())
    }

    fn word(&mut self, frame: &NamedFrame) -> (u32, bool) {
        match (&frame.function, &frame.module) {
            (Some(function), _) => {
                let (name, is_part) = normal(function);
                (self.number(name), is_part)
            }
            (None, Some(module)) => {
                let name = module.rsplit('/').next().unwrap_or(module);
                let text = match frame.offset.filter(|_| self.stays || self.same.contains(module.as_ref())) {
                    Some(offset) => format!("{name}+{offset:#x}"),
                    None => format!("in {name}"),
                };
                (self.number(&text), false)
            }
            (None, None) => {
                let text =
                    frame.address.filter(|_| self.stays).map_or("?".to_owned(), |address| format!("{address:#x}"));
                (self.number(&text), false)
            }
        }
    }

    fn number(&mut self, word: &str) -> u32 {
        if let Some(number) = self.words.get(word) {
            return *number;
        }
        let number = u32::try_from(self.words.len()).unwrap_or(u32::MAX);
        self.words.insert(Arc::from(word), number);
        number
    }
}

/// The frames of a stack from the caller of `operator new` on; all of them if there is no caller.
fn behind_operators(frames: &[NamedFrame]) -> &[NamedFrame] {
    let is_operator = |frame: &NamedFrame| frame.function.as_deref().is_some_and(is_operator_new);
    let caller = frames.iter().position(|frame| !is_operator(frame)).unwrap_or(0);
    frames.get(caller..).unwrap_or(frames)
}

/// Whether that is one of the operators that the runtime of C++ has: `operator new[](unsigned long, std::align_val_t)`.
fn is_operator_new(name: &str) -> bool {
    let behind = name.strip_prefix("operator new").map(|rest| rest.strip_prefix("[]").unwrap_or(rest));
    behind.is_some_and(|rest| rest.is_empty() || rest.starts_with('('))
}

/// What compilers and linkers put behind a name, between dots; numbers may follow.
const MARKS: &[&str] = &[
    "constprop",
    "isra",
    "part",
    "cold",
    "lto_priv",
    "llvm",
    "localalias",
    "clone",
    "specialized",
    "warm",
    "hot",
    "unlikely",
];

/// A function's name without what its compiler put behind it.
pub fn plain_name(name: &str) -> &str {
    normal(name).0
}

/// The same, and whether it is a part of a function only.
fn normal(name: &str) -> (&str, bool) {
    let mut rest = name;
    let mut is_part = false;
    // `foo(int) [clone .cold]`, as demanglers write it.
    while let Some((before, clone)) = rest.strip_suffix(']').and_then(|text| text.rsplit_once(" [clone ")) {
        is_part |= clone.contains(".part") || clone.contains(".cold");
        rest = before;
    }
    // `memcpy@@GLIBC_2.14`.
    if let Some(at) = rest.find('@').filter(|at| *at > 0 && !rest.contains(['(', '<', ' '])) {
        rest = rest.get(..at).unwrap_or(rest);
    }
    // `core::ptr::drop::h0123456789abcdef`.
    if let Some((before, hash)) = rest.rsplit_once("::h")
        && hash.len() == 16
        && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        rest = before;
    }
    // `foo.part.0`, `foo.constprop.0.cold`, `local.1234`; not the dots of `f(int, ...)`.
    while let Some((before, last)) = rest.rsplit_once('.').filter(|(before, last)| !before.is_empty() && is_mark(last))
    {
        is_part |= matches!(last, "part" | "cold");
        rest = before;
    }
    (rest, is_part)
}

fn is_mark(word: &str) -> bool {
    MARKS.contains(&word) || !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_what_compilers_put_behind_them() {
        for (name, plain, is_part) in [
            ("foo", "foo", false),
            ("foo.part.0", "foo", true),
            ("foo.constprop.0", "foo", false),
            ("foo.constprop.0.cold", "foo", true),
            ("foo.cold.7", "foo", true),
            ("foo.isra.0.lto_priv.12", "foo", false),
            ("helper.1234", "helper", false),
            ("foo.llvm.8419281902", "foo", false),
            ("a::b(int) [clone .cold]", "a::b(int)", true),
            ("a::b(int) [clone .isra.0] [clone .part.1]", "a::b(int)", true),
            ("core::ptr::drop::h0123456789abcdef", "core::ptr::drop", false),
            ("core::ptr::drop::hello", "core::ptr::drop::hello", false),
            ("memcpy@@GLIBC_2.14", "memcpy", false),
            ("f(int, ...)", "f(int, ...)", false),
            ("log.debug", "log.debug", false),
            (".cold", ".cold", false),
            ("", "", false),
        ] {
            assert_eq!(normal(name), (plain, is_part), "{name}");
        }
    }

    fn frame(function: &str) -> NamedFrame {
        NamedFrame { function: Some(function.into()), ..NamedFrame::default() }
    }

    fn stack(functions: &[&str]) -> NamedStack {
        NamedStack { frames: functions.iter().map(|name| frame(name)).collect(), damaged: false }
    }

    #[test]
    fn stacks_are_their_functions() {
        let mut keys = StackKeys::default();
        let mut key = |functions: &[&str]| keys.key(&stack(functions));
        let plain = key(&["xmalloc", "table", "main"]);
        assert_eq!(key(&["xmalloc.constprop.0", "table.part.0", "table", "main.cold", "main"]), plain);
        assert_eq!(key(&["xmalloc", "table.isra.0", "main"]), plain);
        assert_ne!(key(&["xmalloc", "main"]), plain);
        assert_ne!(key(&["table", "xmalloc", "main"]), plain);
        // Recorded as the operator, or as the `malloc` that it calls.
        assert_eq!(key(&["operator new(unsigned long)", "xmalloc", "table", "main"]), plain);
        let aligned = "operator new[](unsigned long, std::align_val_t)";
        assert_eq!(key(&["operator new(unsigned long, std::align_val_t)", aligned, "xmalloc", "table", "main"]), plain);
        assert_ne!(key(&["Pool::operator new(unsigned long)", "xmalloc", "table", "main"]), plain);
        assert_ne!(key(&["xmalloc", "operator new(unsigned long)", "table", "main"]), plain);
        assert_ne!(key(&["operator new(unsigned long)"]), key(&[]));
        // Real recursion stays.
        assert_ne!(key(&["xmalloc", "table", "table", "main"]), plain);
        assert_eq!(key(&[]), key(&[]));
    }

    #[test]
    fn code_without_a_name_is_known_by_its_place_only_in_the_same_file() {
        let module = |path: &str, id: &[u8]| Module {
            row: 0,
            path: path.into(),
            build_id: id.to_vec(),
            bias: 0,
            low: 0,
            high: 0,
            generation: 0,
        };
        let code = |path: &str, offset| NamedStack {
            frames: vec![NamedFrame { module: Some(path.into()), offset: Some(offset), ..NamedFrame::default() }],
            damaged: false,
        };
        let (a, b) =
            ([module("/x/a.so", b"1"), module("/x/b.so", b"1")], [module("/x/a.so", b"1"), module("/x/b.so", b"2")]);
        let mut keys = StackKeys::new(&a, &b);
        assert_ne!(keys.key(&code("/x/a.so", 1)), keys.key(&code("/x/a.so", 2)));
        assert_eq!(keys.key(&code("/x/b.so", 1)), keys.key(&code("/x/b.so", 2)));
        assert_ne!(keys.key(&code("/x/a.so", 1)), keys.key(&code("/x/b.so", 1)));
        // Without build ids path and size decide.
        let sized = |high| [Module { high, ..module("/x/c", b"") }];
        let mut keys = StackKeys::new(&sized(4096), &sized(4096));
        assert_ne!(keys.key(&code("/x/c", 1)), keys.key(&code("/x/c", 2)));
        let mut keys = StackKeys::new(&sized(4096), &sized(8192));
        assert_eq!(keys.key(&code("/x/c", 1)), keys.key(&code("/x/c", 2)));
    }

    #[test]
    fn code_of_chips_stays_where_it_is() {
        let at = |address| NamedStack {
            frames: vec![NamedFrame { address: Some(address), ..NamedFrame::default() }],
            damaged: false,
        };
        let mut keys = StackKeys::new(&[], &[]);
        assert_ne!(keys.key(&at(0x8000)), keys.key(&at(0x8004)));
        assert_eq!(keys.key(&at(0x8000)), keys.key(&at(0x8000)));
        // Code made at run time lies anywhere.
        let mut keys = StackKeys::default();
        assert_eq!(keys.key(&at(0x8000)), keys.key(&at(0x8004)));
    }
}
