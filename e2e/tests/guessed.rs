//! Frames that are no return addresses, and frames that were found along frame pointers, are shown as what they are.

use heapledger_e2e::ledger::with_stacks;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check, process, victim};
use serde_json::Value;

/// Runs a victim and leaves `x.hl`.
fn record(scratch: &Scratch, name: &str, options: &[&str]) -> Result {
    let program = victim::named(name)?.build()?;
    run_cleanly(scratch, &mut under_run(scratch, "x", options, &program, &[]))?.good()?;
    Ok(())
}

fn say(scratch: &Scratch, words: &[&str]) -> Result<String> {
    Ok(process::run(command(heapledger()).args(words).arg(scratch.path("x.hl")))?.good()?.out())
}

/// The lines of a type.
fn lines(text: &str, of: &str) -> Result<Vec<Value>> {
    let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    let lines = lines.map_err(|error| format!("{error}: {text}"))?;
    Ok(with_stacks(lines)?.into_iter().filter(|line| line["type"] == of).collect())
}

fn count(scratch: &Scratch, filter: &str) -> Result<usize> {
    Ok(lines(&say(scratch, &["dump", "--json", "--where", filter])?, "block")?.len())
}

#[test]
fn an_interrupted_frame_has_the_address_of_its_instruction() -> Result {
    let scratch = Scratch::new();
    let program = victim::named("interrupted")?.build()?;
    for unwind in ["auto", "slow"] {
        record(&scratch, "interrupted", &["--unwind", unwind])?;
        let nm = process::run(command("nm").arg(&program))?.good()?.out();
        let symbol = nm.lines().find(|line| line.ends_with(" T faulty")).ok_or("no symbol")?;
        let symbol =
            u64::from_str_radix(symbol.split(' ').next().unwrap_or_default(), 16).map_err(|e| e.to_string())?;
        let blocks = lines(&say(&scratch, &["dump", "--json", "--where", "fn == faulty"])?, "block")?;
        check!(blocks.len() == 3, "{unwind}: {blocks:?}");
        let frames = blocks[0]["frames"].as_array().ok_or("no stack")?;
        let place = frames.iter().position(|frame| frame["function"] == "faulty").ok_or("no frame")?;
        check!(frames[place]["offset"] == format!("{symbol:#x}"), "{unwind}: {}", frames[place]);
        check!(frames[place - 1]["function"] == "<signal handler called>", "{unwind}: {frames:?}");
        // The others are where calls return to.
        let main = &frames[place + 1];
        check!(main["function"] == "main" && main["offset"] != frames[place]["offset"], "{unwind}: {main}");
        let text = say(&scratch, &["dump", "--where", "fn == faulty"])?;
        let line = text.lines().find(|line| line.contains(" faulty")).unwrap_or_default();
        check!(line.contains(" faulty+0x0 "), "{unwind}: {text}");
        std::fs::remove_file(scratch.path("x.hl")).map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[test]
fn guessed_frames_are_marked_stack_by_stack() -> Result {
    for unwind in ["auto", "slow", "frame-pointers"] {
        let scratch = Scratch::new();
        record(&scratch, "no_frame_info", &["--unwind", unwind])?;
        let ours = lines(&say(&scratch, &["dump", "--json", "--where", "fn == leak_linked"])?, "block")?;
        check!(ours.len() == 6, "{unwind}: {} blocks", ours.len());
        let frames = ours[0]["frames"].as_array().ok_or("no stack")?;
        let guessed: Vec<bool> = frames.iter().map(|frame| frame["guessed"] == true).collect();
        check!(guessed.len() > 3 && !guessed[0], "{unwind}: the innermost frame is no guess: {frames:?}");
        check!(
            guessed.is_sorted() && guessed[guessed.len() - 1],
            "{unwind}: all outside of a guess rest on it: {guessed:?}"
        );
        let text = say(&scratch, &["dump", "--limit", "1", "--where", "fn == leak_linked"])?;
        check!(text.matches(" (guessed)").count() > 3, "{unwind}: {text}");
        let flame = say(&scratch, &["flame", "--format", "folded"])?;
        check!(flame.contains("leak_linked (callers guessed)"), "{unwind}: {flame}");
        check!(say(&scratch, &["tree"])?.contains("leak_linked (callers guessed)"), "{unwind}: no tree");
        let nodes = lines(&say(&scratch, &["tree", "--json"])?, "node")?;
        let node = nodes.iter().find(|node| node["function"] == "leak_linked").ok_or("no node")?;
        check!(node["callers_guessed"] == true, "{unwind}: {node}");
        let (all, exact) = (count(&scratch, "size >= 0")?, count(&scratch, "exact")?);
        check!(count(&scratch, "exact == no")? == all - exact, "{unwind}: {exact} of {all} are exact");
        check!(count(&scratch, "not exact and fn == leak_linked")? == 6, "{unwind}");
        check!(count(&scratch, "exact and fn == leak_linked")? == 0, "{unwind}");
    }
    // With tables nothing is guessed.
    let scratch = Scratch::new();
    record(&scratch, "leaky", &[])?;
    check!(count(&scratch, "exact")? == count(&scratch, "size >= 0")?, "something was guessed");
    check!(!say(&scratch, &["dump"])?.contains("guessed"), "something is said to be guessed");
    Ok(())
}

/// A word of the stack that lies where a return address would be need not be one.
#[test]
fn what_is_no_code_is_no_frame() -> Result {
    for unwind in ["auto", "slow", "frame-pointers"] {
        let scratch = Scratch::new();
        record(&scratch, "no_frame_odd_word", &["--unwind", unwind])?;
        let blocks = lines(&say(&scratch, &["dump", "--json", "--where", "fn == odd_frame"])?, "block")?;
        check!(blocks.len() == 2, "{unwind}: {blocks:?}");
        for block in &blocks {
            let frames = block["frames"].as_array().map_or(0, Vec::len);
            check!(frames == 1, "{unwind}: {frames} frames: {block}");
        }
    }
    Ok(())
}
