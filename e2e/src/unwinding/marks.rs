//! What the marks of each victim mean. The victims' own comments say it in words; steps of storms are [`storm`]'s.

use super::{Part, functions, storm};

/// Which of these functions a number says, and what is left of the number.
fn named(prefix: &str, number: u64, count: u64) -> (Part, u64) {
    (Part::In(format!("{prefix}{}", number % count)), number / count)
}

/// `size` as a mark from `first` on, if it is below `first + count`.
fn mark(size: u64, first: u64, count: u64) -> Option<u64> {
    size.checked_sub(first).filter(|mark| *mark < count)
}

fn join(parts: [Vec<Part>; 2]) -> Option<Vec<Part>> {
    Some(parts.concat())
}

/// `victims/unwind_longjmp.c`.
pub fn longjmp(size: u64) -> Option<Vec<Part>> {
    match size {
        7_001 => Some(functions(&["never_returns", "ends_in_a_call", "main"])),
        7_002 => Some(functions(&["never_returns", "ends_so_too", "main"])),
        _ => storm(size, &["main"]),
    }
}

/// `victims/unwind_exceptions.cc`.
pub fn exceptions(size: u64) -> Option<Vec<Part>> {
    const ON_THE_WAY: u64 = 1 << 24;
    let Some(of_step) = size.checked_sub(ON_THE_WAY) else { return storm(size, &["main"]) };
    let mut parts = storm(of_step, &["main"])?;
    // Destructors are called from several places of a function.
    if let Some(Part::At(step, _)) = parts.first().cloned() {
        parts[0] = Part::In(step);
    }
    join([functions(&["Held::~Held()"]), parts])
}

/// `victims/unwind_levels.c`.
pub fn levels(size: u64) -> Option<Vec<Part>> {
    if let Some(bits) = mark(size, 20_000, 1 << 10) {
        let level = |level: u64| Part::In(format!("level_{level}_{}", bits >> level & 1));
        let mut parts = functions(&["innermost"]);
        parts.extend((0..10).rev().map(level));
        return join([parts, functions(&["levels_below", "main"])]);
    }
    let way = mark(size, 30_000, 240)?;
    let (turns, further_out, by_pong) = (way / 4, way >> 1 & 1 == 1, way & 1);
    let mut parts = functions(&["turned"]);
    parts.extend((0..=turns).rev().map(|turn| functions(&[["ping", "pong"][(turn + by_pong) as usize % 2]]).remove(0)));
    parts.extend(functions(if further_out { &["begin_here", "begin_further_out"] } else { &["begin_here"] }));
    join([parts, functions(&["main"])])
}

/// `middle < hub < via` of `victims/unwind_registers.c`.
fn way_by_register(way: u64, goes_on: bool) -> Vec<Part> {
    const HUBS: [(&str, &str); 10] = [
        ("rbp", "rbp"),
        ("rbx", "rbx"),
        ("r12", "r12"),
        ("r13", "r13"),
        ("r14", "r14"),
        ("r15", "r15"),
        ("expression", "rbx"),
        ("realigned", "rbp"),
        ("stored", "rbp"),
        ("stored_top", "rbp"),
    ];
    let (via, rest) = named("via_", way, 4);
    let (hub, register) = HUBS[rest as usize / 3];
    let middle = match rest % 3 {
        _ if goes_on => "middle_goes_on".to_owned(),
        0 => "middle_keeps".to_owned(),
        1 => format!("middle_high_{register}"),
        _ => format!("middle_low_{register}"),
    };
    vec![Part::In(middle), Part::In(format!("hub_{hub}")), via]
}

/// `victims/unwind_registers.c`.
pub fn registers(size: u64) -> Option<Vec<Part>> {
    const WAYS: u64 = 10 * 3 * 4;
    if let Some(way) = mark(size, 40_000, WAYS) {
        let parts = [functions(&["innermost"]), way_by_register(way, false)].concat();
        return join([parts, functions(&["set_out", "walk_by", "main"])]);
    }
    let ways = mark(size, 60_000, WAYS * WAYS)?;
    let (inner, outer) = (way_by_register(ways / WAYS, false), way_by_register(ways % WAYS, true));
    join([[functions(&["innermost"]), inner, outer].concat(), functions(&["set_out", "walk_by_two", "main"])])
}

/// `victims/unwind_alloca.c`.
pub fn alloca(size: u64) -> Option<Vec<Part>> {
    const INNER: [&str; 4] = ["inner_keeps", "inner_saves", "inner_saves_all", "inner_framed"];
    let (caller, rest) = named("caller_", mark(size, 10_000, 4 * 3 * 4)?, 4);
    let function = ["by_alloca", "by_array", "by_alloca_busy"][rest as usize % 3];
    let parts = functions(&["innermost", INNER[rest as usize / 3], function]);
    join([[parts, vec![caller]].concat(), functions(&["walk_by", "main"])])
}

/// `victims/unwind_drap.c`.
pub fn drap(size: u64) -> Option<Vec<Part>> {
    let (caller, rest) = named("caller_", mark(size, 10_000, 4 * 2 * 4)?, 4);
    let function = ["with_arguments", "with_alloca", "aligned_only", "mistrusts"][rest as usize / 2];
    let parts = functions(&["innermost", ["inner_keeps", "inner_saves"][rest as usize % 2], function]);
    join([[parts, vec![caller]].concat(), functions(&["walk_by", "walk_from", "main"])])
}

/// `victims/unwind_lazy.c`.
pub fn lazy(size: u64) -> Option<Vec<Part>> {
    let outside = functions(&["call_all", "open_and_close", "main"]);
    if let Some(call) = mark(size, 5_000, 16).or_else(|| mark(size, 5_100, 16)) {
        let (number, caller) = (call / 2, Part::In(format!("caller_{}_of_{}", call % 2, call / 2)));
        let in_resolver = || [functions(&["chosen", &format!("resolver_{number}")]), vec![Part::Any(12)]].concat();
        let inside = if size < 5_100 { in_resolver() } else { vec![] };
        return join([[functions(&["mark"]), inside, vec![caller]].concat(), outside]);
    }
    let inside = ["lazy_constructor", "lazy_destructor"][mark(size, 5_200, 2)? as usize];
    join([[functions(&["mark", inside]), vec![Part::Any(30)]].concat(), functions(&["open_and_close", "main"])])
}

/// `victims/unwind_signal_edits.c`.
pub fn signal_edits(size: u64) -> Option<Vec<Part>> {
    let (trap, rest) = named("trap_", mark(size, 30_000, 6 * 3 * 2)?, 2);
    let (shape, level) = (rest % 3, rest / 3);
    let mut parts = [functions(&["edit_and_mark"]), vec![Part::Frames(1), trap]].concat();
    if shape == 0 {
        parts.extend(functions(&["level"]));
    }
    for outer in (0..=level).rev() {
        // The last shape is called by who called the hop.
        if shape < 2 || outer < level {
            parts.push(Part::In(format!("hop_{outer}")));
        }
        if outer > 0 {
            parts.extend(functions(&["level"]));
        }
    }
    join([parts, functions(&["walk", "main"])])
}

/// `victims/unwind_signal_steps.c`.
pub fn signal_steps(size: u64) -> Option<Vec<Part>> {
    let calls = mark(size, 70_000, 100)? as usize;
    let inside = [functions(&["at_each_step"]), vec![Part::Frames(1), Part::Frames(calls)]].concat();
    let outside = [vec![Part::OneOf(&["stepped", "stand_still"]), Part::Any(1)], functions(&["main"])].concat();
    join([inside, outside])
}

/// `victims/unwind_signal_storm.c`.
pub fn signal_storm(size: u64) -> Option<Vec<Part>> {
    let interrupted = || [vec![Part::Frames(1), Part::Any(40)], functions(&["main"])].concat();
    match size {
        7_000 => join([functions(&["on_alarm"]), interrupted()]),
        7_001 => join([functions(&["on_profile"]), interrupted()]),
        7_002 => {
            let raised = [functions(&["on_raised"]), vec![Part::Frames(1), Part::Any(6)], functions(&["on_alarm"])];
            join([raised.concat(), interrupted()])
        }
        _ => storm(size, &["main"]),
    }
}

/// `victims/unwind_signal_first.c`.
pub fn signal_first(size: u64) -> Option<Vec<Part>> {
    let outside = match mark(size, 5_000, 3)? {
        0 => "first_in_thread",
        _ => "coroutine_body",
    };
    let inside = [functions(&["on_signal"]), vec![Part::Frames(1), Part::Any(6)]].concat();
    join([inside, functions(&["interrupted", outside])])
}

/// `victims/unwind_coroutines.c`.
pub fn coroutines(size: u64) -> Option<Vec<Part>> {
    match size {
        7_000 => join([functions(&["between", "run_some"]), functions(&["take_turns"])]),
        _ => join([storm(size, &["coroutine_body", "stack_begins"])?, vec![Part::End]]),
    }
}

/// `victims/unwind_copied_stacks.c`.
pub fn copied_stacks(size: u64) -> Option<Vec<Part>> {
    join([storm(size, &["copied_body", "stack_begins"])?, vec![Part::End]])
}

/// `victims/unwind_holes.c`.
pub fn holes(size: u64) -> Option<Vec<Part>> {
    match size {
        6_010 => Some(functions(&["same_place", "from_far_above", "far_body", "stack_begins"])),
        6_011 => Some(functions(&["same_place", "from_above", "near_body", "stack_begins"])),
        _ => mark(size, 6_000, 6).map(|_| functions(&["hole_mark"])),
    }
}

/// A call through `inner` and `outer` of one of the libraries made of `victims/plugins/unwind_layout.S`.
fn through_library(letter: char) -> Vec<Part> {
    let part = |name: &str| Part::Of(format!("layout_{letter}_{name}"), format!("libunwind_layout_{letter}.so"));
    [functions(&["plugin_mark"]), vec![part("inner"), part("outer")]].concat()
}

/// `victims/unwind_plugins.c`.
pub fn plugins(size: u64) -> Option<Vec<Part>> {
    let way = mark(size, 8_000, 40)?;
    let inside = through_library(['a', 'b', 'c', 'd'][way as usize / 10]);
    match way % 10 {
        0 => join([inside, functions(&["in_main_thread", "main"])]),
        1 => join([inside, functions(&["in_other_thread", "other_thread"])]),
        2 => {
            let outside = [vec![Part::Any(30)], functions(&["close_library", "main"])].concat();
            join([inside, [functions(&["layout_destroy"]), outside].concat()])
        }
        _ => None,
    }
}

/// `victims/unwind_dlopen_fails.c`.
pub fn dlopen_fails(size: u64) -> Option<Vec<Part>> {
    match size {
        // The loader does not know the library yet, so nobody knows how to go on from there.
        8_100 => Some(functions(&["plugin_mark"])),
        8_012 | 8_022 => plugins(size).map(|mut parts| parts.drain(..4).collect()),
        _ => plugins(size),
    }
}

/// `victims/unwind_jit.c`.
pub fn jit(size: u64) -> Option<Vec<Part>> {
    let way = mark(size, 9_000, 23).filter(|way| way % 10 < 3)?;
    let inside = [functions(&["jit_mark"]), vec![Part::Unnamed]].concat();
    match way / 10 {
        // With a frame pointer; or with nothing but room on the stack, which its code gives back.
        0 | 1 => join([inside, functions(&[&format!("jit_caller_{}", way % 10), "jit_walk", "main"])]),
        _ => Some(inside),
    }
}

/// `victims/unwind_jit_steady.c`.
pub fn jit_steady(size: u64) -> Option<Vec<Part>> {
    let depth = mark(size, 9_100, 12)?;
    let mut parts = functions(&["steady_level"]);
    for _ in 0..depth {
        parts.extend([Part::Unnamed, functions(&["steady_call"]).remove(0), functions(&["steady_level"]).remove(0)]);
    }
    parts.extend(functions(&["main"]));
    Some(parts)
}

/// `victims/unwind_jit_library.c`.
pub fn jit_library(size: u64) -> Option<Vec<Part>> {
    match size {
        9_000 => {
            let inside = [functions(&["plugin_mark"]), vec![Part::Unnamed]].concat();
            join([inside, functions(&["in_made_code", "main"])])
        }
        _ => plugins(size),
    }
}

/// `victims/unwind_depth.c`, with stacks cut at `limit` frames.
pub fn depth(size: u64, limit: usize) -> Option<Vec<Part>> {
    let mark = mark(size, 1_000_000, 1_000 * 64)?;
    let step = |index: u32| Part::In(format!("depth_step_{}", mark >> (2 * index) & 3));
    let mut parts: Vec<Part> = (0..3).map(step).collect();
    parts.extend((0..mark / 64).map(|_| Part::In("downwards".to_owned())));
    parts.extend(functions(&["main"]));
    if parts.len() > limit {
        parts.truncate(limit);
        parts.push(Part::End);
    }
    Some(parts)
}

/// `victims/unwind_children.c`.
pub fn children(size: u64) -> Option<Vec<Part>> {
    match size.checked_sub(1 << 24) {
        Some(of_step) => storm(of_step, &["in_clone"]),
        None => join([storm(size, &[])?, vec![Part::OneOf(&["in_vfork_child", "storm_of_parent"])]]),
    }
}

/// `victims/unwind_threads.c`.
pub fn threads(size: u64) -> Option<Vec<Part>> {
    join([storm(size, &[])?, vec![Part::OneOf(&["thread_one", "thread_two", "thread_three"])]])
}
