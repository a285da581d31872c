//! The lives of an address as JSON. Described in `docs/json.md`.

use std::io::{self, Write};

use heapledger_analysis::{Life, Lives, NamedFrame, NamedStack, Seen};
use serde::Serialize;

use crate::form::json::{HeaderLine, Hex, ThreadJson, end, frames, heap, line, thread, weight};
use crate::{Context, Ending};

#[derive(Serialize)]
struct LifeLine<'a> {
    r#type: &'static str,
    chain: u64,
    contains: bool,
    address: Hex,
    size: Option<u64>,
    actual: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<u64>,
    heap: Option<String>,
    moved_from: Option<Hex>,
    moved_to: Option<Hex>,
    allocation: HalfJson<'a>,
    free: Option<HalfJson<'a>>,
}

#[derive(Serialize)]
struct HalfJson<'a> {
    function: String,
    number: u64,
    time_ns: Option<u64>,
    thread: Option<ThreadJson<'a>>,
    site: u32,
    #[serde(serialize_with = "frames")]
    frames: &'a [NamedFrame],
}

/// The lives of an address as JSON.
pub struct LivesJson<'a, W> {
    out: W,
    context: &'a Context,
    chains: u64,
}

impl<'a, W: Write> LivesJson<'a, W> {
    /// A report of `lives` of `address` to `out`; writes its first line.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(mut out: W, context: &'a Context, address: u64, lives: &Lives) -> io::Result<LivesJson<'a, W>> {
        #[derive(Serialize)]
        struct First<'a> {
            #[serde(flatten)]
            header: HeaderLine<'a>,
            address: Hex,
            complete: bool,
            frees_missing: u64,
            r#where: Option<&'a str>,
        }
        let header = HeaderLine::new("history", &context.ledger, lives.sampled);
        let frees_missing = lives.frees_missing;
        let (complete, r#where) = (frees_missing == 0, lives.filter.as_deref());
        line(&mut out, &First { header, address: Hex(address), complete, frees_missing, r#where })?;
        Ok(LivesJson { out, context, chains: 0 })
    }

    /// Writes a life. `around` are the lives before and behind it in its chain; `begin` and `end` the stacks.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn life(
        &mut self,
        life: &Life,
        around: [Option<&Life>; 2],
        begin: &NamedStack,
        end: Option<&NamedStack>,
    ) -> io::Result<()> {
        let context = self.context;
        let (block, [from, to]) = (&life.block, around);
        self.chains += u64::from(from.is_none());
        let ns = |ticks: Option<u64>| ticks.and_then(|ticks| context.clock.ns(ticks));
        let object = LifeLine {
            r#type: "life",
            chain: self.chains,
            contains: life.holds,
            address: Hex(block.address),
            size: block.size,
            actual: block.actual,
            weight: weight(context, block),
            heap: heap(context, block),
            moved_from: from.map(|life| Hex(life.block.address)),
            moved_to: to.map(|life| Hex(life.block.address)),
            allocation: HalfJson {
                function: block.kind.to_string(),
                number: block.number,
                time_ns: ns(block.time),
                thread: thread(context, block.thread),
                site: block.site,
                frames: &begin.frames,
            },
            free: life.end.as_ref().map(|freed| HalfJson {
                function: freed.by.to_string(),
                number: freed.number,
                time_ns: ns(freed.time),
                thread: thread(context, freed.thread),
                site: freed.site,
                frames: end.map_or(&[], |stack| &stack.frames),
            }),
        };
        line(&mut self.out, &object)
    }

    /// Writes the last line.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn end(mut self, lives: &Lives, seen: &Seen) -> io::Result<()> {
        let Lives { total, left_out, in_flight, .. } = *lives;
        end(&mut self.out, Ending { shown: total - left_out, left_out, in_flight }, seen)
    }
}
