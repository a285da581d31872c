//! What is told of the ends of threads is true: of a real program whose threads are joined, and one that is still there
//! when the program ends.

use std::fs;
use std::process::Command;

use heapledger_e2e::ledger::read;
use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check};
use serde_json::Value;

/// Two threads are joined, the second a while after the first. In between the main thread allocates, so that somebody
/// looks. A third waits for ever. One that is joined may be there still for a moment, as the kernel sees it.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static sem_t stands;
static volatile pid_t ids[2];
static void use_heap(int calls) {
    for (int call = 0; call < calls; call++) { char *volatile block = malloc(100); free(block); }
}
static int hold[2];
static void *work(void *is_late) {
    char byte;
    pthread_setname_np(pthread_self(), is_late ? "late" : "early");
    use_heap(1000);
    ids[is_late != NULL] = gettid();
    if (is_late) read(hold[0], &byte, 1);
    return NULL;
}
static void *stay(void *unused) {
    pthread_setname_np(pthread_self(), "stays");
    use_heap(1000);
    sem_post(&stands);
    pause();
    return unused;
}

static void end(pthread_t thread, int is_late) {
    pthread_join(thread, NULL);
    while (syscall(SYS_tgkill, getpid(), ids[is_late], 0) == 0) usleep(1000);
}

int main(int argc, char **argv) {
    pthread_t early, late, stays;
    sem_init(&stands, 0, 0);
    pthread_create(&stays, NULL, stay, NULL);
    while (sem_wait(&stands) != 0) continue;
    if (pipe(hold) != 0) return 1;
    pthread_create(&late, NULL, work, &late);
    pthread_create(&early, NULL, work, NULL);
    end(early, 0);
    use_heap(100000);
    usleep(300000);
    close(hold[1]);
    end(late, 1);
    if (argc > 1) _exit(0);
    return 0;
}
"#;

/// What `stats` says of the thread with this name: its state, and by when it had ended, in seconds.
fn of(stats: &Value, name: &str) -> Result<(String, Option<f64>)> {
    let threads = stats["threads"].as_array().ok_or("no threads")?;
    let thread = threads.iter().find(|thread| thread["name"] == name).ok_or(format!("no {name}: {stats}"))?;
    let state = thread["state"].as_str().unwrap_or_default().to_owned();
    Ok((state, thread["ended_by_ns"].as_f64().map(|ns| ns / 1e9)))
}

#[test]
fn joined_threads_have_ended_and_it_is_said_by_when() -> Result {
    let scratch = Scratch::new();
    let (code, program) = (scratch.path("joined.c"), scratch.path("joined"));
    fs::write(&code, SOURCE).map_err(|error| error.to_string())?;
    process::run(Command::new("gcc").args(["-pthread", "-o"]).arg(&program).arg(&code))?.good()?;

    run_cleanly(&scratch, &mut under_run(&scratch, "exit", &[], &program, &[]))?.good()?;
    let ledger = scratch.path("exit.hl");
    let stats = read("stats", &ledger, &["--all"])?[1].clone();
    let (early, late, stays) = (of(&stats, "early")?, of(&stats, "late")?, of(&stats, "stays")?);
    check!(early.0 == "gone" && late.0 == "gone", "both were joined: {early:?}, {late:?}");
    let apart = early.1.zip(late.1).map(|(early, late)| late - early);
    check!(apart.is_some_and(|by| by > 0.2), "one ended 0.3 s before the other: {early:?}, {late:?}");
    check!(stays == ("at_exit".to_owned(), None), "it was there at the end: {stays:?}");
    check!(of(&stats, "joined")?.0 == "at_exit", "the main thread returned: {stats}");
    let text = process::run(command(heapledger()).arg("stats").arg(&ledger))?.good()?.out();
    let row = |name: &str| text.lines().find(|line| line.split_whitespace().nth(1) == Some(name)).unwrap_or_default();
    check!(
        row("early").contains("  by ") && row("late").contains("  by ") && row("stays").contains("  at exit "),
        "{text}"
    );

    // Who leaves with `_exit` tells nobody: what was not seen is not known, and nothing is made up.
    let left = under_run(&scratch, "left", &[], &program, &["x".into()]);
    run_cleanly(&scratch, &mut { left })?.good()?;
    let stats = read("stats", scratch.path("left.hl"), &["--all"])?[1].clone();
    check!(of(&stats, "stays")? == ("alive".to_owned(), None), "nobody looked: {stats}");
    let text = process::run(command(heapledger()).arg("stats").arg(scratch.path("left.hl")))?.good()?.out();
    let row = |name: &str| text.lines().find(|line| line.split_whitespace().nth(1) == Some(name)).unwrap_or_default();
    check!(row("stays").contains("  not known ") && row("joined").contains("  at the end "), "{text}");
    Ok(())
}

/// So many threads, all alive at the same time if there is a second argument, allocate and free a few blocks.
const FEW_FREES: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_barrier_t barrier;
static int together;

static void *work(void *frees) {
    for (long i = 0; i < (long)frees; i++) { char *volatile block = malloc(100); free(block); }
    if (together) pthread_barrier_wait(&barrier);
    return NULL;
}

int main(int argc, char **argv) {
    long threads = atol(argv[1]), frees = atol(argv[2]);
    together = argc > 3;
    pthread_t *all = malloc(threads * sizeof *all);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    pthread_barrier_init(&barrier, NULL, threads + 1);
    for (long i = 0; i < threads; i++)
        if (pthread_create(&all[i], &small, work, (void *)frees) != 0) return 1;
    if (together) pthread_barrier_wait(&barrier);
    for (long i = 0; i < threads; i++) pthread_join(all[i], NULL);
    return 0;
}
"#;

/// What is leased of the history and not used must not be much, be it of threads that rest or of such that are gone. Fails if each
/// thread leases a chunk of its own: then a hundred threads of 3,000 fill this ring.
#[test]
fn the_history_of_thousands_of_threads_holds_what_it_has_room_for() -> Result {
    let scratch = Scratch::new();
    let (code, program) = (scratch.path("few.c"), scratch.path("few"));
    fs::write(&code, FEW_FREES).map_err(|error| error.to_string())?;
    process::run(Command::new("gcc").args(["-pthread", "-o"]).arg(&program).arg(&code))?.good()?;
    for (capacity, threads, frees, together) in
        [(8192, "3000", "2", true), (8192, "3000", "2", false), (4096, "1000", "40", true), (64, "300", "3", true)]
    {
        let name = format!("few-{capacity}-{threads}-{together}");
        let mut arguments: Vec<String> = vec![threads.into(), frees.into()];
        arguments.extend(together.then(|| "together".to_owned()));
        let history = capacity.to_string();
        let mut command = under_run(&scratch, &name, &["--history", &history], &program, &arguments);
        run_cleanly(&scratch, &mut command)?.good()?;
        let stats = read("stats", scratch.path(&format!("{name}.hl")), &[])?[1].clone();
        let freed = stats["frees"].as_u64().unwrap_or(0);
        let held = stats["options"]["history_entries"].as_u64().unwrap_or(0);
        check!(held >= freed.min(capacity / 2), "{name}: {held} of {freed} frees are held: {stats}");
        let lost = stats["losses"]["history_lost"].as_u64().unwrap_or(0);
        check!(freed > 600 && lost == 0, "{name}: {lost} of {freed} frees found no room: {stats}");
    }
    Ok(())
}

/// So many threads hold some bytes each, in blocks of a size, all at the same moment; before and after they go up and down.
const HOLD: &str = r#"
#include <pthread.h>
#include <stdlib.h>

static pthread_barrier_t barrier;
static long blocks, size;

static void *work(void *unused) {
    void **all = malloc(blocks * sizeof *all);
    for (int round = 0; round < 3; round++) {
        pthread_barrier_wait(&barrier);
        for (long i = 0; i < blocks / (round == 1 ? 1 : 4); i++) all[i] = malloc(size);
        pthread_barrier_wait(&barrier);
        for (long i = 0; i < blocks / (round == 1 ? 1 : 4); i++) free(all[i]);
    }
    free(all);
    return unused;
}

int main(int argc, char **argv) {
    long threads = atol(argv[1]);
    blocks = atol(argv[2]), size = atol(argv[3]);
    pthread_t all[64];
    pthread_barrier_init(&barrier, NULL, threads);
    for (long i = 0; i < threads; i++)
        if (pthread_create(&all[i], NULL, work, NULL) != 0) return 1;
    for (long i = 0; i < threads; i++) pthread_join(all[i], NULL);
    return argc > 4;
}
"#;

/// The error that is told is a bound, and at most 64 KiB or one hundredth of the peak. Fails if each thread keeps 32 KiB to itself, or
/// tells an error for what threads keep now and not for what they kept then.
#[test]
fn the_peak_of_many_threads_is_known_to_one_in_a_hundred() -> Result {
    const KEPT_BYTES_MAX: u64 = 64 << 10;
    let scratch = Scratch::new();
    let (code, program) = (scratch.path("hold.c"), scratch.path("hold"));
    fs::write(&code, HOLD).map_err(|error| error.to_string())?;
    process::run(Command::new("gcc").args(["-pthread", "-o"]).arg(&program).arg(&code))?.good()?;
    for (threads, blocks, size) in [(2, 50, 40), (8, 100, 100), (64, 20, 300), (64, 400, 1000), (16, 20, 30_000)] {
        let name = format!("hold-{threads}-{blocks}-{size}");
        let arguments = [threads, blocks, size].map(|number: u64| number.to_string());
        run_cleanly(&scratch, &mut under_run(&scratch, &name, &[], &program, &arguments))?.good()?;
        let stats = read("stats", scratch.path(&format!("{name}.hl")), &[])?[1].clone();
        let figure = |name: &str| stats[name].as_u64().ok_or_else(|| format!("no {name}: {stats}"));
        let (peak, error) = (figure("peak_bytes")?, figure("peak_error_bytes")?);
        check!(error <= KEPT_BYTES_MAX.max(peak / 100), "{name}: {peak} ± {error}");
        // What libc allocates for a thread is some 300 bytes, and for itself not much.
        let (least, spare) = (threads * blocks * (size + 8), 16_384 + threads * 512);
        check!(peak + error >= least, "{name}: {peak} ± {error}, and {least} were held");
        check!(peak.saturating_sub(error) <= least + spare, "{name}: {peak} ± {error}, and {least} were held");
    }
    Ok(())
}
