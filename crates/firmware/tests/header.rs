//! The header reckons, when the firmware is compiled, where the recorder has everything: what it comes to is compared here, with the host's C
//! compiler in place of a chip's. Skipped where there is none.
#![cfg(target_os = "linux")]

use std::process::Command;

use heapledger_firmware::sizes;
use heapledger_recorder::chip::{Config, HeapDescription, Room, Shape, first_word};
use heapledger_testing::scratch::Scratch;

macro_rules! shapes {
    ($($name:ident $config:expr;)*) => {
        $(
            struct $name;
            impl Shape for $name {
                type Word = u32;
                const CONFIG: Config<'static> = $config;
                const ROOM: Option<fn() -> &'static Room> = Some(|| const { &<$name as Shape>::CONFIG.room::<u32>() });
            }
        )*
    };
}

shapes! {
    Minimal sizes::MINIMAL;
    Tasks sizes::TASKS;
    Everything sizes::EVERYTHING;
    GuardedMinimal sizes::guarded(sizes::MINIMAL);
    GuardedTasks sizes::guarded(sizes::TASKS);
    GuardedEverything sizes::guarded(sizes::EVERYTHING);
}

/// What a firmware defines: which layout, records, sites, history, tasks, heaps.
struct Defined {
    layout: &'static str,
    most: Config<'static>,
    first_word: usize,
    records: u32,
    sites: u32,
    history: u32,
    tasks: u32,
    heaps: usize,
}

/// The header has room for 16 bytes of each.
const NAMES: [&str; 4] = ["internal memory.", "external memory.", "memory for DMA..", "slow, but large."];

/// Errors that a guarded one has room for.
const ERRORS: u32 = 5;

impl Defined {
    /// What it defines of its guard, if it has one.
    fn guard(&self) -> String {
        if self.most.errors == 0 {
            return String::new();
        }
        format!(
            "#define HEAPLEDGER_GUARD HEAPLEDGER_FULL\n#define HEAPLEDGER_ERRORS {ERRORS}\nstatic char memory_[64];\n\
             #define HEAPLEDGER_GUARDED HEAPLEDGER_GUARDED_HEAP(memory_, 64)\n"
        )
    }

    fn config<'h>(&self, heaps: &'h [HeapDescription<'h>]) -> Config<'h> {
        Config {
            errors: if self.most.errors == 0 { 0 } else { ERRORS },
            records: self.records,
            sites: self.sites,
            history: if self.most.history == 0 { 0 } else { self.history },
            tasks: if self.most.tasks == 0 { 0 } else { self.tasks },
            heaps: if self.most.heaps.is_empty() { &[] } else { heaps },
            process: if self.most.process.is_empty() { b"" } else { b"program=x\0" },
            ..self.most
        }
    }

    /// The fields of `struct heapledger_room`, as the header has them.
    fn by_header(&self, scratch: &Scratch) -> Option<Vec<u32>> {
        let heaps: Vec<String> = NAMES[..self.heaps]
            .iter()
            .map(|name| format!("HEAPLEDGER_HEAP(\"{name}\", (void *)16, (void *)32)"))
            .collect();
        let heaps =
            if self.heaps == 0 { String::new() } else { format!("#define HEAPLEDGER_HEAPS {}\n", heaps.join(", ")) };
        let text = format!(
            "#define HEAPLEDGER_IMPLEMENTATION HEAPLEDGER_{}\n#define HEAPLEDGER_RECORDS {}\n#define HEAPLEDGER_SITES {}\n\
             #define HEAPLEDGER_HISTORY {}\n#define HEAPLEDGER_TASK_ROWS {}\n#define HEAPLEDGER_PROCESS \"program=x\"\n{heaps}{}\
             #include <heapledger-firmware.h>\n\
             #include <stdio.h>\n\
             struct heapledger_functions {{ int x; }};\n\
             const struct heapledger_functions heapledger_minimal_guarding_1 = {{0}}, heapledger_tasks_guarding_1 = {{0}}, heapledger_everything_guarding_1 = {{0}},\n\
             heapledger_minimal_checking_1 = {{0}}, heapledger_tasks_checking_1 = {{0}}, heapledger_everything_checking_1 = {{0}};\n\
             const struct heapledger_functions heapledger_minimal_1 = {{0}}, heapledger_tasks_1 = {{0}}, heapledger_everything_1 = {{0}},\n\
             heapledger_minimal_resizing_1 = {{0}}, heapledger_tasks_resizing_1 = {{0}}, heapledger_everything_resizing_1 = {{0}};\n\
             uint32_t heapledger_interrupts_off(void) {{ return 0; }}\n\
             void heapledger_interrupts_back(uint32_t before) {{ (void)before; }}\n\
             uintptr_t heapledger_interrupt(void) {{ return 0; }}\n\
             uintptr_t heapledger_find_mark(uintptr_t *word, uint32_t within) {{ return word[within]; }}\n\
             int main(void) {{\n\
             const uint32_t *words = (const uint32_t *)&heapledger_board.room; size_t at;\n\
             for (at = 0; at < sizeof heapledger_board.room / 4; at++) printf(\"%u\\n\", (unsigned)words[at]);\n\
             printf(\"%u\\n\", (unsigned)(sizeof heapledger_ledger / 4)); return 0; }}\n",
            self.layout,
            self.records,
            self.sites,
            self.history,
            self.tasks,
            self.guard(),
        );
        let (source, program) = (scratch.join("x.c"), scratch.join("x"));
        std::fs::write(&source, text).expect("a file");
        let mut compile = Command::new("cc");
        compile.args(["-std=c99", "-Wall", "-Wextra", "-Wno-pointer-to-int-cast", "-Wno-int-to-pointer-cast", "-I"]);
        compile.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/include")).arg(&source).arg("-o").arg(&program);
        // What the library has is not called.
        compile.args(["-ffunction-sections", "-Wl,--gc-sections"]);
        let ran = match compile.output() {
            Ok(ran) => ran,
            Err(error) => {
                eprintln!("SKIPPED: there is no C compiler: {error}");
                return None;
            }
        };
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let said = Command::new(&program).output().expect("the program runs").stdout;
        Some(String::from_utf8_lossy(&said).lines().map(|line| line.parse().expect("a number")).collect())
    }
}

fn fields(room: &Room) -> Vec<u32> {
    let Room {
        records,
        history,
        history_at,
        sites,
        places,
        sites_at,
        tasks,
        tasks_at,
        heaps,
        heaps_at,
        names_bytes,
        strings_at,
        process_bytes,
        process_at,
        counters_at,
        cells,
        index_at,
        words,
        clock_mask,
        tick_ns,
        depth,
        warn_records,
    } = *room;
    vec![
        records,
        history,
        history_at,
        sites,
        places,
        sites_at,
        tasks,
        tasks_at,
        heaps,
        heaps_at,
        names_bytes,
        strings_at,
        process_bytes,
        process_at,
        counters_at,
        cells,
        index_at,
        words,
        clock_mask,
        tick_ns,
        depth,
        warn_records,
    ]
}

/// Where parts begin in them that may not be there.
const PARTS: [(usize, usize); 5] = [(1, 2), (6, 7), (8, 9), (10, 11), (12, 13)];

#[test]
fn the_header_reckons_as_the_recorder_does() {
    let scratch = Scratch::new("header");
    let layouts = [
        ("MINIMAL", sizes::MINIMAL, first_word::<Minimal>()),
        ("TASKS", sizes::TASKS, first_word::<Tasks>()),
        ("EVERYTHING", sizes::EVERYTHING, first_word::<Everything>()),
        ("MINIMAL", sizes::guarded(sizes::MINIMAL), first_word::<GuardedMinimal>()),
        ("TASKS", sizes::guarded(sizes::TASKS), first_word::<GuardedTasks>()),
        ("EVERYTHING", sizes::guarded(sizes::EVERYTHING), first_word::<GuardedEverything>()),
    ];
    let descriptions = NAMES.map(|name| HeapDescription { name, low: 16, high: 32 });
    for (layout, most, first_word) in layouts {
        for (records, sites, history, tasks, heaps) in
            [(255, 64, 1, 1, 1), (300, 512, 64, 4, 2), (1001, 777, 255, 33, 3), (4096, 1024, 1000, 254, 4)]
        {
            let defined = Defined { layout, most, first_word, records, sites, history, tasks, heaps };
            let config = defined.config(&descriptions[..heaps]);
            let Some(mut said) = defined.by_header(&scratch) else { return };
            let mut expected = fields(&config.room::<u32>());
            let words = expected[17];
            expected.push(words);
            // Clock and depth are what they are where nobody says.
            said[18..21].copy_from_slice(&expected[18..21]);
            // Where nothing is does not matter.
            for (count, at) in PARTS.into_iter().filter(|(count, _)| expected[*count] == 0) {
                assert_eq!(said[count], 0);
                said[at] = 0;
            }
            assert_eq!(said, expected, "{layout}, {records} records");
            let room = config.room::<u32>();
            let first = if room.history_at == 0 { room.sites_at } else { room.history_at };
            assert!(first as usize >= defined.first_word, "what lies before the first section has room");
        }
    }
}

#[test]
fn what_cannot_be_held_does_not_compile() {
    // Too few stacks, and more blocks than the index can tell apart.
    let scratch = Scratch::new("refused");
    for defines in [
        "#define HEAPLEDGER_RECORDS 100\n#define HEAPLEDGER_SITES 10\n",
        "#define HEAPLEDGER_RECORDS 70000\n#define HEAPLEDGER_SITES 100\n",
        "#define HEAPLEDGER_RECORDS 100\n#define HEAPLEDGER_SITES 2000\n",
        "#define HEAPLEDGER_SITES 100\n",
        "#define HEAPLEDGER_RECORDS 100\n#define HEAPLEDGER_SITES 100\n#define HEAPLEDGER_GUARD HEAPLEDGER_LIGHT\n\
         #define HEAPLEDGER_ERRORS 0\n#define HEAPLEDGER_GUARDED HEAPLEDGER_GUARDED_HEAP((void *)64, 64)\n",
    ] {
        let source = scratch.join("wrong.c");
        let text = format!(
            "#define HEAPLEDGER_IMPLEMENTATION HEAPLEDGER_MINIMAL\n{defines}#include <heapledger-firmware.h>\n"
        );
        std::fs::write(&source, text).expect("a file");
        let mut compile = Command::new("cc");
        compile.args(["-c", "-I"]).arg(concat!(env!("CARGO_MANIFEST_DIR"), "/include"));
        let Ok(ran) = compile.arg(&source).arg("-o").arg(scratch.join("wrong.o")).output() else { return };
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(!ran.status.success() && said.contains("heapledger_"), "{defines}: {said}");
    }
}
