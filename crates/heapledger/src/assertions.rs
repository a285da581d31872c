//! What a test says of its own allocations.
//!
//! The thread's own calls are counted while the code in question runs. If there is a ledger it says which blocks are meant, and only
//! when an assertion fails are they named: the command `heapledger`, started as a child process, reads this process's
//! ledger. Without it the message has modules and offsets.
#![forbid(unsafe_code)]

use crate::{Error, Stats, ThreadRegion, thread_region};
use std::format;
use std::string::String;
use std::vec::Vec;

/// Blocks that a message tells of.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const SHOWN: usize = 10;

/// The code in question runs, or has run.
struct Assertion {
    region: ThreadRegion,
    since: Option<ledger::Moment>,
}

/// Which blocks a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Left,
    Allocated,
}

#[track_caller]
fn begin(name: &str) -> Assertion {
    let region: Result<ThreadRegion, Error> = thread_region();
    match region {
        Ok(region) => Assertion { region, since: ledger::Moment::now() },
        Err(error) => fail(&format!("{name}: {error}")),
    }
}

impl Assertion {
    /// What is said of the blocks; empty if nobody knows more.
    fn blocks(&self, about: About) -> String {
        let Some(since) = &self.since else {
            return String::from(
                "\nNo stacks are known: they are where every block is recorded, in a ledger of this process.",
            );
        };
        // What the message itself takes is not meant.
        let Some(until) = since.until() else { return String::new() };
        since.named(&until, about == About::Left).unwrap_or_else(|| since.listed(&until, about == About::Left))
    }
}

fn number_of(number: u64, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

#[track_caller]
#[cold]
#[expect(clippy::panic, reason = "a test fails")]
fn fail(message: &str) -> ! {
    panic!("{message}")
}

/// See [`assert_no_leak!`](crate::assert_no_leak).
#[doc(hidden)]
#[track_caller]
pub fn no_leak<T>(code: impl FnOnce() -> T) {
    let assertion = begin("assert_no_leak!");
    drop(code());
    let stats = assertion.region.stats();
    if stats.allocations == 0 {
        return;
    }
    let counted = (stats.blocks().max(0) as u64, stats.bytes().max(0) as u64);
    let (blocks, bytes) = assertion.since.as_ref().and_then(ledger::Moment::left).unwrap_or(counted);
    if blocks > 0 {
        let named = assertion.blocks(About::Left);
        let left = number_of(blocks, "block is", "blocks are");
        fail(&format!("assert_no_leak!: {left} left, {bytes} bytes{named}"));
    }
}

/// See [`assert_no_alloc!`](crate::assert_no_alloc).
#[doc(hidden)]
#[track_caller]
pub fn no_alloc<T>(code: impl FnOnce() -> T) -> T {
    let assertion = begin("assert_no_alloc!");
    let value = code();
    let Stats { allocations, allocated_bytes, .. } = assertion.region.stats();
    if allocations > 0 {
        let blocks = assertion.blocks(About::Allocated);
        let allocated = number_of(allocations, "block was", "blocks were");
        fail(&format!("assert_no_alloc!: {allocated} allocated, {allocated_bytes} bytes{blocks}"));
    }
    value
}

/// See [`assert_max_alloc!`](crate::assert_max_alloc).
#[doc(hidden)]
#[track_caller]
pub fn max_alloc<T>(bytes_max: u64, code: impl FnOnce() -> T) -> T {
    let assertion = begin("assert_max_alloc!");
    let value = code();
    let peak = assertion.region.stats().peak_bytes;
    if peak > bytes_max {
        let blocks = assertion.blocks(About::Allocated);
        fail(&format!("assert_max_alloc!: {peak} bytes at once, where {bytes_max} are allowed{blocks}"));
    }
    value
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod ledger {
    use super::SHOWN;
    use core::fmt::Write as _;
    use heapledger_format::{Entry, Site};
    use heapledger_process::look::{self, Position};
    use heapledger_process::shared::SHARED;
    use heapledger_process::start;
    use std::format;
    use std::process::{Command, Stdio};
    use std::string::{String, ToString as _};
    use std::vec::Vec;

    /// A moment in the life of the calling thread, from which on the ledger has all that it allocates.
    pub(super) struct Moment {
        position: Position,
    }

    impl Moment {
        pub(super) fn now() -> Option<Moment> {
            let position = look::position(&SHARED)?;
            start::is_ours(&SHARED).then_some(Moment { position })
        }

        /// Blocks and bytes that are left of what was allocated since, if all is still recorded.
        pub(super) fn left(&self) -> Option<(u64, u64)> {
            look::position(&SHARED)?;
            let mut left = (0u64, 0u64);
            look::live_since(&SHARED, &self.position, |block| {
                left = (left.0.wrapping_add(1), left.1.wrapping_add(block.size.unwrap_or(0)));
            });
            Some(left)
        }

        /// Another moment, now.
        pub(super) fn until(&self) -> Option<Moment> {
            look::position(&SHARED).map(|position| Moment { position })
        }

        /// As the command names them, if there is one that can read the ledger.
        pub(super) fn named(&self, until: &Moment, is_left: bool) -> Option<String> {
            let until = until.position.number;
            let Position { row, number } = self.position;
            let mut condition = format!("thread == {row} and number >= {number} and number < {until}");
            if !is_left {
                condition.push_str(" and event == allocation");
            }
            let command = if is_left { "dump" } else { "history" };
            let output = Command::new("heapledger")
                .args([command, "--no-pager", "--color", "never", "--limit", &SHOWN.to_string(), "--where", &condition])
                .arg(std::process::id().to_string())
                .env_remove("LD_PRELOAD")
                .stdin(Stdio::null())
                .output()
                .ok()?;
            let text = String::from_utf8_lossy(&output.stdout);
            (output.status.success() && !text.trim().is_empty())
                .then(|| format!("\n\n{}", super::own_part(text.trim_end())))
        }

        /// As modules and offsets.
        pub(super) fn listed(&self, until: &Moment, is_left: bool) -> String {
            let mut blocks: Vec<(u64, Option<u64>, Site)> = Vec::new();
            let mut note = |block: &Entry| {
                if block.number < until.position.number && blocks.len() < 4096 {
                    blocks.push((block.number, block.size, block.site));
                }
            };
            look::live_since(&SHARED, &self.position, &mut note);
            if !is_left {
                look::freed_since(&SHARED, &self.position, &mut note);
            }
            blocks.sort_unstable_by_key(|block| block.0);
            let mut text = String::new();
            for (_, size, site) in blocks.iter().take(SHOWN) {
                let _ = write!(text, "\n\n{} bytes, allocated at", size.unwrap_or(0));
                look::frames(&SHARED, *site, |path, offset| {
                    // One less: of the call, not of what follows it.
                    let _ = write!(text, "\n  {}+{:#x}", String::from_utf8_lossy(path), offset.saturating_sub(1));
                });
            }
            text.push_str("\n\nWith the command `heapledger` on the PATH these have names; so they have by `addr2line -fie FILE OFFSET`.");
            text
        }
    }
}

/// Of the stacks in a report what is the program's: without the levels of the standard library in front, and without what has called
/// the code that was measured. A stack that has nothing else stays as it is.
#[cfg_attr(
    not(all(target_os = "linux", target_arch = "x86_64")),
    allow(dead_code, reason = "nothing is recorded there")
)]
fn own_part(report: &str) -> String {
    let is_level =
        |line: &str| line.trim_start().split_once(") 0x").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    let is_of_a_stack = |line: &str| line.starts_with("  ") && !line.trim_start().starts_with("By ");
    // Where it lies says so, or else what it is called.
    let is_place = |line: &&&str| line.trim_start().starts_with('/');
    let is_its_place = |line: &&str| ["/rustc/", "/rust/deps/"].iter().any(|at| line.trim_start().starts_with(at));
    let is_its_name = |line: &&str| {
        let name = line.split_once(" 0x").or(line.split_once("0x")).and_then(|(_, rest)| rest.split_once(' '));
        let name = name.map_or("", |(_, name)| name.trim_start_matches('<'));
        ["alloc::", "core::", "std::"].iter().any(|at| name.starts_with(at))
    };
    let is_library = |level: &[&str]| {
        let is_known = level.iter().any(|line| is_place(&line));
        level.iter().any(|line| line.contains("__rustc::__rust_"))
            || is_known && level.iter().filter(is_place).all(is_its_place)
            || !is_known && level.iter().all(is_its_name)
    };
    let lines: Vec<&str> = report.lines().collect();
    let mut own: Vec<&str> = Vec::new();
    for part in lines.chunk_by(|one, next| is_of_a_stack(one) && is_of_a_stack(next)) {
        let levels: Vec<&[&str]> = part.chunk_by(|_, next| !is_level(next)).collect();
        let is_measured = |level: &&&[&str]| !level.iter().any(|line| line.contains("heapledger::assertions::"));
        let called = levels.iter().take_while(is_measured);
        let programs: Vec<&&[&str]> = called.skip_while(|level| is_library(level)).collect();
        if programs.is_empty() || !part.iter().any(|line| is_level(line)) {
            own.extend(part);
        } else {
            own.extend(programs.into_iter().flat_map(|level| level.iter()));
        }
    }
    own.join("\n")
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod ledger {
    use std::string::String;

    /// There is none.
    pub(super) enum Moment {}

    impl Moment {
        pub(super) fn now() -> Option<Moment> {
            None
        }
        pub(super) fn left(&self) -> Option<(u64, u64)> {
            match *self {}
        }
        pub(super) fn until(&self) -> Option<Moment> {
            match *self {}
        }
        pub(super) fn named(&self, _: &Moment, _: bool) -> Option<String> {
            match *self {}
        }
        pub(super) fn listed(&self, _: &Moment, _: bool) -> String {
            match *self {}
        }
    }
}

/// Runs code, drops its value, and fails if a block is left that this thread allocated meanwhile.
///
/// Other threads do not matter: neither those of other tests, nor those that the code starts. A block that another thread has
/// freed is not left. A block that grew meanwhile was allocated meanwhile: so is the buffer of a `Vec` outside, to which the code
/// pushes. What is made once and kept, by the first use of a channel or of `println!`, is left too: run it once before.
///
/// Where every block is recorded the message names the stacks of those that are left, if the command `heapledger` is on the `PATH`;
/// otherwise it has modules and offsets. Where calls are only counted, the thread's allocations less its frees must not be more
/// than none.
///
/// The code is a closure's: `return` and `?` end that.
///
/// ```
/// # use heapledger::Heapledger;
/// # use std::alloc::System;
/// # #[global_allocator]
/// # static HEAP: Heapledger<System> = Heapledger::system();
/// # fn main() {
/// heapledger::assert_no_leak!({
///     let numbers: Vec<u32> = (0..100).collect();
///     numbers.len()
/// });
///
/// let result = std::panic::catch_unwind(|| {
///     heapledger::assert_no_leak!(std::mem::forget(vec![1; 100]));
/// });
/// let error = result.unwrap_err();
/// let message = error.downcast_ref::<String>().unwrap();
/// assert!(message.starts_with("assert_no_leak!: 1 block is left, 400 bytes"), "{message}");
/// # heapledger::discard();
/// # }
/// ```
#[macro_export]
macro_rules! assert_no_leak {
    ($code:expr $(,)?) => {
        $crate::assertions::no_leak(|| $code)
    };
}

/// Runs code, and fails if this thread allocated meanwhile. Returns what the code does.
///
/// The message names the stacks of the first ten allocations, as that of [`assert_no_leak!`] does; those of blocks that were freed, as
/// far as the [history](crate::Options::history) reaches.
///
/// ```
/// # use heapledger::Heapledger;
/// # use std::alloc::System;
/// # #[global_allocator]
/// # static HEAP: Heapledger<System> = Heapledger::system();
/// # fn main() {
/// let mut buffer = String::with_capacity(100);
/// heapledger::assert_no_alloc!(buffer.push_str("as long as it fits"));
/// # heapledger::discard();
/// # }
/// ```
#[macro_export]
macro_rules! assert_no_alloc {
    ($code:expr $(,)?) => {
        $crate::assertions::no_alloc(|| $code)
    };
}

/// Runs code, and fails if this thread ever had more than so many bytes meanwhile, beyond what it had before. Returns what the
/// code does.
///
/// The message names stacks as that of [`assert_no_leak!`] does.
///
/// ```
/// # use heapledger::Heapledger;
/// # use std::alloc::System;
/// # #[global_allocator]
/// # static HEAP: Heapledger<System> = Heapledger::system();
/// # fn main() {
/// let sum = heapledger::assert_max_alloc!(4096, {
///     (0..100u64).map(|number| Box::new(number)).map(|number| *number).sum::<u64>()
/// });
/// assert_eq!(sum, 4950);
/// # heapledger::discard();
/// # }
/// ```
#[macro_export]
macro_rules! assert_max_alloc {
    ($bytes:expr, $code:expr $(,)?) => {
        $crate::assertions::max_alloc($bytes, || $code)
    };
}

#[cfg(test)]
mod tests {
    use super::own_part;

    #[test]
    fn a_message_has_the_programs_part_of_each_stack() {
        let report = "\
__rust_alloc 14 B: 0x55a0, number 2520
  By thread 7, 19663 render
   1) 0x1 <heapledger::allocator::Heapledger<A> as GlobalAlloc>::alloc (inlined)
      /home/x/allocator.rs:167
      0x1 __rustc::__rust_alloc
      /home/x/tests/heap.rs:4
   2) 0x2 <alloc::raw_vec::RawVecInner>::try_allocate_in+0x7d (in heap)
   3) 0x3 render
      /home/x/src/lib.rs:4
   4) 0x4 core::ops::call
      /rustc/5980/library/core/src/ops.rs:5
   5) 0x5 heapledger::assertions::no_alloc
      /home/x/assertions.rs:87
   6) 0x6 main

__rust_alloc 3 B: 0x55b0, number 2521
  By thread 7, 19663 render
   1) 0x2 alloc::alloc::alloc
      /rustc/5980/library/alloc/src/alloc.rs:95

2 blocks";
        let expected = "\
__rust_alloc 14 B: 0x55a0, number 2520
  By thread 7, 19663 render
   3) 0x3 render
      /home/x/src/lib.rs:4
   4) 0x4 core::ops::call
      /rustc/5980/library/core/src/ops.rs:5

__rust_alloc 3 B: 0x55b0, number 2521
  By thread 7, 19663 render
   1) 0x2 alloc::alloc::alloc
      /rustc/5980/library/alloc/src/alloc.rs:95

2 blocks";
        assert_eq!(own_part(report), expected);
    }
}
