//! What a ledger says about its own size, beside a model of what the sanitizers' table of stacks would take.

use std::process::Command;

use super::json::number;
use super::kit::Kit;
use crate::step::{Result, output};

/// Figures of one ledger. `None` is what `stats` does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Ledger {
    pub(super) allocations: f64,
    pub(super) frees: f64,
    /// Most blocks at a time.
    pub(super) blocks: f64,
    /// Storage that it had in the program, and memory outside of it.
    pub(super) ledger_bytes: f64,
    pub(super) private_bytes: f64,
    /// The same by part.
    pub(super) parts: Parts,
    /// Records, with room for more, for each of the most blocks.
    pub(super) record_bytes: Option<f64>,
    /// The index by address in all, and states of threads, for each thread.
    pub(super) shadow_bytes: Option<f64>,
    pub(super) thread_bytes: Option<f64>,
    /// Distinct stacks, their frames on the average, and bytes for each of them: in memory with index and table of
    /// code addresses and room for more, and in the finished file.
    pub(super) stacks: f64,
    pub(super) frames: Option<f64>,
    pub(super) stack_bytes: Option<f64>,
    pub(super) stack_file_bytes: Option<f64>,
    /// Frames that were taken over from a thread's last stack, and those that were found by unwinding.
    pub(super) frames_verified: f64,
    pub(super) frames_walked: f64,
}

/// What a ledger took, in bytes, in its storage and beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Parts {
    /// Of blocks that live, of freed ones, and of call sites with all that leads to them.
    pub(super) records: f64,
    pub(super) history: f64,
    pub(super) sites: f64,
    /// What leads from addresses to records.
    pub(super) index: f64,
    pub(super) threads: f64,
}

impl Parts {
    fn of(line: &str) -> Parts {
        let bytes = |part: &str| number(line, &format!("memory.{part}_bytes")).unwrap_or(0.0);
        Parts {
            records: bytes("records"),
            history: bytes("history"),
            sites: bytes("sites") + bytes("sites_private"),
            index: bytes("shadow"),
            threads: bytes("threads_private"),
        }
    }

    /// All of these.
    pub(super) fn known(&self) -> f64 {
        self.records + self.history + self.sites + self.index + self.threads
    }
}

impl Ledger {
    /// Asks `heapledger stats` about the ledger that lies in the scratch directory.
    pub(super) fn read(kit: &Kit) -> Result<Ledger> {
        let mut stats = Command::new(&kit.heapledger);
        let text = output(stats.args(["stats", "--json", "--top", "0"]).arg(kit.scratch.join("ledger.hl")))?;
        let line = text.lines().find(|line| line.starts_with(r#"{"type":"stats""#));
        Ledger::of(line.ok_or("stats --json has no line of type stats")?)
    }

    fn of(line: &str) -> Result<Ledger> {
        let maybe = |path| number(line, path);
        let must = |path| number(line, path).ok_or_else(|| format!("stats --json does not say {path}"));
        Ok(Ledger {
            allocations: must("allocations")?,
            frees: must("frees")?,
            blocks: must("memory.blocks")?,
            ledger_bytes: must("memory.ledger_bytes")?,
            private_bytes: must("memory.private_bytes")?,
            parts: Parts::of(line),
            record_bytes: maybe("memory.record_bytes_per_block"),
            shadow_bytes: maybe("memory.shadow_bytes"),
            thread_bytes: maybe("memory.bytes_per_thread"),
            stacks: must("call_sites.distinct")?,
            frames: maybe("call_sites.mean_frames"),
            stack_bytes: maybe("call_sites.bytes_per_stack_memory"),
            stack_file_bytes: maybe("call_sites.bytes_per_stack_file"),
            frames_verified: must("stacks.frames_verified")?,
            frames_walked: must("stacks.frames_walked")?,
        })
    }

    /// What the sanitizers' depot takes for a stack of as many frames: whole traces beside each other, each with a
    /// node of 16 bytes (hash, link, id), a header word and a word a frame. Its table of 2^20 buckets, 4 MiB however
    /// few stacks there are, is not in it.
    pub(super) fn depot_bytes(&self) -> Option<f64> {
        const NODE: f64 = 16.0;
        const WORD: f64 = 8.0;
        /// It keeps no more of a stack.
        const FRAMES_MAX: f64 = 255.0;
        Some(NODE + WORD + WORD * self.frames?.min(FRAMES_MAX))
    }

    /// Frames of a call that were verified, and those that were unwound. A free takes a stack, too.
    pub(super) fn frames_of_a_call(&self) -> (f64, f64) {
        let calls = (self.allocations + self.frees).max(1.0);
        (self.frames_verified / calls, self.frames_walked / calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_where_they_are() {
        let line = r#"{"type":"stats","allocations":100,"frees":60,
            "call_sites":{"distinct":4,"mean_frames":20.5,"bytes_per_stack_memory":57.25,"bytes_per_stack_file":null},
            "stacks":{"frames_verified":320,"frames_walked":80},"threads":[{"allocations":3},{"allocations":9}],
            "memory":{"ledger_bytes":8000,"private_bytes":2000,"shadow_bytes":800,"blocks":40,
            "records_bytes":1280,"history_bytes":640,"sites_bytes":300,"sites_private_bytes":200}}"#;
        let ledger = Ledger::of(line).expect("good");
        assert_eq!((ledger.allocations, ledger.blocks, ledger.ledger_bytes), (100.0, 40.0, 8000.0));
        assert_eq!((ledger.stack_bytes, ledger.stack_file_bytes), (Some(57.25), None));
        assert_eq!((ledger.shadow_bytes, ledger.thread_bytes), (Some(800.0), None));
        let parts = Parts { records: 1280.0, history: 640.0, sites: 500.0, index: 800.0, threads: 0.0 };
        assert_eq!((ledger.parts, ledger.parts.known()), (parts, 3220.0));
        assert_eq!(ledger.frames_of_a_call(), (2.0, 0.5));
        assert_eq!(ledger.depot_bytes(), Some(24.0 + 164.0));
        assert!(Ledger::of("{}").is_err());
    }
}
