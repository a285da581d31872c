//! What a frame costs: a walk with a warm cache, a rule that must be made, libgcc.
//!
//! `cargo run --release --example cost`

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../tests/common/mod.rs"]
mod common;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() {
    linux::main();
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod linux {
    use std::hint::black_box;
    use std::ops::Range;
    use std::time::Instant;

    use super::common::{Frames, Process, capture, libgcc_walk};
    use heapledger_unwind::{Environment, Lookup, Registers, RuleCache, Strategy, resolve, walk};

    /// As an allocation hook would have it: one stack with known bounds.
    struct OneStack {
        bounds: Range<u64>,
        process: Process,
    }

    impl Environment for OneStack {
        #[inline(always)]
        fn read_word(&self, address: u64) -> Option<u64> {
            let known = address.wrapping_sub(self.bounds.start) < self.bounds.end - self.bounds.start - 7;
            // SAFETY: inside the stack of this thread.
            known.then(|| unsafe { (address as *const u64).read_unaligned() })
        }

        fn find_table(&self, pc: u64) -> Lookup<'_> {
            self.process.find_table(pc)
        }
    }

    const ROUNDS: u32 = 200_000;

    struct Bench {
        environment: OneStack,
        cache: Box<RuleCache<4096>>,
    }

    impl Bench {
        #[inline(never)]
        fn measure(&mut self, name: &str) {
            let mut registers = Registers::default();
            capture(&raw mut registers);
            let mut out = [0; 256];
            let mut once = |cache: &mut RuleCache<4096>, strategy| {
                let result = walk(&self.environment, cache, black_box(&registers), 256, strategy, &mut out);
                black_box(result)
            };
            let depth = once(&mut self.cache, Strategy::Auto).depth;
            let frames = f64::from(ROUNDS) * depth as f64;
            for strategy in [Strategy::FramePointers, Strategy::Auto] {
                let depth = once(&mut self.cache, strategy).depth;
                let frames = f64::from(ROUNDS) * depth as f64;
                let best = (0..7)
                    .map(|_| {
                        let start = Instant::now();
                        for _ in 0..ROUNDS {
                            once(&mut self.cache, strategy);
                        }
                        start.elapsed().as_nanos() as f64 / frames
                    })
                    .fold(f64::MAX, f64::min);
                println!("{name}, {depth} frames, {strategy:?}: {best:.2} ns per frame");
            }

            let rounds = ROUNDS / 100;
            let start = Instant::now();
            for _ in 0..rounds {
                for &pc in &out[..depth] {
                    black_box(resolve(&self.environment, pc));
                }
            }
            let making = start.elapsed().as_nanos() as f64 / frames * 100.0;
            println!("{name}, making a rule: {making:.0} ns");

            let mut theirs = Frames::new();
            let start = Instant::now();
            for _ in 0..rounds {
                libgcc_walk(black_box(&mut theirs));
            }
            let libgcc = start.elapsed().as_nanos() as f64 / frames * 100.0;
            println!("{name}, libgcc: {libgcc:.0} ns per frame");
        }
    }

    /// Functions of different frame sizes that call each other.
    macro_rules! functions {
        ($($function:ident $size:literal $next:ident;)*) => {$(
            #[inline(never)]
            fn $function(bench: &mut Bench, name: &str, depth: u32) -> usize {
                let space = black_box([depth as u8; $size]);
                if depth == 0 {
                    bench.measure(name);
                    return 0;
                }
                $next(bench, name, depth - 1) + black_box(&space).len()
            }
        )*};
    }

    functions! {
        f0 8 f1; f1 24 f2; f2 100 f3; f3 40 f4; f4 300 f5; f5 16 f6; f6 72 f7; f7 8 f8; f8 50 f9;
        f9 120 f10; f10 33 f11; f11 64 f12; f12 500 f13; f13 8 f14; f14 16 f15; f15 90 f16;
        f16 10 f17; f17 200 f18; f18 12 f19; f19 48 f0;
    }

    pub(crate) fn main() {
        let local = 0u64;
        let address = &raw const local as u64;
        // The main thread's stack reaches at least this far up, and no test frame is lower.
        let maps = std::fs::read_to_string("/proc/self/maps").expect("a mounted /proc");
        let line = maps.lines().find(|line| line.ends_with("[stack]")).expect("a stack");
        let end = line.split(['-', ' ']).nth(1).expect("an end");
        let end = u64::from_str_radix(end, 16).expect("hexadecimal");
        let bounds = address - 64 * 1024..end;
        let environment = OneStack { bounds, process: Process::new() };
        let mut bench = Bench { environment, cache: Box::default() };
        f0(&mut bench, "20 functions", 14);
        f0(&mut bench, "20 functions", 34);
        println!("{:?}", bench.cache.counters());
    }
}
