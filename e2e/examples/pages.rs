//! Pages of `flame` in Chromium: how long frames take while somebody zooms and searches, and what they look like: `cargo xtask pages`.
//!
//! The first part takes a ledger with 4,000 stacks at least, records every frame and every task of the page while it
//! zooms in and out, scrolls and searches letter by letter, and fails if one took longer than [`FRAME_MAX`]. The second
//! writes `docs/pictures/`: each page at two widths, light and dark. Look at them.

use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use heapledger_e2e::browser::Browser;
use heapledger_e2e::process;
use heapledger_e2e::programs::{Load, prepare};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, find, heapledger, root};
use heapledger_e2e::{Result, check};
use serde_json::Value;

/// Longest frame, in milliseconds: what is shorter a person takes for at once.
const FRAME_MAX: f64 = 50.0;
/// Stacks that the page has at least.
const STACKS: usize = 4000;

/// Told, and not judged: the whole tree is built anew.
const TURNING: &str = "upside down, libraries, and back";

/// In the page: notes when each frame begins, how long its callbacks took, and every task that the browser itself calls long (50 ms).
const RECORD: &str = "(() => {
    const own = window.recorded = { frames: [], long: [], on: true };
    new PerformanceObserver((list) => list.getEntries().forEach((entry) => own.long.push(entry.duration)))
        .observe({ type: 'longtask' });
    let last = performance.now();
    const frame = () => {
        const began = performance.now();
        own.frames.push(began - last);
        last = began;
        if (own.on) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    return true;
})()";

/// What was recorded, and nothing of it any more.
const RECORDED: &str = "(() => {
    const { frames, long } = window.recorded;
    const all = { frames: frames.splice(0), long: long.splice(0) };
    return all;
})()";

struct Taken {
    what: &'static str,
    frames: usize,
    longest: f64,
    tasks: Vec<f64>,
}

fn taken(browser: &mut Browser, what: &'static str) -> Result<Taken> {
    let value = browser.value(RECORDED)?;
    let numbers =
        |key: &str| -> Vec<f64> { value[key].as_array().into_iter().flatten().filter_map(Value::as_f64).collect() };
    let frames = numbers("frames");
    let longest = frames.iter().copied().fold(0.0, f64::max);
    Ok(Taken { what, frames: frames.len(), longest, tasks: numbers("long") })
}

/// The ledger of a program with that many stacks, and how many these are.
fn large(scratch: &Scratch) -> Result<(PathBuf, usize)> {
    for name in ["git", "perl", "cc1", "python3", "cc1plus"] {
        let Some(program) = prepare(name, scratch, Load::Quick)? else { continue };
        let (ran, ledger) = program.under_run(scratch, &[])?;
        ran.good()?;
        let stacks = process::run(command(heapledger()).args(["flame", "--json"]).arg(&ledger))?.good()?.out();
        let stacks = stacks.matches("\"type\":\"stack\"").count();
        println!("{name}: {stacks} stacks");
        if stacks >= STACKS {
            return Ok((ledger, stacks));
        }
    }
    Err(format!("no program here has {STACKS} stacks"))
}

/// Writes a page of `ledger`, and returns its path.
fn page(scratch: &Scratch, ledger: &[&Path], name: &str, words: &[&str]) -> Result<PathBuf> {
    let out = scratch.path(name);
    process::run(command(heapledger()).arg("flame").args(words).arg("-o").arg(&out).args(ledger))?.good()?;
    Ok(out)
}

fn measured(scratch: &Scratch, browser: &mut Browser) -> Result<Vec<Taken>> {
    let (ledger, stacks) = large(scratch)?;
    let page = page(scratch, &[&ledger], "large.html", &["--by", "allocated"])?;
    browser.look(1400, 900, false)?;
    browser.open(&page, "")?;
    browser.drawn()?;
    println!("{stacks} stacks, a page of {} KiB", std::fs::metadata(&page).map_or(0, |meta| meta.len() >> 10));
    browser.value(RECORD)?;
    browser.drawn()?;
    taken(browser, "")?;
    let mut all = Vec::new();
    for _ in 0..12 {
        browser.press("ArrowDown")?;
        browser.press("Enter")?;
    }
    all.push(taken(browser, "zooming in, 12 times")?);
    for _ in 0..12 {
        browser.value("history.back()")?;
        browser.drawn()?;
    }
    all.push(taken(browser, "and out")?);
    // A search leaves what is zoomed to and scrolled to where it is.
    browser.press("ArrowDown")?;
    browser.press("Enter")?;
    let place = "document.getElementById('path').textContent + ' at ' + document.getElementById('graph').scrollTop";
    browser.value("document.getElementById('graph').scrollTop = 36")?;
    let before = browser.text(place)?;
    browser.press("/")?;
    for letter in ["t", "r", "e", "e", "_"] {
        browser.enter(letter)?;
    }
    let after = browser.text(place)?;
    check!(
        before == after && !browser.text("document.getElementById('found').textContent")?.is_empty(),
        "{before}: {after}"
    );
    all.push(taken(browser, "searching, letter by letter")?);
    browser.press("Enter")?;
    for y in (200..800).step_by(25) {
        browser.point(500.0, f64::from(y))?;
    }
    all.push(taken(browser, "the pointer over it")?);
    browser.value(
        "(async () => { const graph = document.getElementById('graph'); for (let y = 0; y < 900; y += 30) \
                   { graph.scrollTop = y; await new Promise(requestAnimationFrame); } return true; })()",
    )?;
    all.push(taken(browser, "scrolling")?);
    browser.press("i")?;
    browser.press("s")?;
    browser.press("s")?;
    browser.press("i")?;
    all.push(taken(browser, TURNING)?);
    Ok(all)
}

/// What the pictures are of, a page's name and its file: programs whose functions have names without debug information.
fn pictured(scratch: &Scratch) -> Result<Vec<(&'static str, PathBuf)>> {
    let node = prepare("node", scratch, Load::Quick)?.ok_or("node is not installed")?;
    let (ran, ledger) = node.under_run(scratch, &[])?;
    ran.good()?;
    let perl = prepare("perl", scratch, Load::Quick)?.ok_or("perl is not installed")?;
    let (ran, newer) = perl.under_run(scratch, &[])?;
    ran.good()?;
    let older = scratch.path("older.hl");
    let mut run = command(heapledger());
    run.args(["run", "-q", "--ledger-dir"]).arg(scratch.live()).arg("-o").arg(&older).arg("--");
    run.arg(find(&["perl"]).ok_or("perl is not installed")?).args(["-e", "my %h = map { $_ => [1 .. 20] } 1 .. 4000;"]);
    process::run(run.stdout(Stdio::null()))?.good()?;
    let diff = ["--diff", &older.to_string_lossy(), "--by", "peak"];
    Ok(vec![
        ("flame", page(scratch, &[&ledger], "flame.html", &["--at", "peak"])?),
        ("flame-compared", page(scratch, &[&newer], "compared.html", &diff)?),
    ])
}

fn pictures(scratch: &Scratch, browser: &mut Browser) -> Result {
    let directory = root().join("docs/pictures");
    std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    for (name, page) in pictured(scratch)? {
        for (width, height) in [(1400, 800), (600, 800)] {
            for (dark, scheme) in [(false, "light"), (true, "dark")] {
                browser.look(width, height, dark)?;
                browser.open(&page, "")?;
                let path = directory.join(format!("{name}-{width}-{scheme}.png"));
                let mut decode = command("base64");
                let shot = scratch.path("shot");
                std::fs::write(&shot, browser.screenshot()?).map_err(|error| error.to_string())?;
                let png = process::run(decode.arg("-d").arg(&shot))?.good()?.stdout;
                std::fs::write(&path, &png).map_err(|error| error.to_string())?;
                println!("{}: {} KiB", path.display(), png.len() >> 10);
            }
        }
    }
    Ok(())
}

fn pages() -> Result<bool> {
    let scratch = Scratch::new();
    let mut browser = Browser::start(&scratch.path("profile"))?.ok_or("there is no chromium")?;
    let mut is_quick = true;
    for Taken { what, frames, longest, tasks } in measured(&scratch, &mut browser)? {
        let slow = what != TURNING && (longest > FRAME_MAX || !tasks.is_empty());
        is_quick &= !slow;
        let tasks: Vec<String> = tasks.iter().map(|task| format!("{task:.0} ms")).collect();
        let tasks =
            if tasks.is_empty() { "no task of 50 ms".to_owned() } else { format!("long tasks: {}", tasks.join(", ")) };
        println!(
            "{what}: {frames} frames, the longest {longest:.1} ms, {tasks}{}",
            if slow { "  TOO SLOW" } else { "" }
        );
    }
    pictures(&scratch, &mut browser)?;
    let problems = browser.problems()?;
    check!(problems.is_empty(), "the page complains: {problems:?}");
    Ok(is_quick)
}

fn main() -> ExitCode {
    match pages() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("a frame took longer than {FRAME_MAX} ms; on a busy machine try again");
            ExitCode::FAILURE
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}
