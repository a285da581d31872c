//! A real program that pauses its recorder and lets it go on, in the middle of the life of its blocks: the books are exact.
//!
//! The program finds the recorder as another copy of its code would, by the note in its module, so what is paused is the library
//! that everybody gets.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use heapledger_e2e::ledger::{Blocks, Stats, check_totals};
use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check};

/// `exact`: threads allocate, free and reallocate in three phases of each round, of which the second is paused; nobody is in a
/// call when the word changes. `storm`: they never wait, while the first thread pauses and goes on all the time.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SITE __attribute__((noipa))
#define CHECK(what) do { if (!(what)) { fprintf(stderr, "%d: %s\n", __LINE__, #what); _exit(1); } } while (0)
enum { THREADS = 4, ROUNDS = 8, ENTERED = 40, PASSED = 30, MOVED = 5, STEPS = 30000, CHANGES = 100 };

struct way {
    uint32_t version, bytes, claim;
    uint32_t (*recording)(void), (*pause)(void), (*resume)(void);
};
static const struct way *way;

static int look(struct dl_phdr_info *module, size_t size, void *unused) {
    for (int i = 0; i < module->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &module->dlpi_phdr[i];
        if (header->p_type != PT_NOTE) continue;
        const char *at = (const char *)module->dlpi_addr + header->p_vaddr, *end = at + header->p_memsz;
        while (at + sizeof(ElfW(Nhdr)) <= end) {
            const ElfW(Nhdr) *note = (const void *)at;
            const char *name = at + sizeof *note, *value = name + (note->n_namesz + 3) / 4 * 4;
            if (note->n_type == 0x484C && note->n_namesz == 11 && strcmp(name, "heapledger") == 0) {
                int64_t distance;
                memcpy(&distance, value, sizeof distance);
                way = (const void *)(value + distance);
            }
            at = value + (note->n_descsz + 3) / 4 * 4;
        }
    }
    return 0;
}

static pthread_barrier_t barrier;
static void meet(void) { pthread_barrier_wait(&barrier); }
static char *blocks[THREADS][ENTERED];

SITE char *while_on(void) { return malloc(100); }
SITE char *while_paused(void) { return malloc(200); }
SITE char *moved_while_paused(char *block) { return realloc(block, 3000); }
SITE char *moved_while_on(char *block) { return realloc(block, 4000); }
SITE char *too_large(char *block) { return realloc(block, PTRDIFF_MAX); }
SITE void freed_while_paused(char *block) { free(block); }
SITE void freed_while_on(char *block) { free(block); }

static void *work(void *place) {
    int own = (int)(intptr_t)place, next = (own + 1) % THREADS;
    for (int round = 0; round < ROUNDS; round++) {
        char *passed[PASSED], *moved[MOVED];
        for (int i = 0; i < ENTERED; i++) CHECK(blocks[own][i] = while_on());
        meet();
        meet(); // paused
        for (int i = 0; i < PASSED; i++) CHECK(passed[i] = while_paused());
        for (int i = 0; i < 10; i++) freed_while_paused(blocks[next][i]);
        for (int i = 0; i < MOVED; i++) CHECK(moved[i] = moved_while_paused(blocks[own][10 + i]));
        CHECK(too_large(blocks[own][15]) == NULL);
        for (int i = 0; i < 10; i++) freed_while_paused(passed[i]);
        meet();
        meet(); // on again
        for (int i = 10; i < 10 + MOVED; i++) CHECK(passed[i] = moved_while_on(passed[i]));
        for (int i = 10 + MOVED; i < PASSED; i++) freed_while_on(passed[i]);
        for (int i = 0; i < MOVED; i++) freed_while_on(moved[i]);
        for (int i = 15; i < 25; i++) freed_while_on(blocks[own][i]);
    }
    return NULL;
}

static atomic_int running, steps, changes;
// Until the others have got on a little.
static void wait_for_steps(void) {
    int seen = steps;
    while (running && steps - seen < 100) usleep(50);
    changes++;
}
SITE char *storm(size_t bytes) { return malloc(bytes); }
SITE char *storm_moved(char *block, size_t bytes) { return realloc(block, bytes); }
static void *rage(void *place) {
    uint32_t random = 77 + (uint32_t)(intptr_t)place;
    char *kept[64] = {0};
    for (int i = 0; i < STEPS || changes < CHANGES; i++) {
        steps++;
        random = random * 1664525 + 1013904223;
        char **block = &kept[random >> 26];
        if (*block == NULL) CHECK(*block = storm(16 + (random >> 8) % 600));
        else if (random & 0x300) { free(*block); *block = NULL; }
        else CHECK(*block = storm_moved(*block, 16 + (random >> 10) % 2000));
    }
    for (int i = 0; i < 64; i++) free(kept[i]);
    running--;
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    int is_storm = argc > 1 && strcmp(argv[1], "storm") == 0;
    free(malloc(1));
    dl_iterate_phdr(look, NULL);
    CHECK(way != NULL && way->version >= 1 && way->bytes >= sizeof *way);
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    running = THREADS;
    for (intptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, is_storm ? rage : work, (void *)i) == 0);
    uint32_t on = way->recording();
    CHECK(!way->resume());
    if (is_storm) {
        while (running) {
            CHECK(way->pause() && way->recording() != on);
            wait_for_steps();
            CHECK(way->resume() && way->recording() == on);
            wait_for_steps();
        }
    } else {
        for (int round = 0; round < ROUNDS; round++) {
            meet();
            CHECK(way->pause() && !way->pause());
            meet();
            meet();
            CHECK(way->resume() && !way->resume());
            meet();
        }
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    return 0;
}
"#;

/// Threads and rounds of the source together.
const ROUNDS: usize = 4 * 8;

/// Builds it and runs it; its ledger.
fn ledger_of(scratch: &Scratch, way: &str, options: &[&str]) -> Result<PathBuf> {
    let (code, program) = (scratch.path("pauses.c"), scratch.path("pauses"));
    fs::write(&code, SOURCE).map_err(|error| error.to_string())?;
    process::run(Command::new("gcc").args(["-O1", "-g", "-pthread", "-o"]).arg(&program).arg(&code))?.good()?;
    run_cleanly(scratch, &mut under_run(scratch, way, options, &program, &[way.into()]))?.good()?;
    Ok(scratch.path(&format!("{way}.hl")))
}

/// How many of them have this function as their innermost frame but for the allocator's.
fn from(blocks: &Blocks, name: &str) -> usize {
    blocks.blocks.iter().filter(|block| blocks.is_from(block, name, true)).count()
}

#[test]
fn blocks_pass_by_while_it_is_paused_and_those_of_the_ledger_end() -> Result {
    let scratch = Scratch::new();
    let ledger = ledger_of(&scratch, "exact", &["--history", "65536"])?;
    let stats = Stats::of(&ledger)?;
    // What passed by is no loss, either.
    check_totals(&stats, &[])?;
    let ([ever, freed], live) = (Blocks::ever_and_freed(&ledger)?, Blocks::live(&ledger)?);
    live.check(&stats)?;
    for (blocks, of, expected) in [
        (&ever, "while_on", 40),
        (&ever, "while_paused", 0),
        (&ever, "moved_while_paused", 0),
        (&ever, "moved_while_on", 5),
        (&freed, "freed_while_paused", 10),
        (&freed, "moved_while_paused", 5),
        (&freed, "freed_while_on", 10),
        (&freed, "moved_while_on", 0),
        (&freed, "too_large", 0),
        (&live, "while_on", 15),
        (&live, "while_paused", 0),
        (&live, "moved_while_on", 5),
    ] {
        check!(from(blocks, of) == expected * ROUNDS, "{of}: {} and not {expected} a round", from(blocks, of));
    }
    Ok(())
}

#[test]
fn whoever_is_in_a_call_meanwhile_leaves_nothing_behind() -> Result {
    for options in [&[][..], &["--sample", "256"]] {
        let scratch = Scratch::new();
        let ledger = ledger_of(&scratch, "storm", options)?;
        let stats = Stats::of(&ledger)?;
        check_totals(&stats, &[])?;
        let live = Blocks::live(&ledger)?;
        // A sample stands for several blocks.
        if options.is_empty() {
            live.check(&stats)?;
        }
        for name in ["storm", "storm_moved"] {
            check!(from(&live, name) == 0, "{} blocks of {name} were freed, and are there", from(&live, name));
        }
        check!(stats.number("allocations") > 100, "nothing was entered between the pauses: {stats:?}");
    }
    Ok(())
}
