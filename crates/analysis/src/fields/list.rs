//! The list itself: a row for each field, with all that is to be known of it. A field that is reckoned from what is there is
//! added by a row, and nothing else.

use heapledger_format::record::Options;

use super::{FieldRow, Need, Unit, row};
use crate::query::Subject;

const ACTUAL: &[Need] = &[(Options::ACTUAL_SIZE, "actual sizes", Some("actual"))];
const TIME: &[Need] = &[(Options::TIME, "times", Some("time"))];
const LIFETIME: &[Need] = &[TIME[0], (Options::HISTORY, "history", Some("history"))];
const THREAD: &[Need] = &[(Options::THREAD, "threads", Some("thread"))];
const HEAP: &[Need] = &[(Options::HEAP, "heaps", Some("heap"))];
const STACK: &[Need] = &[(Options::STACK, "call stacks", Some("stack"))];

/// Makes the fields and their rows of one list: what a field is, its name, how its figure is read of a subject, and its row.
macro_rules! fields {
    ($($(#[$doc:meta])* $field:ident, |$subject:ident| $figure:expr, $row:expr;)*) => {
        /// What can be asked of a block or an event. In conditions, functions, files and modules are those of any frame; in
        /// columns and groups, those of the function that holds the block.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Field { $($(#[$doc])* $field),* }

        /// The rows, in the order of the fields.
        pub(super) const ROWS: &[(Field, FieldRow)] = &[$((Field::$field, $row)),*];

        impl Field {
            /// Its figure, as its unit says; `None` if it has none, or it is not known. What a record stands for is known to
            /// who knows how it was chosen.
            #[inline]
            pub fn figure(self, subject: &Subject<'_>) -> Option<u64> {
                match self { $(Field::$field => { let $subject = subject; $figure })* }
            }
        }
    };
}

fields! {
    /// What the allocation function returned.
    Address, |asked| Some(asked.block().address),
        row(&["addr", "address", "ptr"], Unit::Address, &[]).condition(4).event(7).column().least_first().letter('p')
            .conversion('p').json("address", [1, 3]);
    /// Bytes asked for.
    Size, |asked| asked.block().size,
        row(&["size"], Unit::Bytes, &[]).condition(1).event(8).column().greatest_first().letter('n')
            .grouped(6, &["size"], "of").conversion('n').json("size", [2, 4]);
    /// Bytes that the block really has.
    Actual, |asked| asked.block().actual,
        row(&["actual"], Unit::Bytes, ACTUAL).condition(2).event(9).column().greatest_first()
            .conversion('m').json("actual", [3, 5]);
    /// Actual bytes less those asked for.
    Overhead, |asked| Some(asked.block().actual?.saturating_sub(asked.block().size?)),
        row(&["overhead"], Unit::Bytes, ACTUAL).condition(3).event(10).column().greatest_first()
            .conversion('o');
    /// Sequence number, from 0.
    Number, |asked| Some(asked.number()),
        row(&["number", "seq", "seqno"], Unit::Number, &[]).condition(5).event(2).column().least_first().letter('s')
            .conversion('s').json("number", [6, 7]).ends(["alloc_number", "free_number"]);
    /// Time since the ledger began.
    Time, |asked| asked.ticks(),
        row(&["time"], Unit::Time, TIME).condition(6).event(3).column().least_first()
            .conversion('T').json("time_ns", [7, 8]).ends(["alloc_time", "free_time"]);
    /// How long ago.
    Age, |asked| asked.ticks(),
        row(&["age"], Unit::Age, TIME).condition(7).event(4).column().greatest_first()
            .json("age_ns", [8, 0]).own();
    /// How long the block lived.
    Lifetime, |asked| asked.lifetime_ticks(),
        row(&["lifetime"], Unit::Span, LIFETIME).condition(8).event(19);
    /// The thread: its row or its name.
    Thread, |asked| asked.thread().map(u64::from),
        row(&["thread"], Unit::Thread, THREAD).condition(9).event(5).column().least_first().letter('t')
            .grouped(5, &["thread"], "by thread").conversion('t').json("thread", [9, 9]).ends(["alloc_thread", "free_thread"]);
    /// The function of the malloc family.
    Kind, |asked| Some(u64::from(asked.kind().0)),
        row(&["kind", "by"], Unit::Kind, &[]).condition(10).event(6).column().least_first().small_letter('a')
            .grouped(7, &["kind"], "by").conversion('a').json("function", [5, 2]).ends(["alloc_kind", "free_kind"]);
    /// The heap: its row or its name.
    Heap, |asked| asked.block().heap.map(u64::from),
        row(&["heap"], Unit::Heap, HEAP).condition(11).event(11).column().least_first()
            .grouped(8, &["heap"], "in heap").json("heap", [10, 10]);
    /// Number of the call site.
    Site, |asked| Some(u64::from(asked.site())),
        row(&["site"], Unit::Number, STACK).condition(12).event(13).column().least_first()
            .json("site", [11, 11]).own();
    /// For how many blocks it stands.
    Weight, |_asked| None,
        row(&["weight"], Unit::Weight, &[]).event(12).column()
            .conversion('W').json("weight", [4, 6]);
    /// A function.
    Function, |_asked| None,
        row(&["fn", "function", "func"], Unit::Function, STACK).condition(13).event(14)
            .column_called(&["fn", "function", "func", "holder"]).ends(["alloc_fn", "free_fn"])
            .grouped(1, &["fn", "function", "func", "holder"], "held by");
    /// The function that holds the block: the innermost that is no wrapper of an allocation function.
    Holder, |_asked| None,
        row(&["holder"], Unit::Function, STACK).condition(14);
    /// A source file, perhaps with a line.
    File, |_asked| None,
        row(&["file"], Unit::File, STACK).condition(15).event(15).column().ends(["alloc_file", "free_file"])
            .grouped(2, &["file"], "in");
    /// A module.
    Module, |_asked| None,
        row(&["module", "lib"], Unit::Module, STACK).condition(16).event(16).column()
            .grouped(3, &["module", "lib"], "from");
    /// All functions of the stack.
    Stack, |_asked| None,
        row(&["stack"], Unit::Stack, STACK).event(17).column().ends(["alloc_stack", "free_stack"])
            .grouped(4, &["stack", "site"], "");
    /// Whether no frame of the stack was guessed.
    Exact, |_asked| None,
        row(&["exact"], Unit::YesNo, STACK).condition(17);
    /// Whether the block is freed by now.
    Freed, |asked| Some(u64::from(asked.is_freed())),
        row(&["freed"], Unit::YesNo, &[]).condition(18).event(18);
    /// `allocation` or `free`.
    Event, |asked| Some(u64::from(asked.is_free())),
        row(&["event"], Unit::Event, &[]).condition(19).event(1).grouped(9, &["event"], "").json("event", [0, 1]);
}
