//! What became of the blocks.

use std::process::Stdio;

use heapledger_e2e::ledger::{Stats, lines, read};
use heapledger_e2e::process::{self, PATIENCE, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, find, heapledger};
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check, skip};
use serde_json::Value;

use super::{Target, compile, tell, touch, wait_for};

fn of_type<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

/// The change whose innermost function is this one.
fn by_function<'a>(lines: &'a [Value], function: &str) -> Result<&'a Value> {
    let found = lines.iter().find(|line| line["type"] == "change" && line["frames"][0]["function"] == function);
    found.ok_or_else(|| format!("no change of {function} in {lines:?}"))
}

/// Frees a block of ten, and gets its place back from another function.
const REUSE: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
char *blocks[10];
static char name[4096];
static void mark(const char *directory, const char *file) {
    snprintf(name, sizeof name, "%s/%s", directory, file);
    close(open(name, O_CREAT | O_WRONLY, 0600));
}
static void wait(const char *directory, const char *file) {
    snprintf(name, sizeof name, "%s/%s", directory, file);
    while (access(name, F_OK)) usleep(1000);
}
__attribute__((noinline)) void first(int at) { blocks[at] = malloc(1000); }
__attribute__((noinline)) void second(int at) { blocks[at] = malloc(1000); }
int main(int count, char **words) {
    for (int at = 0; at < 10; at++) first(at);
    mark(words[1], "one");
    wait(words[1], "go");
    char *old = blocks[4];
    free(old);
    second(4);
    mark(words[1], blocks[4] == old ? "same" : "other");
    wait(words[1], "end");
    return 0;
}
"#;

#[test]
fn an_address_that_is_used_again_fools_nobody() -> Result {
    let scratch = Scratch::new();
    let program = compile(&scratch, "reuse", REUSE, &[])?;
    let target = Target::start(&scratch, &program, &[scratch.work().to_string_lossy().into_owned()])?;
    wait_for(&scratch.path("one"))?;
    let a = target.snapshot(&scratch, "a", &["--freeze"])?;
    touch(&scratch.path("go"))?;
    wait_for(&scratch.path("same"))?;
    let b = target.snapshot(&scratch, "b", &[])?;
    let [a, b] = [a.to_string_lossy(), b.to_string_lossy()];

    let found = read("diff", &*a, &["--blocks", &b])?;
    // The second ledger comes first here: `read` puts the first one behind the options.
    check!(found[1]["reversed"] == true && found[1]["one_run"] == true, "{}", found[1]);
    let found = read("diff", &*b, &["--blocks", &a])?;
    check!(found[1]["reversed"] == false, "{}", found[1]);
    let blocks = of_type(&found, "block");
    check!(blocks.len() == 2, "{blocks:?}");
    let (new, freed) = (blocks[0], blocks[1]);
    check!(new["change"] == "new" && freed["change"] == "freed", "{blocks:?}");
    check!(new["address"] == freed["address"] && new["number"] != freed["number"], "{blocks:?}");
    check!(new["frames"][0]["function"] == "second" && freed["frames"][0]["function"] == "first", "{blocks:?}");

    let found = read("diff", target.pid.to_string(), &[&a])?;
    let (one, two) = (by_function(&found, "first")?, by_function(&found, "second")?);
    check!(one["change"] == "shrunk" && one["growth_bytes"] == -1000, "{one}");
    check!(one["freed"]["blocks"] == 1 && one["new"]["blocks"] == 0 && one["before"]["blocks"] == 10, "{one}");
    check!(two["change"] == "new" && two["growth_blocks"] == 1 && two["growth_bytes"] == 1000, "{two}");
    check!(of_type(&found, "change").len() == 2, "more has changed: {found:?}");
    check!(
        found[1]["growth_bytes"] == 0 && found[1]["new"]["blocks"] == 1 && found[1]["freed"]["blocks"] == 1,
        "{}",
        found[1]
    );

    let found = read("diff", &*b, &["--group-by", "fn", &a])?;
    let growth: Vec<_> = of_type(&found, "change")
        .iter()
        .map(|line| (line["function"].as_str().unwrap_or_default(), line["growth_bytes"].as_i64()))
        .collect();
    check!(growth == [("second", Some(1000)), ("first", Some(-1000))], "{found:?}");
    let found = read("diff", &*b, &["--where", "fn == \"first\"", &a])?;
    check!(of_type(&found, "change").len() == 1 && found[1]["growth_bytes"] == -1000, "{found:?}");

    let program = program.to_string_lossy();
    let text = tell(&["diff", &program, &a, &b])?.good()?.out();
    for part in [" in 10 blocks", "New       : 1 block, 1,000 B, in B but not in A", "by number", "reuse.c:"] {
        check!(text.contains(part), "{part} is missing in {text}");
    }
    let text = tell(&["diff", "--blocks", &a, &b])?.good()?.out();
    check!(text.contains("New allocations in") && text.contains("but freed in"), "{text}");
    let ecos = tell(&["diff", "-f", "%n bytes by %f1", &a, &b])?.good()?.out();
    let wanted = format!(
        "File {a} : 9K (10000 bytes) used in 10 allocations.\nFile {b} : 9K (10000 bytes) used in 10 allocations.\n\
         1 new allocations in {b} but not in {a}\n1 allocations in {a} but freed in {b}\n\n\
         New allocations in {b} but not in {a}\n1000 bytes by second\n\n\
         Allocations in {a} but freed in {b}\n1000 bytes by first\n"
    );
    check!(ecos == wanted, "{ecos} is not {wanted}");
    let ecos = tell(&["diff", "--format", "ecos", &program, &a, &b])?.good()?.out();
    check!(ecos.contains(" : malloc() 1000 bytes, actual size "), "{ecos}");
    touch(&scratch.path("end"))?;
    target.running.finish(PATIENCE)?.good().map(drop)
}

/// Two builds of it: `MORE` moves all lines, has one function make special ones of another, and leaks more.
const BUILDS: &str = r#"
#include <stdlib.h>
#ifdef MORE
/* Lines
   that
   move all others. */
__attribute__((noinline)) void *fresh(void) { return malloc(77); }
#else
__attribute__((noinline)) void *stale(void) { return malloc(33); }
#endif
__attribute__((noinline)) static void *table(int size, int unused) { return calloc(1, size + unused); }
__attribute__((noinline)) void *leak(void) { return malloc(500); }
void *volatile keep[64];
int main(void) {
    int at = 0;
#ifdef MORE
    keep[at++] = fresh();
    for (int more = 0; more < 20; more++) keep[at++] = leak();
#else
    keep[at++] = stale();
#endif
    for (int more = 0; more < 5; more++) keep[at++] = leak();
    for (int more = 0; more < 5; more++) keep[at++] = table(10 * more, 0);
    return 0;
}
"#;

#[test]
fn two_builds_are_compared_by_function() -> Result {
    let scratch = Scratch::new();
    for (name, flags) in [("old", &["-O1"][..]), ("new", &["-O2", "-DMORE", "-fno-optimize-sibling-calls"])] {
        let program = compile(&scratch, name, BUILDS, flags)?;
        run_cleanly(&scratch, &mut under_run(&scratch, name, &[], &program, &[]))?.good()?;
    }
    let [old, new] = ["old.hl", "new.hl"].map(|name| scratch.path(name).to_string_lossy().into_owned());
    let found = read("diff", &new, &[&old])?;
    check!(found[1]["one_run"] == false && found[1]["new"].is_null(), "{}", found[1]);
    let changes = of_type(&found, "change");
    let growth = |function| by_function(&found, function).map(|line| (&line["change"], line["growth_bytes"].as_i64()));
    check!(growth("leak")? == (&"grown".into(), Some(20 * 500)), "{:?}", growth("leak")?);
    check!(growth("fresh")? == (&"new".into(), Some(77)), "{:?}", growth("fresh")?);
    check!(growth("stale")? == (&"gone".into(), Some(-33)), "{:?}", growth("stale")?);
    check!(changes.len() == 3, "table and all else is as before: {changes:?}");
    check!(changes[0]["frames"][0]["function"] == "leak", "most growth first: {changes:?}");
    let refused = tell(&["diff", "--blocks", &old, &new])?;
    check!(refused.status.code() == Some(1) && refused.err().contains("different runs"), "{refused}");
    let text = tell(&["diff", &old, &new])?.good()?.out();
    check!(text.contains("by stack, across runs") && text.contains("Shrunk    : 1 stack, -33 B"), "{text}");
    check!(text.contains("+20 blocks") && text.contains("new.c:"), "{text}");
    Ok(())
}

/// Grows by a block every 2 ms, until a file is there.
const GROWING: &str = r#"
#include <stdlib.h>
#include <unistd.h>
void *volatile keep;
__attribute__((noinline)) void *grow(void) { return malloc(1000); }
int main(int count, char **words) {
    while (access(words[1], F_OK)) {
        keep = grow();
        usleep(2000);
    }
    return 0;
}
"#;

/// Whether `diff` sleeps until its next look: it polls for signals.
fn waits(pid: u32) -> bool {
    process::call(pid).starts_with("7 ")
}

/// Waits until a process has allocated some blocks more than now.
fn until_it_has_grown(pid: &str) -> Result {
    let allocations = || Stats::of(pid).map(|stats| stats.number("allocations"));
    let before = allocations()?;
    until("it grows", || allocations().is_ok_and(|now| now > before + 20))
}

#[test]
fn a_process_is_compared_with_itself() -> Result {
    let scratch = Scratch::new();
    let program = compile(&scratch, "growing", GROWING, &[])?;
    let end = scratch.path("end-now");
    let target = Target::start(&scratch, &program, &[end.to_string_lossy().into_owned()])?;
    let pid = target.pid.to_string();
    // So many intervals.
    let found = read("diff", &pid, &["--every", "500ms", "--count", "2"])?;
    let intervals = of_type(&found, "interval");
    check!(intervals.len() == 2 && of_type(&found, "diff").len() == 1, "{found:?}");
    check!(intervals.iter().all(|line| line["growth_blocks"].as_i64() > Some(0)), "{intervals:?}");
    let in_all: i64 = intervals.iter().filter_map(|line| line["growth_blocks"].as_i64()).sum();
    let last = of_type(&found, "diff")[0]["growth_blocks"].as_i64().unwrap_or(0);
    check!(last >= in_all, "{in_all} in intervals, {last} in all");
    // One.
    let found = read("diff", &pid, &["--after", "500ms"])?;
    check!(
        of_type(&found, "interval").is_empty() && by_function(&found, "grow")?["growth_blocks"].as_i64() > Some(0),
        "{found:?}"
    );
    // The same by function, in every form.
    let found =
        read("diff", &pid, &["--every", "500ms", "--count", "2", "--group-by", "fn", "--where", "size == 1000"])?;
    let changes = of_type(&found, "change");
    check!(of_type(&found, "interval").len() == 2 && of_type(&found, "diff").len() == 1, "{found:?}");
    check!(found[0]["where"] == "size == 1000" && changes.len() == 3, "one each: {found:?}");
    check!(
        changes.iter().all(|line| line["function"] == "grow" && line["growth_blocks"].as_i64() > Some(0)),
        "{found:?}"
    );
    let ran = tell(&["diff", "--every", "500ms", "--count", "1", "--group-by", "fn,kind", &pid])?.good()?.out();
    check!(ran.contains("In all:") && ran.matches("malloc").count() == 2 && ran.contains("FUNCTION"), "{ran}");
    let ran = tell(&["diff", "--every", "500ms", "--count", "2", "--group-by", "fn", "--csv", &pid])?.good()?.out();
    let rows: Vec<&str> = ran.lines().skip(1).collect();
    check!(rows.len() == 2 && rows[0].starts_with("1,") && rows[1].starts_with("2,"), "{ran}");
    let ran = tell(&["diff", "--after", "500ms", "--group-by", "fn", &pid])?.good()?.out();
    check!(ran.contains("grow") && !ran.contains("In all:"), "{ran}");
    // Until somebody presses Ctrl-C.
    let mut every = command(heapledger());
    every.args(["diff", "--every", "10s", "--json", &pid]);
    let running = process::start(every.stdin(Stdio::null()))?;
    until("it has looked once, and waits", || waits(running.pid()))?;
    until_it_has_grown(&pid)?;
    process::kill(running.pid().into(), "INT")?;
    let found = lines("diff", &running.finish(PATIENCE)?.good()?.stdout)?;
    check!(by_function(&found, "grow")?["change"].is_string(), "{found:?}");
    // Until the process ends.
    let mut every = command(heapledger());
    let running = process::start(every.args(["diff", "--every", "100ms", &pid]).stdin(Stdio::null()))?;
    until("it has looked once, and waits", || waits(running.pid()))?;
    until_it_has_grown(&pid)?;
    touch(&end)?;
    let ran = running.finish(PATIENCE)?.good()?;
    check!(ran.out().contains("In all:") && ran.out().contains("grow (growing.c:"), "{ran}");
    target.running.finish(PATIENCE)?.good()?;
    let refused = tell(&["diff", "--every", "1s", &scratch.path("end.hl").to_string_lossy()])?;
    check!(refused.status.code() == Some(1) && refused.err().contains("has ended"), "{refused}");
    Ok(())
}

#[test]
fn what_redis_keeps_is_found() -> Result {
    let scratch = Scratch::new();
    let (Some(server), Some(client)) = (find(&["redis-server"]), find(&["redis-cli"])) else {
        skip("a growing list in redis", "redis is not installed");
        return Ok(());
    };
    let socket = scratch.path("socket").to_string_lossy().into_owned();
    let arguments = ["--port", "0", "--save", "", "--unixsocket", &socket].map(str::to_owned);
    let target = Target::start(&scratch, &server, &arguments)?;
    let ask = |words: &[&str]| process::run(command(&client).args(["-s", &socket]).args(words));
    until("it answers", || ask(&["ping"]).is_ok_and(|ran| ran.out() == "PONG\n"))?;
    let push = "for i = 1, 3000 do redis.call('rpush', 'jobs', string.rep('x', 200) .. i) end";
    // Scripts, clients and the like are there before the first look.
    ask(&["eval", &push.replace("3000", "10"), "0"])?.good()?;
    let a = target.snapshot(&scratch, "a", &["--freeze"])?;
    ask(&["eval", push, "0"])?.good()?;
    let b = target.snapshot(&scratch, "b", &["--freeze"])?;
    let found = read("diff", &b, &[&a.to_string_lossy()])?;
    let first = *of_type(&found, "change").first().ok_or("nothing has changed")?;
    let frames = first["frames"].as_array().ok_or("no frames")?;
    check!(
        frames.iter().any(|frame| frame["function"] == "quicklistPushTail"),
        "it is not the list that grows: {first}"
    );
    check!(first["growth_bytes"].as_i64() > Some(3000 * 200 / 2), "{first}");
    process::kill(target.pid.into(), "TERM")?;
    target.running.finish(PATIENCE)?.good().map(drop)
}
