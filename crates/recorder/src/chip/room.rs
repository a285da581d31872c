//! How much there is room for, and where it lies: numbers that the compiler knows, or that a program tells with which a ready-made library is
//! linked.

use super::plan::Plan;
use heapledger_format::SectionKind;
use heapledger_format::layout::mask;

/// How much a ledger has room for, and where its parts lie. Words are counted from the beginning of the region.
///
/// It follows from [`Shape::CONFIG`](super::Shape::CONFIG). A shape that is compiled before that is known has it from [`Shape::ROOM`](super::Shape::ROOM):
/// then parts follow each other in the order of these fields (records, history, call sites, tasks, heaps, names, process, counters, index), each from
/// a word of its own on, the first from [`first_word`](super::first_word) on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Room {
    /// Live blocks.
    pub records: u32,
    /// Entries of the history ring.
    pub history: u32,
    /// Its first word.
    pub history_at: u32,
    /// Nodes of the call-site trie.
    pub sites: u32,
    /// Those from node 1 on that are for any frame: fewer than there are. What is left is for innermost frames of stacks that found no room.
    pub places: u32,
    /// The trie's first word.
    pub sites_at: u32,
    /// Tasks.
    pub tasks: u32,
    /// Their first word.
    pub tasks_at: u32,
    /// Heaps.
    pub heaps: u32,
    /// Their first word.
    pub heaps_at: u32,
    /// Bytes of their names, one behind the other.
    pub names_bytes: u32,
    /// The first word of these.
    pub strings_at: u32,
    /// Bytes of what is known of the firmware.
    pub process_bytes: u32,
    /// The first word of these.
    pub process_at: u32,
    /// The first word of the counters that the header has not.
    pub counters_at: u32,
    /// Cells of the index: one for each record, and one for four, and one more, with which chains begin.
    pub cells: u32,
    /// Their first word.
    pub index_at: u32,
    /// Words of the whole region.
    pub words: u32,
    /// The bits that the clock has.
    pub clock_mask: u32,
    /// Nanoseconds of its tick; 0 if they have no known length.
    pub tick_ns: u32,
    /// Most frames of a stack.
    pub depth: u32,
    /// When so many records are in use for the first time, it is said that they are scarce; 0: never.
    pub warn_records: u32,
}

/// Of so many nodes, those that are for innermost frames alone.
const fn apart(sites: u32) -> u32 {
    let places = sites.saturating_sub(1);
    let (many, few) = (places / 18, places / 2);
    if many > 2 {
        many
    } else if few < 2 {
        few
    } else {
        2
    }
}

impl Room {
    /// That of a plan.
    pub(super) const fn of(plan: &Plan) -> Room {
        const fn at(plan: &Plan, kind: SectionKind) -> u32 {
            plan.section(kind).at as u32
        }
        const fn count(plan: &Plan, kind: SectionKind) -> u32 {
            plan.section(kind).count
        }
        let sites = count(plan, SectionKind::Sites);
        Room {
            records: count(plan, SectionKind::Records),
            history: count(plan, SectionKind::History),
            history_at: at(plan, SectionKind::History),
            sites,
            // Node 0 stands for no stack.
            places: sites.saturating_sub(1).saturating_sub(apart(sites)),
            sites_at: at(plan, SectionKind::Sites),
            tasks: count(plan, SectionKind::Threads),
            tasks_at: at(plan, SectionKind::Threads),
            heaps: count(plan, SectionKind::Heaps),
            heaps_at: at(plan, SectionKind::Heaps),
            names_bytes: count(plan, SectionKind::Strings),
            strings_at: at(plan, SectionKind::Strings),
            process_bytes: count(plan, SectionKind::Process),
            process_at: at(plan, SectionKind::Process),
            counters_at: at(plan, SectionKind::Counters),
            cells: plan.index.count,
            index_at: plan.index.at as u32,
            words: plan.words as u32,
            clock_mask: match plan.clock {
                Some(clock) => mask(clock.bits) as u32,
                None => 0,
            },
            tick_ns: match plan.clock {
                Some(clock) => clock.tick_ns,
                None => 0,
            },
            depth: plan.depth as u32,
            warn_records: plan.warn_records,
        }
    }
}
