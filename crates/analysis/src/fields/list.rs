//! The list itself: a row for each field, with all that is to be known of it. A field that is reckoned from what is there is
//! added by a row, and nothing else.

use heapledger_format::LabelId;
use heapledger_format::record::Options;

use super::{FieldRow, LabelKey, Need, Unit, row};
use crate::query::Subject;

const ADDRESS: &[Need] = &[(Options::ADDRESS, "addresses", None)];
const ACTUAL: &[Need] = &[(Options::ACTUAL_SIZE, "actual sizes", Some("actual"))];
const TIME: &[Need] = &[(Options::TIME, "times", Some("time"))];
const LIFETIME: &[Need] = &[TIME[0], (Options::HISTORY, "history", Some("history"))];
const THREAD: &[Need] = &[(Options::THREAD, "threads", Some("thread"))];
const HEAP: &[Need] = &[(Options::HEAP, "heaps", Some("heap"))];
const ACCOUNT: &[Need] = &[THREAD[0], HEAP[0]];
const CORE: &[Need] = &[(Options::CORE, "processor cores", None)];
const CYCLES: &[Need] = &[(Options::CYCLES, "counters of processor cores", None)];
const STACK: &[Need] = &[(Options::STACK, "call stacks", Some("stack"))];

/// Makes the fields and their rows of one list: what a field is, its name, how its figure is read of a subject, and its row.
macro_rules! fields {
    ($($(#[$doc:meta])* $field:ident, |$subject:ident| $figure:expr, $row:expr;)*) => {
        /// What can be asked of a block or an event. In conditions, functions, files and modules are those of any frame; in
        /// columns and groups, those of the function that holds the block.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Field {
            $($(#[$doc])* $field,)*
            /// What stands behind one key of the block's label.
            LabelOf(LabelKey),
        }

        /// Where the rows stand.
        enum Place { $($field),* }

        /// The rows, in the order of the fields.
        pub(super) const ROWS: &[(Field, FieldRow)] = &[$((Field::$field, $row)),*];

        impl Field {
            /// Where its row stands.
            pub(super) fn index(self) -> usize {
                match self {
                    $(Field::$field => Place::$field as usize,)*
                    Field::LabelOf(_) => Place::Label as usize,
                }
            }

            /// Its figure, as its unit says; `None` if it has none, or it is not known. What a record stands for is known to
            /// who knows how it was chosen.
            #[inline]
            pub fn figure(self, subject: &Subject<'_>) -> Option<u64> {
                match self {
                    $(Field::$field => { let $subject = subject; $figure })*
                    Field::LabelOf(_) => Field::Label.figure(subject),
                }
            }
        }
    };
}

fields! {
    /// What the allocation function returned.
    Address, |asked| Some(asked.block().address).filter(|address| *address != 0),
        row(&["addr", "address", "ptr"], Unit::Address, ADDRESS)
            .condition(4, "`0x7f12…`", "what the allocation function returned")
            .event(7)
            .column()
            .least_first()
            .letter('p', "address")
            .conversion(1, 'p', "address")
            .json([1, 3], "address", "what the function returned");
    /// Bytes asked for.
    Size, |asked| asked.block().size,
        row(&["size"], Unit::Bytes, &[])
            .condition(1, "`4096` `4K` `1.5M` `2GiB` `0x1000`", "bytes asked for; units are powers of 1024")
            .event(8)
            .column()
            .greatest_first()
            .letter('n', "size")
            .grouped(6, &["size"], "of", "size asked for")
            .conversion(2, 'n', "bytes asked for")
            .json([2, 4], "size", "bytes asked for");
    /// Bytes that the block really has.
    Actual, |asked| asked.block().actual,
        row(&["actual"], Unit::Bytes, ACTUAL)
            .condition(2, "the same", "bytes that the block really has")
            .event(9)
            .column()
            .greatest_first()
            .conversion(3, 'm', "bytes that the block has")
            .json([3, 5], "actual", "bytes that the block has");
    /// Actual bytes less those asked for.
    Overhead, |asked| Some(asked.block().actual?.saturating_sub(asked.block().size?)),
        row(&["overhead"], Unit::Bytes, ACTUAL)
            .condition(3, "the same", "those less `size`")
            .event(10)
            .column()
            .greatest_first()
            .conversion(4, 'o', "the difference");
    /// Sequence number, from 0.
    Number, |asked| Some(asked.number()),
        row(&["number", "seq", "seqno"], Unit::Number, &[])
            .condition(5, "`17`", "place in the order of all events, from 0")
            .event(2)
            .column()
            .least_first()
            .letter('s', "sequence number")
            .conversion(5, 's', "sequence number")
            .json([6, 7], "number", "its place in the order of all events, from 0")
            .ends(["alloc_number", "free_number"]);
    /// Time since the ledger began.
    Time, |asked| asked.time().map(|time| time.0),
        row(&["time"], Unit::Time, TIME)
            .condition(6, "`10s` `250ms` `2h`", "since the ledger began; units `ns us ms s m h d`, and `ticks` of the ledger's clock")
            .event(3)
            .column()
            .least_first()
            .conversion(7, 'T', "time, in ticks")
            .json([7, 8], "time_ns", "when")
            .ends(["alloc_time", "free_time"]);
    /// How long ago.
    Age, |asked| asked.time().map(|time| time.0),
        row(&["age"], Unit::Age, TIME)
            .condition(7, "the same", "how long ago, counted to now if the program runs, else to the end of the recording")
            .event(4)
            .column()
            .greatest_first()
            .json([8, 0], "age_ns", "how long ago")
            .own();
    /// How long the block lived.
    Lifetime, |asked| asked.lifetime().map(|span| span.0),
        row(&["lifetime"], Unit::Span, LIFETIME)
            .condition(8, "the same", "history only: how long the block lived, where its free is known")
            .event(19);
    /// The thread: its row or its name.
    Thread, |asked| asked.thread().map(|row| u64::from(row.0)),
        row(&["thread"], Unit::Thread, THREAD)
            .condition(9, "`3`, `\"worker-3\"`", "row of the thread (as `stats` lists them), or its name; see below")
            .event(5)
            .column()
            .least_first()
            .letter('t', "thread")
            .grouped(5, &["thread"], "by thread", "thread")
            .watched(3, "thread", "The thread that allocated")
            .conversion(9, 't', "thread, as in `stats`")
            .json([9, 9], "thread", "`row`, `id`, `name`; null if not recorded")
            .ends(["alloc_thread", "free_thread"]);
    /// The function of the malloc family.
    Kind, |asked| Some(u64::from(asked.kind().0)),
        row(&["kind", "by"], Unit::Kind, &[])
            .condition(10, "`malloc` `calloc` `new[]` `\"new(nothrow)\"` …", "the function of the malloc family")
            .event(6)
            .column()
            .least_first()
            .small_letter('a', "function")
            .grouped(7, &["kind"], "by", "function of the malloc family")
            .watched(6, "kind", "The allocation function")
            .conversion(6, 'a', "function, as malloc()")
            .json([5, 2], "function", "the allocation function: `malloc`, `new[]`, …")
            .ends(["alloc_kind", "free_kind"]);
    /// The heap: its row or its name.
    Heap, |asked| asked.block().heap.map(u64::from),
        row(&["heap"], Unit::Heap, HEAP)
            .condition(11, "`0`, `\"main\"`", "row of the heap, or its name")
            .event(11)
            .column()
            .least_first()
            .grouped(8, &["heap"], "in heap", "heap")
            .json([10, 10], "heap", "the heap's name");
    /// The processor core.
    Core, |asked| asked.core().map(u64::from),
        row(&["core", "cpu"], Unit::Number, CORE)
            .condition(24, "`0`", "the processor core; in ledgers of ESP-IDF's heap traces and of SystemView")
            .event(24)
            .column()
            .least_first()
            .grouped(14, &["core", "cpu"], "on core", "processor core")
            .json([15, 15], "core", "in ledgers with processor cores only: the core")
            .ends(["alloc_core", "free_core"]);
    /// The counter of that core.
    Cycles, |asked| asked.cycles().map(u64::from),
        row(&["cycles"], Unit::Number, CYCLES)
            .condition(25, "`439462020`", "what that core's counter said at the allocation; in ledgers of ESP-IDF's heap traces")
            .event(25)
            .column()
            .least_first()
            .json([16, 16], "cycles", "in ledgers with them only: what that core's counter said at the allocation; it wraps, and each core has its own")
            .own();
    /// Number of the call site.
    Site, |asked| Some(u64::from(asked.site().0)),
        row(&["site"], Unit::Number, STACK)
            .condition(12, "`17`", "number of the call stack in this ledger")
            .event(13)
            .column()
            .least_first()
            .json([11, 11], "site", "the stack's number in this ledger: equal numbers, equal stacks")
            .own();
    /// For how many blocks it stands.
    Weight, |_asked| None,
        row(&["weight"], Unit::Weight, &[])
            .event(12)
            .column()
            .conversion(8, 'W', "blocks that it stands for")
            .json([4, 6], "weight", "in sampled ledgers only: for how many blocks of its size it stands");
    /// A function.
    Function, |_asked| None,
        row(&["fn", "function", "func"], Unit::Function, STACK)
            .condition(13, "a name", "the function of any frame of the stack, inlined ones too")
            .event(14)
            .column_called(&["fn", "function", "func", "holder"])
            .ends(["alloc_fn", "free_fn"])
            .grouped(1, &["fn", "function", "func", "holder"], "held by", "function that holds them")
            .watched(1, "function", "The function that holds the block");
    /// The function that holds the block: the innermost that is no wrapper of an allocation function.
    Holder, |_asked| None,
        row(&["holder"], Unit::Function, STACK)
            .condition(14, "a name", "the function that holds the block, see below");
    /// A source file, perhaps with a line.
    File, |_asked| None,
        row(&["file"], Unit::File, STACK)
            .condition(15, "`\"parse.c\"` `\"src/parse.c\"` `\"parse.c:120\"`", "the source file of any frame, perhaps with the line")
            .event(15)
            .column()
            .ends(["alloc_file", "free_file"])
            .grouped(2, &["file"], "in", "source file of that function")
            .watched(4, "file", "The source file");
    /// A module.
    Module, |_asked| None,
        row(&["module", "lib"], Unit::Module, STACK)
            .condition(16, "`\"libc.so.6\"`", "the program or library of any frame")
            .event(16)
            .column()
            .grouped(3, &["module", "lib"], "from", "module of that function")
            .watched(5, "module", "The program or library");
    /// All functions of the stack.
    Stack, |_asked| None,
        row(&["stack"], Unit::Stack, STACK)
            .event(17)
            .column()
            .ends(["alloc_stack", "free_stack"])
            .grouped(4, &["stack", "site"], "", "call stack, which is written below the figures of each group")
            .watched(2, "stack", "The call stack");
    /// Whether no frame of the stack was guessed.
    Exact, |_asked| None,
        row(&["exact"], Unit::YesNo, STACK)
            .condition(17, "`yes`, `no`, or nothing", "whether no frame of the stack was guessed: found along frame pointers, for want of unwind tables");
    /// Whether the block is freed by now.
    Freed, |asked| Some(u64::from(asked.is_freed())),
        row(&["freed"], Unit::YesNo, &[])
            .condition(18, "`yes`, `no`, or nothing", "history only: whether the block is freed by now")
            .event(18);
    /// `allocation` or `free`.
    Event, |asked| Some(u64::from(asked.is_free())),
        row(&["event"], Unit::Event, &[])
            .condition(19, "`allocation`, `free`", "history only: which of the two it is")
            .event(1)
            .grouped(9, &["event"], "", "kind of event: allocation or free")
            .json([0, 1], "event", "`allocation` or `free`");
    /// The last mark before it.
    Mark, |_asked| None,
        row(&["mark"], Unit::Mark, &[])
            .condition(20, "a name", "the last mark that the program set before it")
            .event(21)
            .column()
            .least_first()
            .grouped(11, &["mark"], "after", "last mark before them")
            .conversion(11, 'M', "the last mark before it")
            .json([13, 13], "mark", "in ledgers with marks only: the last that the program set before, or null");
    /// A mark before it.
    Since, |_asked| None,
        row(&["since"], Unit::Mark, &[])
            .condition(21, "a name", "a mark that was set before it; where several have the name, the last of them");
    /// A window that was open.
    Window, |_asked| None,
        row(&["window"], Unit::Window, &[])
            .condition(22, "a name", "a window of the program that was open and not paused then, since it was started for the last time")
            .event(22)
            .column()
            .least_first()
            .grouped(12, &["window"], "in", "windows that were open")
            .json([14, 14], "window", "in ledgers with windows only: the names of those that were open");
    /// The label: all pairs of key and value that were in force.
    Label, |asked| Some(asked.block().label).filter(|label| *label != LabelId::NONE).map(|label| u64::from(label.0)),
        row(&["label"], Unit::Label, &[])
            .condition(23, "`\"route=/x\"`", "a pair of the block's label, or all of them; `label.route` is compared with what stands behind a key")
            .event(20)
            .column()
            .least_first()
            .grouped(10, &["label"], "labelled", "label; with `label.route`, the same value of that key")
            .conversion(10, 'L', "label")
            .json([12, 12], "label", "in ledgers with labels only: an object with the block's keys and values, `{}` if it has none, null if it is not known which");
    /// Whose share of which heap it is.
    Account, |asked| asked.account(),
        row(&["account"], Unit::Account, ACCOUNT)
            .event(23)
            .column()
            .grouped(13, &["account"], "on the account of", "account: thread that allocated, and heap");
}

/// The row of what stands behind a key of labels. Its name is the key's.
pub(super) static LABEL_OF: FieldRow =
    row(&[], Unit::Label, &[]).condition(0, "", "").event(1).column().least_first().grouped(0, &[], "labelled", "");
