//! `top` in a real terminal, and as text, on programs that run.

use std::process::Stdio;

use heapledger_e2e::ledger::lines;
use heapledger_e2e::process::{self, PATIENCE, Running, kill, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::terminal::Terminal;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check, victim};

const UTF8: &[(&str, &str)] = &[("LC_ALL", "C.UTF-8"), ("NO_COLOR", "")];

/// `growing` under `run`, so many rounds of 10 ms, and then until its input ends; its process id, once it is recorded.
fn growing(scratch: &Scratch, rounds: u32) -> Result<(Running, u32)> {
    let program = victim::named("growing")?.build()?;
    let arguments = [rounds.to_string(), "10".to_owned(), "stay".to_owned()];
    let mut command = under_run(scratch, "x", &[], &program, &arguments);
    let running = process::start(command.stdin(Stdio::piped()))?;
    let mut pid = 0;
    until("a program that is recorded", || {
        pid = process::children(running.pid()).first().copied().unwrap_or(0);
        pid != 0 && tell(&["stats", &pid.to_string()]).is_ok_and(|ran| ran.status.success())
    })?;
    Ok((running, pid))
}

fn tell(words: &[&str]) -> Result<process::Ran> {
    process::run(command(heapledger()).args(words))
}

/// A figure such as `1.50 KiB` or `1,234` as a number.
fn figure(text: &str) -> f64 {
    let plain = text.trim_start_matches('+').replace(',', "");
    let (number, unit) = plain.split_once(' ').unwrap_or((&plain, ""));
    let factor = match unit {
        "" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        _ => f64::NAN,
    };
    number.parse().map_or(f64::NAN, |number: f64| number * factor)
}

/// The figures of the row with this name, each with its unit, and the name.
fn row(screen: &str, name: &str) -> Option<Vec<String>> {
    let line = screen.lines().find(|line| line.split_whitespace().last() == Some(name))?;
    let mut figures: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        match figures.last_mut().filter(|_| ["B", "KiB", "MiB", "GiB", "ns", "µs", "us", "ms", "s"].contains(&word)) {
            Some(figure) => *figure += &format!(" {word}"),
            None => figures.push(word.to_owned()),
        }
    }
    Some(figures)
}

#[test]
fn growth_marks_and_stacks_on_a_screen() -> Result {
    let (scratch, terminal) = (Scratch::new(), Terminal::new(100, 30, UTF8)?);
    let (running, pid) = growing(&scratch, 100_000)?;
    terminal.line(&format!("{} top --interval 0.3 {pid}", heapledger().display()))?;
    // 1,000 bytes in ten orders every 10 ms, a little less often on a busy machine.
    let screen = terminal.until_screen("growth of keep_order", |screen| {
        row(screen, "keep_order").is_some_and(|figures| figure(&figures[2]) > 1000.0)
    })?;
    check!(screen.starts_with(&format!("growing, pid {pid}  running")), "{screen}");
    check!(screen.contains("allocations/s") && screen.contains("█"), "{screen}");
    let figures = row(&screen, "keep_order").unwrap_or_default();
    let before = figure(&figures[0]);
    // Looks are 0.3 s apart at least.
    check!(figure(&figures[2]) <= before / 0.3 * 1.01, "it cannot grow as fast as that: {screen}");
    // What is shown behind the mark is less than all, and grows.
    terminal.press(&["m"])?;
    let marked = terminal.until("since the mark")?;
    check!(marked.contains("NEW"), "{marked}");
    terminal.until_screen("something new", |screen| {
        row(screen, "keep_order").is_some_and(|figures| figure(&figures[0]) > 0.0)
    })?;
    terminal.press(&["p"])?;
    let paused = terminal.until("paused")?;
    let all = tell(&["stats", "--json", &pid.to_string()])?.good()?.out();
    let new = figure(&row(&paused, "keep_order").ok_or("no row")?[0]);
    check!(new >= 100.0 && before >= 100.0, "{new} new bytes, {before} before: {paused}");
    let live = all.split("\"live_bytes\":").nth(1).and_then(|rest| rest.split(',').next()?.parse::<f64>().ok());
    check!(live.is_some_and(|live| new < live), "{new} new bytes of {live:?}");
    terminal.press(&["p", "M"])?;
    terminal.until_screen("all blocks", |screen| screen.contains("LIVE") && !screen.contains("since the mark"))?;
    // Into the row, and into its stack; the source is there.
    terminal.press(&["/"])?;
    terminal.press(&["-l", "keep_o"])?;
    terminal.press(&["Enter"])?;
    terminal.until_screen("only one row", |screen| row(screen, "keep_item").is_none())?;
    terminal.press(&["Enter"])?;
    terminal.until("function keep_order by stack")?;
    terminal.press(&["Enter"])?;
    terminal.until("growing.c:9")?;
    let stack = terminal.until("return opaque(malloc(100))")?;
    check!(stack.contains("main") && stack.contains("oldest"), "{stack}");
    terminal.press(&["Escape"])?;
    terminal.until("function keep_order by stack")?;
    // Other groups, conditions, the help.
    // One after the other: two that come at once are one key.
    terminal.press(&["Escape"])?;
    terminal.until_screen("functions by name", |screen| {
        screen.contains("/keep_o") && !screen.contains("function keep_order by stack")
    })?;
    terminal.press(&["Escape"])?;
    terminal.until_screen("all functions", |screen| row(screen, "keep_item").is_some())?;
    terminal.press(&["6"])?;
    terminal.until_screen("kinds", |screen| row(screen, "malloc").is_some())?;
    terminal.press(&["1", "f"])?;
    terminal.press(&["-l", "size == 50"])?;
    terminal.press(&["Enter"])?;
    terminal.until_screen("items only", |screen| {
        screen.contains("where size == 50") && row(screen, "keep_item").is_some() && row(screen, "keep_order").is_none()
    })?;
    terminal.press(&["?"])?;
    terminal.until("WHAT ROWS ARE")?;
    terminal.press(&["Escape"])?;
    // The program ends; the view stays, and knows how.
    kill(i64::from(pid), "KILL")?;
    running.finish(PATIENCE)?;
    terminal.until("killed by signal 9")?;
    terminal.press(&["q"])?;
    terminal.until("ready>")?;
    terminal.line("echo status $?")?;
    terminal.until("status 0").map(drop)
}

#[test]
fn the_terminal_is_always_given_back() -> Result {
    let (scratch, terminal) = (Scratch::new(), Terminal::new(80, 24, &[("LC_ALL", "C"), ("NO_COLOR", "1")])?);
    let (_running, pid) = growing(&scratch, 100_000)?;
    let start = |how: &str| -> Result<u32> {
        terminal.line(&format!("clear; {} top {pid}{how}", heapledger().display()))?;
        let screen = terminal.until_screen("a table", |screen| row(screen, "keep_order").is_some())?;
        check!(screen.is_ascii(), "this locale knows ASCII only: {screen}");
        let mut own = None;
        until("the viewer", || {
            let out = process::run(command("pgrep").args(["-n", "-f", &format!("top {pid}$")]));
            own = out.ok().and_then(|ran| ran.out().trim().parse().ok());
            own.is_some()
        })?;
        own.ok_or_else(|| "no viewer".to_owned())
    };
    terminal.line("clear; stty -g | cksum")?;
    let sum = |screen: &str| {
        screen.lines().find(|line| line.starts_with(|first: char| first.is_ascii_digit())).map(str::to_owned)
    };
    let sane = sum(&terminal.until_screen("a sum", |screen| sum(screen).is_some())?).unwrap_or_default();
    let check_sane = || {
        terminal.line("clear; stty -g | cksum")?;
        terminal.until(&sane).map(drop)
    };
    for (signal, status) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
        let own = start("")?;
        kill(i64::from(own), signal)?;
        terminal.until("ready>")?;
        terminal.line("echo status $?")?;
        terminal.until(&format!("status {status}"))?;
        check_sane()?;
    }
    // Stopped by a key and by a signal, and continued.
    let own = start("")?;
    terminal.press(&["C-z"])?;
    terminal.until("Stopped")?;
    check_sane()?;
    terminal.line("fg")?;
    terminal.until_screen("the table again", |screen| row(screen, "keep_order").is_some())?;
    kill(i64::from(own), "TSTP")?;
    terminal.until("Stopped")?;
    terminal.line("clear; fg")?;
    terminal.until_screen("the table again", |screen| row(screen, "keep_order").is_some())?;
    // Small and large.
    terminal.resize(20, 5)?;
    terminal.until_screen("a small table", |screen| screen.lines().any(|line| line.ends_with("keep_order")))?;
    terminal.resize(140, 40)?;
    terminal.until_screen("a large table", |screen| screen.contains("OLDEST") && screen.contains("? help"))?;
    terminal.press(&["C-c"])?;
    terminal.until("ready>")?;
    check_sane()
}

#[test]
fn without_a_terminal_looks_are_text() -> Result {
    let scratch = Scratch::new();
    let (mut running, pid) = growing(&scratch, 300)?;
    let pid = pid.to_string();
    let refused = tell(&["top", &pid])?;
    check!(refused.status.code() == Some(1) && refused.err().contains("--batch 1"), "{refused}");
    let text = tell(&["top", "--batch", "2", "--interval", "0.5", "--sort", "rate", &pid])?.good()?.out();
    check!(text.matches("\ngrowing, pid").count() == 1 && text.starts_with("growing, pid"), "{text}");
    check!(text.contains("GROWTH/s") && text.contains("allocations/s"), "{text}");
    let marked = tell(&["top", "--batch", "2", "--interval", "0.3", "--mark", &pid])?.good()?.out();
    check!(marked.contains("\nsince the mark") && marked.contains("   NEW "), "{marked}");
    // It is looked at while it runs, and ends then.
    let looked = scratch.path("looks");
    let mut batch = command(heapledger());
    batch.args(["top", "--batch", "0", "--interval", "0.2", "--json", &pid]).stdin(Stdio::null());
    let out = std::fs::File::create(&looked).map_err(|error| error.to_string())?;
    let mut batch = batch.stdout(out).spawn().map_err(|error| error.to_string())?;
    let seen = || std::fs::read(&looked).unwrap_or_default();
    until("a first look", || seen().contains(&b'\n') && String::from_utf8_lossy(&seen()).contains("\"look\""))?;
    drop(running.child.stdin.take());
    check!(batch.wait().is_ok_and(|status| status.success()), "top fails");
    let all = lines("top", &seen())?;
    let looks: Vec<_> = all.iter().filter(|line| line["type"] == "look").collect();
    let last = looks.last().ok_or("no look")?;
    check!(looks.len() >= 2 && last["state"] == "ended", "{} looks, the last: {last}", looks.len());
    let order = last["rows"].as_array().and_then(|rows| rows.iter().find(|row| row["label"] == "keep_order"));
    check!(order.is_some_and(|row| row["live_blocks"] == 3000 && row["live_bytes"] == 300_000), "{last}");
    running.finish(PATIENCE)?;
    let finished = scratch.path("x.hl");
    let still = tell(&["top", "--batch", "3", "--group-by", "kind", &finished.to_string_lossy()])?.good()?.out();
    check!(still.contains("ended with status 0") && still.matches("LIVE").count() == 1, "{still}");
    check!(!still.contains("GROWTH"), "nothing grows in a finished ledger: {still}");
    for wrong in [&["--interval", "0"][..], &["--group-by", "colour"], &["--where", "sise > 1"], &["--batch", "-1"]] {
        let ran = tell(&[&["top"], wrong, &[&pid]].concat())?;
        check!(ran.status.code() == Some(2), "{wrong:?}: {ran}");
    }
    check!(tell(&["top", "--json", &pid])?.status.code() == Some(2), "--json without --batch");
    check!(tell(&["top", "--batch", "1", "/dev/null"])?.status.code() == Some(1), "no ledger");
    Ok(())
}
