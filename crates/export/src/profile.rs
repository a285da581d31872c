//! What every format is made from: stacks that share their outer frames, and what each of them holds.

use std::collections::HashMap;
use std::sync::Arc;

use heapledger_analysis::tree::{Amounts, Side};
use heapledger_report::clean;

use crate::about::ProfileAbout;

/// A text by its number in [`Texts`]; 0 is the empty one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextId(pub u32);

/// Texts, each kept once.
#[derive(Clone, Debug)]
pub struct Texts {
    all: Vec<Arc<str>>,
    known: HashMap<Arc<str>, u32>,
}

impl Default for Texts {
    fn default() -> Texts {
        let empty: Arc<str> = Arc::from("");
        Texts { all: vec![Arc::clone(&empty)], known: HashMap::from([(empty, 0)]) }
    }
}

impl Texts {
    /// The number of a text. What could steer a terminal, or part lines, is written out: it comes from programs, and viewers print it.
    pub fn id(&mut self, text: &str) -> TextId {
        if let Some(id) = self.known.get(text) {
            return TextId(*id);
        }
        let text = clean(text);
        if let Some(id) = self.known.get(&*text) {
            return TextId(*id);
        }
        let (id, text) = (self.all.len() as u32, Arc::<str>::from(text));
        self.all.push(Arc::clone(&text));
        self.known.insert(text, id);
        TextId(id)
    }

    /// The text of a number.
    pub fn get(&self, id: TextId) -> &str {
        self.all.get(id.0 as usize).map_or("", |text| text)
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|text| &**text)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }
}

/// A file that code was loaded from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadedModule {
    /// Its path.
    pub path: TextId,
    /// Its build id in hexadecimal digits; empty if it has none.
    pub build_id: TextId,
    /// First mapped address.
    pub low: u64,
    /// One past the last mapped address.
    pub high: u64,
    /// What is added to addresses of the file.
    pub bias: u64,
}

/// A function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProfileFunction {
    /// What it is called, or what stands for a name: `module+0x1234`.
    pub name: TextId,
    /// Its name as the linker knows it; the empty text if that is not known.
    pub raw_name: TextId,
    /// Its source file; the empty text if that is not known.
    pub file: TextId,
    /// The module, by its number and 1; 0 if its code belongs to none.
    pub module_plus_1: u32,
}

/// A function at an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PlaceLine {
    /// Index into [`Profile::functions`].
    pub function: u32,
    /// The line of its file; 0 if that is not known.
    pub line: u32,
}

/// An address in the code: where a call was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CodePlace {
    /// Within the instruction that called, as it was in the program that ran; `None` if the ledger does not say.
    pub address: Option<u64>,
    /// The module, by its number and 1; 0 if the code belongs to none.
    pub module_plus_1: u32,
    /// The functions, innermost first: each but the last was inlined into the next. Never empty.
    pub lines: Vec<PlaceLine>,
    /// Whether the names are those of functions; else they stand for addresses.
    pub is_named: bool,
}

/// A place as called from its parent's. Node 0 is the root and has no place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StackNode {
    /// The node of the caller; smaller than this one's.
    pub parent: u32,
    /// Index into [`Profile::places`].
    pub place: u32,
}

/// What one stack holds, of one thread if threads are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackSum {
    /// Its innermost node.
    pub node: u32,
    /// The thread that allocated; the empty text if threads are not told apart.
    pub thread: TextId,
    /// What it holds, by [`Side`].
    pub own: [Amounts; 2],
}

/// Blocks of one size of one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackBlocks {
    /// The innermost node of the stack.
    pub node: u32,
    /// Bytes of each.
    pub size: u64,
    /// How many there are.
    pub blocks: u64,
}

/// How much the program held at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimePoint {
    /// Nanoseconds since the ledger began.
    pub ns: u64,
    /// Bytes of blocks that lived.
    pub live_bytes: u64,
    /// Anonymous memory of the process, present or swapped out, less what the recorder uses, as far as it is known: the most in the time since
    /// the point before.
    pub own_memory_bytes: Option<u64>,
}

/// Stacks with what they hold.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// What it is of.
    pub about: ProfileAbout,
    /// All texts.
    pub texts: Texts,
    /// Files that code was loaded from, the program's own first.
    pub modules: Vec<LoadedModule>,
    /// Functions.
    pub functions: Vec<ProfileFunction>,
    /// Code addresses.
    pub places: Vec<CodePlace>,
    /// Stacks; parents come before what they called.
    pub nodes: Vec<StackNode>,
    /// What they hold; no two are of one node and thread.
    pub stacks: Vec<StackSum>,
    /// The live blocks by size, where that was asked for and they are not too many.
    pub sizes: Option<Vec<StackBlocks>>,
    /// How much was held over the run, in order of time; as far as that is known.
    pub points: Vec<TimePoint>,
    known_functions: HashMap<ProfileFunction, u32>,
    known_places: HashMap<CodePlace, u32>,
    known_nodes: HashMap<StackNode, u32>,
    known_stacks: HashMap<(u32, TextId), u32>,
}

/// The number of a thing, which is entered if it is new.
fn entered<T: Clone + Eq + std::hash::Hash>(all: &mut Vec<T>, known: &mut HashMap<T, u32>, thing: T) -> u32 {
    let next = all.len() as u32;
    let number = *known.entry(thing.clone()).or_insert(next);
    if number == next {
        all.push(thing);
    }
    number
}

impl Profile {
    /// One without stacks.
    pub fn new(about: ProfileAbout) -> Profile {
        Profile { about, nodes: vec![StackNode::default()], ..Profile::default() }
    }

    /// The number of a function.
    pub fn function(&mut self, function: ProfileFunction) -> u32 {
        entered(&mut self.functions, &mut self.known_functions, function)
    }

    /// The number of a place; of the same code there is one.
    pub fn place(&mut self, place: CodePlace) -> u32 {
        entered(&mut self.places, &mut self.known_places, place)
    }

    /// The node of a place that was called from `parent`.
    pub fn node(&mut self, parent: u32, place: u32) -> u32 {
        entered(&mut self.nodes, &mut self.known_nodes, StackNode { parent, place })
    }

    /// Adds what a stack holds.
    pub fn add(&mut self, node: u32, thread: TextId, side: Side, amounts: Amounts) {
        let next = self.stacks.len() as u32;
        let at = *self.known_stacks.entry((node, thread)).or_insert(next);
        if at == next {
            self.stacks.push(StackSum { node, thread, own: Default::default() });
        }
        if let Some(stack) = self.stacks.get_mut(at as usize) {
            stack.own[side as usize] += amounts;
        }
    }

    /// What all stacks hold together.
    pub fn total(&self, side: Side) -> Amounts {
        let mut total = Amounts::default();
        self.stacks.iter().for_each(|stack| total += stack.own[side as usize]);
        total
    }

    /// The places of a stack, innermost first.
    pub fn path(&self, node: u32) -> impl Iterator<Item = u32> {
        let mut at = node;
        std::iter::from_fn(move || {
            let node = self.nodes.get(at as usize).filter(|_| at != 0)?;
            at = node.parent;
            Some(node.place)
        })
    }

    /// What a function is called.
    pub(crate) fn name(&self, function: u32) -> &str {
        self.texts.get(self.functions[function as usize].name)
    }

    /// The module of a number and 1.
    pub(crate) fn module(&self, number_plus_1: u32) -> Option<&LoadedModule> {
        self.modules.get(number_plus_1.checked_sub(1)? as usize)
    }
}
