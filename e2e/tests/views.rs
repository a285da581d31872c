//! Call trees and flame graphs of a real program, the page in a real browser.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use heapledger_e2e::browser::Browser;
use heapledger_e2e::ledger::{Stats, read};
use heapledger_e2e::process::{self, Ran};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, find, heapledger};
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check, skip, victim};

/// A function of the victim, whose name is a trap.
const MARKUP: &str = "</script><b>x;y&z";

/// A finished ledger of `odd_names`.
fn ledger(scratch: &Scratch, name: &str) -> Result<PathBuf> {
    let program = victim::named("odd_names")?.build()?;
    run_cleanly(scratch, &mut under_run(scratch, name, &[], &program, &[]))?.good()?;
    Ok(scratch.path(&format!("{name}.hl")))
}

fn tell(scratch: &Scratch, words: &[&str]) -> Result<Ran> {
    process::run(command(heapledger()).args(words).current_dir(scratch.work()))
}

#[test]
fn the_tree_and_the_totals_agree() -> Result {
    let scratch = Scratch::new();
    let path = ledger(&scratch, "x")?;
    let stats = Stats::of(&path)?;
    for more in [&[][..], &["--inverted"], &["--threads"], &["--threads", "--inverted"], &["--hide", "grow|start"]] {
        let lines = read("tree", &path, more)?;
        let root = &lines[1];
        check!(root["kind"] == "root", "{more:?}: the first node is {root}");
        let figures = [
            ("live_bytes", "live_bytes"),
            ("live_blocks", "live_blocks"),
            ("allocated_bytes", "bytes_allocated"),
            ("allocated_blocks", "allocations"),
            ("freed_bytes", "bytes_freed"),
            ("freed_blocks", "frees"),
        ];
        for (own, total) in figures {
            check!(root[own] == stats.number(total), "{more:?}: {own} is {}, {total} {}", root[own], stats.0[total]);
        }
        let blocks = |name: &str, figure: &str| {
            let nodes = lines.iter().filter(|line| line["function"].as_str().is_some_and(|own| own.contains(name)));
            nodes.map(|node| node[figure].as_u64().unwrap_or(0)).max().unwrap_or(0)
        };
        check!(blocks(MARKUP, "live_bytes") == 10_000, "{more:?}: {MARKUP}");
        check!(blocks("churn", "freed_blocks") == 200 && blocks("churn", "live_blocks") == 0, "{more:?}: churn");
        // Upside down there is a main below each function that allocates.
        let least = if more.contains(&"--inverted") { 30 } else { 40 };
        check!(blocks("main", "live_blocks") >= least, "{more:?}: main");
        let hidden = more.contains(&"--hide");
        check!((blocks("grow", "live_bytes") == 3_000) != hidden, "{more:?}: grow");
    }
    // Ten blocks of 1000 bytes live; all that was freed is smaller.
    let lines = read("tree", &path, &["--where", "size == 1000"])?;
    check!(lines[0]["where"] == "size == 1000", "{}", lines[0]);
    check!(lines[1]["allocated_blocks"] == 10 && lines[1]["freed_blocks"] == 0, "{}", lines[1]);
    let text = tell(&scratch, &["tree", "x.hl"])?.good()?.out();
    for part in ["call tree of odd_names", "main  odd_names.cc:", "odd_names.cc:17", MARKUP] {
        check!(text.contains(part), "no {part} in\n{text}");
    }
    Ok(())
}

#[test]
fn what_is_typed_wrongly() -> Result {
    let scratch = Scratch::new();
    ledger(&scratch, "x")?;
    for (words, status) in [
        (&["tree", "x.hl", "--min", "101%"][..], 2),
        (&["tree", "x.hl", "--hide", "("], 2),
        (&["tree", "x.hl", "--by", "size"], 2),
        (&["tree", "x.hl", "--where", "siz > 3"], 2),
        (&["flame", "x.hl", "--where", "siz > 3"], 2),
        (&["tree", "no.hl"], 1),
        (&["flame", "no.hl"], 1),
        (&["flame", "x.hl", "--diff", "no.hl"], 1),
        (&["flame", "x.hl", "-o", "x.png"], 1),
        (&["flame", "x.hl", "-o", "no/x.html"], 1),
        (&["flame", "x.hl", "-o", "/dev/full", "--format", "svg"], 1),
    ] {
        let ran = tell(&scratch, words)?;
        check!(ran.status.code() == Some(status), "{words:?}: {ran}");
        check!(ran.err().starts_with("heapledger: ") && !ran.err().contains("panicked"), "{words:?}: {ran}");
        check!(!ran.err().contains("os error"), "{words:?}: {ran}");
    }
    // Nothing is replaced unasked.
    for name in ["x.html", "x.1.html"] {
        tell(&scratch, &["flame", "x.hl"])?.good()?;
        check!(scratch.path(name).exists(), "there is no {name}");
    }
    tell(&scratch, &["flame", "x.hl", "-o", "x.html"])?.good()?;
    check!(!scratch.path("x.2.html").exists(), "a file that is asked for is replaced");
    Ok(())
}

#[test]
fn pictures_and_lines() -> Result {
    let scratch = Scratch::new();
    ledger(&scratch, "x")?;
    ledger(&scratch, "y")?;
    for more in [&[][..], &["--inverted", "--by", "freed"], &["--upwards", "--threads"], &["--diff", "y.hl"]] {
        tell(&scratch, &[&["flame", "x.hl", "-o", "x.svg"], more].concat())?.good()?;
        let svg = fs::read_to_string(scratch.path("x.svg")).map_err(|error| error.to_string())?;
        check!(!svg.contains("<b>") && !svg.contains("<script") && !svg.contains("http-equiv"), "{more:?}: markup");
        check!(svg.contains("&lt;/script&gt;&lt;b&gt;x;y&amp;z") || more.len() == 3, "{more:?}: the name is not there");
        match find(&["xmllint"]) {
            Some(xmllint) => {
                process::run(command(xmllint).arg("--noout").arg(scratch.path("x.svg")))?.good()?;
            }
            None => skip("well-formed SVG", "there is no xmllint"),
        }
    }
    let out = tell(&scratch, &["flame", "x.hl", "--format", "folded"])?.good()?.out();
    let of = |name: &str| out.lines().find(|line| line.contains(name)).unwrap_or_default().to_owned();
    check!(of("x:y").ends_with(" 10000") && of("x:y").starts_with("main;"), "{out}");
    let whole = tell(&scratch, &["flame", "x.hl", "--format", "folded", "--wrappers"])?.good()?.out();
    check!(whole.lines().any(|line| line.starts_with("_start;") && line.contains(";main;")), "{whole}");
    let counts = out.lines().map(|line| line.rsplit(' ').next().and_then(|count| count.parse::<u64>().ok()));
    let sum: Option<u64> = counts.sum();
    check!(sum == Some(Stats::of(scratch.path("x.hl"))?.number("live_bytes")), "lines add up to {sum:?}");
    Ok(())
}

/// Moves the pointer down the left edge of the graph until a function of this name lies under it; where that is.
fn find_row(browser: &mut Browser, name: &str) -> Result<(f64, f64)> {
    let edge = |browser: &mut Browser, side: &str| {
        let expression = format!("document.getElementById('graph').getBoundingClientRect().{side}");
        // A click is at a whole pixel.
        Ok::<f64, String>(browser.value(&expression)?.as_f64().unwrap_or(0.0).ceil())
    };
    let (left, top, bottom) = (edge(browser, "left")?, edge(browser, "top")?, edge(browser, "bottom")?);
    let mut y = top + 6.0;
    while y < bottom {
        browser.point(left + 20.0, y)?;
        if browser.text("document.querySelector('#detail .name').textContent")? == name {
            return Ok((left + 20.0, y));
        }
        y += 9.0;
    }
    Err(format!("{name} is nowhere at the left edge"))
}

/// On a terminal it begins with who holds the memory; elsewhere, and where blocks are asked for, each stands by itself.
#[test]
fn blocks_are_added_up_on_a_terminal() -> Result {
    let scratch = Scratch::new();
    ledger(&scratch, "x")?;
    let Some(script) = find(&["script"]) else {
        skip("dump on a terminal", "there is no script(1)");
        return Ok(());
    };
    let shown = |words: &str| {
        let line = format!("'{}' dump --no-pager --color never {words} x.hl", heapledger().display());
        let ran = process::run(command(&script).args(["-qec", &line, "/dev/null"]).current_dir(scratch.work()))?;
        Ok::<_, String>(ran.good()?.out())
    };
    let first = shown("")?;
    check!(first.contains("FUNCTION") && first.contains("--blocks") && !first.contains(" : malloc "), "{first}");
    for words in ["--blocks", "--sort size", "--limit 5"] {
        let blocks = shown(words)?;
        check!(blocks.contains("actual size") && !blocks.contains("FUNCTION"), "{words}: {blocks}");
    }
    let elsewhere = tell(&scratch, &["dump", "x.hl"])?.good()?.out();
    check!(elsewhere.contains("actual size") && !elsewhere.contains("FUNCTION"), "{elsewhere}");
    Ok(())
}

#[test]
fn the_page_in_a_browser() -> Result {
    let scratch = Scratch::new();
    let path = ledger(&scratch, "x")?;
    let Some(mut browser) = Browser::start(&scratch.path("profile"))? else {
        skip("the page in a browser", "there is no chromium");
        return Ok(());
    };
    tell(&scratch, &["flame", "x.hl"])?.good()?;
    let page = scratch.path("x.html");
    browser.look(1280, 800, false)?;
    browser.open(&page, "")?;
    let text = |id: &str| format!("document.getElementById('{id}').textContent");
    let live = Stats::of(&path)?.number("live_blocks");
    check!(browser.text("document.title")?.starts_with("Heap of odd_names, pid "), "the title");
    let total = browser.text(&text("total"))?;
    check!(total.contains(&format!(" in {live} blocks live")), "{total}");
    check!(browser.value("document.scripts.length")? == 2, "a name has become markup");
    check!(
        browser.value("document.querySelectorAll('#detail b, main b, h1 b').length")? == 0,
        "a name has become bold"
    );

    // A click zooms, the address tells, and the browser's own way back leads back.
    let (x, y) = find_row(&mut browser, "main")?;
    check!(browser.text(&text("detail"))?.contains("odd_names.cc:"), "no line: {}", browser.text(&text("detail"))?);
    browser.click(x, y)?;
    let zoomed = browser.text(&text("path"))?;
    check!(zoomed == "all → main", "{zoomed}");
    let hash = browser.text("location.hash")?;
    check!(hash.contains("zoom="), "{hash}");
    browser.value("history.back()")?;
    browser.until("!document.getElementById('path').textContent.includes('main')")?;
    // Search by keys: `/`, then a name that is markup.
    browser.press("/")?;
    browser.enter("</SCRIPT>")?;
    let found = browser.text(&text("found"))?;
    check!(found.starts_with("1 function, 9.77 KiB ("), "{found}");
    browser.press("Escape")?;
    check!(browser.text(&text("found"))?.is_empty(), "the search is not over");
    browser.press("/")?;
    browser.enter("/^(main|churn)$/")?;
    check!(browser.text(&text("found"))?.starts_with("2 functions, "), "{}", browser.text(&text("found"))?);
    browser.press("Escape")?;

    // Upside down the allocating function is first; keys lead to it. All is the same as before.
    browser.point(5.0, 5.0)?;
    let all = browser.text(&text("detail"))?;
    browser.press("i")?;
    let turned = browser.text(&text("detail"))?;
    check!(all == turned && all.contains("(100%)"), "{all} has become {turned}");
    browser.press("ArrowDown")?;
    let first = browser.text("document.querySelector('#detail .name').textContent")?;
    browser.press("Enter")?;
    check!(browser.text(&text("path"))? == format!("all ← {first}"), "{}", browser.text(&text("path"))?);
    browser.press("Escape")?;
    // The fifth figure: freed bytes, all of them by churn.
    browser.press("5")?;
    check!(browser.text(&text("total"))?.contains("in 200 blocks freed"), "{}", browser.text(&text("total"))?);
    let (_, row) = find_row(&mut browser, "churn")?;
    check!(row > 100.0, "churn comes before the controls");
    // And flames that burn upwards, with what comes first at the bottom.
    browser.press("f")?;
    let bottom = "document.getElementById('graph').getBoundingClientRect().bottom - 8";
    let bottom = browser.value(bottom)?.as_f64().unwrap_or(0.0);
    browser.point(30.0, bottom)?;
    check!(browser.text("document.querySelector('#detail .name').textContent")? == "all", "the root is at the bottom");

    // What an address says is shown at once.
    let state = "zoom=main&search=grow&by=live_blocks";
    browser.open(&page, state)?;
    check!(browser.text(&text("path"))?.ends_with(" → main"), "{}", browser.text(&text("path"))?);
    check!(browser.text(&text("found"))?.starts_with("1 function, 30 ("), "{}", browser.text(&text("found"))?);
    check!(browser.text("document.getElementById('by').value")? == "live_blocks", "the figure");
    let problems = browser.problems()?;
    check!(problems.is_empty(), "the page complains: {problems:?}");
    // The same without units.
    tell(&scratch, &["flame", "--bytes", "-o", "exact.html", "x.hl"])?.good()?;
    browser.open(&scratch.path("exact.html"), "")?;
    let (total, bytes) = (browser.text(&text("total"))?, Stats::of(&path)?.number("live_bytes"));
    let digits: String = total.chars().take_while(|letter| *letter != ' ').filter(char::is_ascii_digit).collect();
    check!(digits == bytes.to_string() && !total.contains("iB"), "{total}, not {bytes} bytes");
    Ok(())
}

#[test]
fn libraries_are_a_key_away() -> Result {
    let scratch = Scratch::new();
    ledger(&scratch, "x")?;
    let Some(mut browser) = Browser::start(&scratch.path("profile"))? else {
        skip("libraries in a page", "there is no chromium");
        return Ok(());
    };
    tell(&scratch, &["flame", "x.hl"])?.good()?;
    let mode = fs::metadata(scratch.path("x.html")).map_err(|error| error.to_string())?.permissions().mode();
    check!(mode & 0o777 == 0o600, "others may read it: {mode:o}");
    browser.look(1280, 800, false)?;
    browser.open(&scratch.path("x.html"), "")?;
    let text = |id: &str| format!("document.getElementById('{id}').textContent");
    let total = browser.text(&text("total"))?;
    // What is left out is seen by a key, and leaves what is zoomed to; figures are the same with it and without it.
    let (x, y) = find_row(&mut browser, "main")?;
    browser.click(x, y)?;
    let figures = browser.text(&text("detail"))?;
    browser.press("s")?;
    check!(browser.text(&text("total"))? == total, "the total is another: {}", browser.text(&text("total"))?);
    browser.press("Escape")?;
    find_row(&mut browser, "_start")?;
    let (x, y) = find_row(&mut browser, "main")?;
    browser.click(x, y)?;
    let whole = browser.text(&text("path"))?;
    check!(whole.starts_with("all → _start → ") && whole.ends_with(" → main"), "{whole}");
    check!(browser.text(&text("detail"))? == figures, "{figures} has become {}", browser.text(&text("detail"))?);
    browser.press("s")?;
    check!(browser.text(&text("path"))? == "all → main", "{} is zoomed to", browser.text(&text("path"))?);
    // Beside the pointer stands what lies under it.
    find_row(&mut browser, "main")?;
    check!(
        browser.text(&text("tip"))?.starts_with("main"),
        "beside the pointer stands {}",
        browser.text(&text("tip"))?
    );
    check!(browser.text(&text("legend"))?.contains("odd_names"), "{}", browser.text(&text("legend"))?);
    let problems = browser.problems()?;
    check!(problems.is_empty(), "the page complains: {problems:?}");
    Ok(())
}

/// How many colours are in the graph.
const COLOURS: &str = "(() => {
    const canvas = document.getElementById('canvas'), all = new Set();
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    for (let i = 0; i < pixels.length; i += 4) all.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
    return all.size;
})()";

#[test]
fn every_window_dark_and_light() -> Result {
    let scratch = Scratch::new();
    ledger(&scratch, "x")?;
    ledger(&scratch, "y")?;
    let Some(mut browser) = Browser::start(&scratch.path("profile"))? else {
        skip("every window, dark and light", "there is no chromium");
        return Ok(());
    };
    tell(&scratch, &["flame", "x.hl", "-o", "one.html", "--threads"])?.good()?;
    tell(&scratch, &["flame", "x.hl", "--diff", "y.hl", "-o", "two.html"])?.good()?;
    tell(&scratch, &["flame", "x.hl", "-o", "picture.svg"])?.good()?;
    let mut seen = Vec::new();
    for name in ["one.html", "two.html", "picture.svg"] {
        for (width, height) in [(1280, 800), (480, 800)] {
            for dark in [false, true] {
                let what = format!("{name}, {width} wide, {}", if dark { "dark" } else { "light" });
                browser.look(width, height, dark)?;
                browser.open(&scratch.path(name), "")?;
                let shot = browser.screenshot()?;
                check!(!seen.contains(&shot), "{what}: it looks like another one");
                seen.push(shot);
                if name.ends_with(".html") {
                    let wide = browser.value("document.documentElement.scrollWidth")?;
                    check!(wide.as_u64() <= Some(u64::from(width)), "{what}: it is {wide} wide");
                    let high = browser.value("document.getElementById('graph').clientHeight")?;
                    check!(high.as_u64() >= Some(200), "{what}: the graph is {high} high");
                    let colours = browser.value(COLOURS)?;
                    check!(colours.as_u64() >= Some(4), "{what}: {colours} colours");
                }
            }
        }
    }
    // A comparison tells both figures.
    let detail = {
        browser.open(&scratch.path("two.html"), "zoom=churn&by=freed_blocks")?;
        browser.text("document.getElementById('detail').textContent")?
    };
    check!(detail.contains("y.hl") && detail.contains("x.hl") && detail.contains("unchanged"), "{detail}");
    let problems = browser.problems()?;
    check!(problems.is_empty(), "the page complains: {problems:?}");
    Ok(())
}
