//! What the ledger tells of errors, and whether it is what was done.

use std::path::Path;

use serde_json::Value;

use super::promise::Promise;
use super::{Access, Case, Level};
use crate::tools::{command, heapledger};
use crate::{Result, check, process};

/// In front of a block: its canary, and with it the header.
const CANARY_BYTES: i64 = 4;
const HEADER_BYTES: i64 = 16;

const FEW_BYTES: i64 = 4;

/// An error, with the functions of its stacks.
#[derive(Clone, Debug)]
pub struct Error {
    /// As it is in JSON.
    pub json: Value,
    /// Whose stacks it has, and the functions in each.
    pub stacks: Vec<(String, Vec<String>)>,
}

/// The errors in a ledger.
pub fn errors(ledger: &Path) -> Result<Vec<Error>> {
    let mut reading = command(heapledger());
    let text = process::run(reading.args(["errors", "--json"]).arg(ledger))?.good()?.out();
    let parse = |line: &str| serde_json::from_str::<Value>(line).map_err(|error| error.to_string());
    let lines: Vec<Value> = text.lines().map(parse).collect::<Result<_>>()?;
    let frames = |site: &Value| -> Vec<String> {
        let stack = lines.iter().find(|line| line["type"] == "site" && line["site"] == *site);
        let frames = stack.and_then(|stack| stack["frames"].as_array()).map(Vec::as_slice).unwrap_or_default();
        frames.iter().filter_map(|frame| frame["raw"].as_str().map(str::to_owned)).collect()
    };
    let told = lines.iter().filter(|line| line["type"] == "error").map(|json| {
        let stacks = json["stacks"].as_array().map(Vec::as_slice).unwrap_or_default();
        let of = |stack: &Value| (stack["of"].as_str().unwrap_or_default().to_owned(), frames(&stack["site"]));
        Error { json: json.clone(), stacks: stacks.iter().map(of).collect() }
    });
    Ok(told.collect())
}

impl Error {
    fn text(&self, key: &str) -> &str {
        self.json[key].as_str().unwrap_or_default()
    }

    fn address(&self, key: &str) -> Option<i64> {
        i64::from_str_radix(self.json[key].as_str()?.strip_prefix("0x")?, 16).ok()
    }

    /// Where it was found.
    pub fn found_at(&self) -> &str {
        self.text("found_at")
    }

    /// What it is called.
    pub fn kind(&self) -> &str {
        self.text("kind")
    }

    /// The address, from the block's begin on.
    pub fn offset(&self) -> Option<i64> {
        Some(self.address("address")?.wrapping_sub(self.address("block")?))
    }

    /// In one line, for who has to find out what else it is than what it should be.
    pub fn brief(&self) -> String {
        let stacks: Vec<String> =
            self.stacks.iter().map(|(of, functions)| format!("{of}: {}", functions.join(" < "))).collect();
        format!("{} {} {:?} {}", self.kind(), self.found_at(), self.offset(), stacks.join("; "))
    }

    fn functions(&self, whose: &str) -> Option<&[String]> {
        self.stacks.iter().find(|(of, _)| of == whose).map(|(_, functions)| &functions[..])
    }
}

/// Whether the errors of a run are what was promised. In words, what they are instead.
pub fn compare(case: &Case, level: Level, errors: &[Error]) -> Result {
    let said = || format!("{} at {}: {case:?}: {errors:#?}", case.name, level.name());
    match case.promise(level) {
        Promise::Either => Ok(()),
        Promise::Nothing => {
            check!(errors.is_empty(), "nothing was to be found. {}", said());
            Ok(())
        }
        Promise::Found(places) => {
            let is_this =
                |error: &&Error| error.kind() == case.kind && places.iter().any(|place| place == error.found_at());
            let of_block = |error: &&Error| case.size.is_none_or(|size| error.json["block_bytes"] == size);
            let Some(error) = errors.iter().filter(is_this).find(of_block) else {
                return Err(format!("it was to be found at {places:?}. {}", said()));
            };
            // What writes far reaches the neighbours, too; what writes a little is told once, and nothing else is.
            // (Without checked calls, what one writes into another block's surroundings is found there, too.)
            if case.bytes <= FEW_BYTES && (!case.is_call() || level == Level::Full && case.access != Access::Free) {
                // A write, byte by byte, from what is left in front of a page into that page is told there, and when the block is freed.
                let into_page = |other: &&Error| error.found_at() == "instruction" && other.found_at() == "free";
                let of_slack = errors.iter().filter(into_page).filter(of_block).count();
                check!(errors.len() == 1 || errors.len() == 2 && of_slack == 1, "it was to be told once. {}", said());
            }
            case.is_told_by(error).map_err(|problem| format!("{problem}. {}", said()))
        }
    }
}

impl Case {
    fn is_told_by(&self, error: &Error) -> Result {
        if self.access == Access::Free {
            let stacks = ["access", "free"].map(|whose| error.functions(whose).unwrap_or_default());
            check!(stacks.concat().contains(&self.function), "the wrong call is not told");
            return Ok(());
        }
        let offset = error.offset().ok_or("where it lies is not told")?;
        let end = self.offset + self.bytes;
        let is_at_once = ["instruction", "call"].contains(&error.found_at());
        let lowest = match error.found_at() {
            // A call is told by where it begins.
            "call" => self.offset.min(0),
            // Damage by its first byte; but of a header of which more than one byte is gone nobody knows what it was.
            "free" if self.offset < -CANARY_BYTES => self.offset.min(-HEADER_BYTES),
            _ => self.offset,
        };
        check!((lowest..end.max(lowest + 1)).contains(&offset), "the place is {offset} bytes from the block's begin");
        check!(
            error.functions("allocation").is_some_and(|functions| !functions.is_empty()),
            "who allocated is not told"
        );
        if self.kind == "heap-use-after-free" {
            check!(error.functions("free").is_some_and(|functions| !functions.is_empty()), "who freed is not told");
        }
        if is_at_once {
            let direction = if self.access == Access::Write { "write" } else { "read" };
            check!(error.json["direction"] == direction, "it is a {direction}");
            let functions = error.functions("access").unwrap_or_default();
            check!(functions.contains(&self.function), "{} is not in the stack: {functions:?}", self.function);
        }
        Ok(())
    }
}
