//! Walks of this very process, compared with libgcc's.

#![cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]

mod common;

use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_void};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard};

use common::{Cache, FRAMES_MAX, Frames, Process, capture, walk_both};
use heapledger_unwind::{End, Registers, RuleCache, Strategy, Walk, walk};

type Probe = extern "C" fn();
type Victim = extern "C" fn(Probe, libc::c_int) -> libc::c_int;

/// A library of C functions, built with the given flags for this test.
struct Victims(*mut c_void);

impl Victims {
    /// Builds and loads, once for each set of flags. Never unloaded.
    fn with(flags: &[&str]) -> Self {
        static BUILT: Mutex<Vec<(String, usize)>> = Mutex::new(Vec::new());
        let mut built = lock(&BUILT);
        let name = flags.join(" ");
        let known = built.iter().find(|(other, _)| *other == name);
        let handle = match known {
            Some((_, handle)) => *handle,
            None => {
                let handle = Self::build(flags, built.len()) as usize;
                built.push((name, handle));
                handle
            }
        };
        Self(handle as *mut c_void)
    }

    fn build(flags: &[&str], number: usize) -> *mut c_void {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/victims.c");
        let library =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("victims-{}-{number}.so", std::process::id()));
        let status = Command::new("gcc")
            .args(["-shared", "-fPIC", "-fno-optimize-sibling-calls", "-fno-inline", "-Wl,-z,lazy"])
            .args(["-fno-ipa-cp", "-fno-ipa-sra", "-pthread", "-o"])
            .args([library.as_os_str(), source.as_ref()])
            .args(flags)
            .status()
            .expect("gcc");
        assert!(status.success());
        let name = CString::new(library.to_str().expect("a plain path")).expect("no zero byte");
        // SAFETY: a zero-terminated name; the library has no constructors.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY) };
        assert!(!handle.is_null());
        std::fs::remove_file(library).expect("just made");
        handle
    }

    fn get(&self, name: &str) -> Victim {
        let name = CString::new(name).expect("no zero byte");
        // SAFETY: the handle is open, and all functions asked for begin with these parameters.
        unsafe {
            let symbol = libc::dlsym(self.0, name.as_ptr());
            assert!(!symbol.is_null());
            std::mem::transmute::<*mut c_void, Victim>(symbol)
        }
    }
}

const FLAGS: [&[&str]; 6] = [
    &["-O2", "-fomit-frame-pointer"],
    &["-O2", "-fno-omit-frame-pointer"],
    &["-O0"],
    &["-O3", "-mavx", "-fomit-frame-pointer"],
    &["-O2", "-mstackrealign", "-fcf-protection=full"],
    &["-Os", "-fno-asynchronous-unwind-tables", "-funwind-tables"],
];

/// What a probe needs and leaves behind.
struct Bench {
    process: Process,
    cache: Cache,
    strategy: Strategy,
    ours: Frames,
    theirs: Frames,
    probes: usize,
    restarts: usize,
    deepest: usize,
    differences: usize,
    last: Option<Walk>,
}

impl Bench {
    fn new() -> Box<Self> {
        Box::new(Self {
            process: Process::new(),
            cache: Cache::new(),
            strategy: Strategy::Tables,
            ours: Frames::new(),
            theirs: Frames::new(),
            probes: 0,
            restarts: 0,
            deepest: 0,
            differences: 0,
            last: None,
        })
    }

    /// Neither allocates nor panics: also called in signal handlers.
    fn probe(&mut self) {
        let (ours, theirs) = (&mut self.ours, &mut self.theirs);
        let result = walk_both(&self.process, &mut self.cache, self.strategy, ours, theirs);
        self.probes += 1;
        self.restarts += usize::from(result.restarted);
        self.deepest = self.deepest.max(result.depth);
        self.last = Some(result);
        let complete = match result.end {
            End::Outermost => true,
            End::LimitReached => ours.count == FRAMES_MAX,
            _ => false,
        };
        if !complete || ours.as_slice()[1..] != theirs.as_slice()[1..] {
            self.differences += 1;
            if self.differences <= 3 {
                eprintln!("{result:x?}\n{:x?}\n{:x?}", ours.as_slice(), theirs.as_slice());
            }
        }
    }
}

/// The bench of the test that runs. One at a time: signal handlers belong to the process.
static BENCH: Mutex<Option<Box<Bench>>> = Mutex::new(None);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

extern "C" fn probe() {
    if let Some(bench) = &mut *lock(&BENCH) {
        bench.probe();
    }
}

/// A thread's stack is mapped after the test began.
extern "C" fn probe_in_new_thread() {
    if let Some(bench) = &mut *lock(&BENCH) {
        bench.process = Process::new();
        bench.probe();
    }
}

fn run(test: impl FnOnce()) -> Box<Bench> {
    *lock(&BENCH) = Some(Bench::new());
    test();
    let bench = lock(&BENCH).take().expect("just set");
    assert_eq!(bench.differences, 0);
    assert!(bench.probes > 0);
    bench
}

fn compare_calls(name: &str, depth: libc::c_int) {
    let _guard = lock(&ONE_AT_A_TIME);
    for flags in FLAGS {
        let victims = Victims::with(flags);
        let victim = victims.get(name);
        let bench = run(|| {
            victim(probe, depth);
        });
        assert_eq!(bench.restarts, 0);
        println!("{name} {flags:?}: {} probes, deepest {}", bench.probes, bench.deepest);
    }
}

#[test]
fn plain_recursion() {
    compare_calls("plain", 50);
}

#[test]
fn callee_saved_registers_in_use() {
    compare_calls("busy", 20);
}

#[test]
fn frames_of_varying_size() {
    compare_calls("with_alloca", 20);
}

#[test]
fn aligned_frames() {
    compare_calls("aligned", 20);
}

#[test]
fn aligned_frames_with_argument_pointer() {
    compare_calls("aligned_more", 20);
}

#[test]
fn realigned_frames() {
    compare_calls("realigned", 20);
}

#[test]
fn callbacks_from_the_c_library() {
    compare_calls("sorting", 0);
}

#[test]
fn all_kinds_mixed() {
    compare_calls("everything", 30);
}

#[test]
fn more_frames_than_the_limit() {
    compare_calls("plain", 2000);
}

#[test]
fn coroutine() {
    compare_calls("in_coroutine", 0);
}

#[test]
fn new_thread() {
    let _guard = lock(&ONE_AT_A_TIME);
    let victims = Victims::with(&["-O2"]);
    run(|| {
        victims.get("in_thread")(probe_in_new_thread, 0);
    });
}

#[inline(never)]
fn recurse_in_rust(depth: u32, text: &str) -> usize {
    if depth == 0 {
        probe();
        return text.len();
    }
    let longer = format!("{text}{depth}");
    // A closure called by generic code of the standard library.
    (0..1).map(|_| recurse_in_rust(depth - 1, &longer)).sum::<usize>() + 1
}

#[test]
fn rust_frames() {
    let _guard = lock(&ONE_AT_A_TIME);
    run(|| {
        recurse_in_rust(30, "");
    });
}

extern "C" fn handle_by_probe(signal: libc::c_int, _: *mut c_void, context: *mut libc::ucontext_t) {
    if let Some(bench) = &mut *lock(&BENCH) {
        bench.probe();
    }
    if signal == libc::SIGILL {
        // SAFETY: the kernel passes the interrupted context, which the return will restore.
        unsafe { (*context).uc_mcontext.gregs[libc::REG_RIP as usize] += 2 };
    }
}

fn handle(signal: libc::c_int, flags: libc::c_int) {
    // SAFETY: a zeroed action is valid; the handler has the type that SA_SIGINFO asks for.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle_by_probe as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | flags;
        assert_eq!(libc::sigaction(signal, &raw const action, std::ptr::null_mut()), 0);
    }
}

/// Runs with an alternate signal stack, which is taken away afterwards.
fn with_alternate_stack(test: impl FnOnce()) {
    let mut space = vec![0u64; 64 * 1024];
    let mut stack = libc::stack_t { ss_sp: space.as_mut_ptr().cast(), ss_flags: 0, ss_size: space.len() * 8 };
    let mut old = stack;
    // SAFETY: the memory is ours until the old stack is back.
    unsafe { assert_eq!(libc::sigaltstack(&raw const stack, &raw mut old), 0) };
    test();
    stack = old;
    // SAFETY: as it was before.
    unsafe { assert_eq!(libc::sigaltstack(&raw const stack, std::ptr::null_mut()), 0) };
}

#[test]
fn signal_handlers() {
    let _guard = lock(&ONE_AT_A_TIME);
    for flags in FLAGS {
        let victims = Victims::with(flags);
        for on_stack in [0, libc::SA_ONSTACK] {
            handle(libc::SIGUSR1, on_stack);
            handle(libc::SIGILL, on_stack);
            with_alternate_stack(|| {
                for name in ["interrupted_call", "interrupted_leaf"] {
                    run(|| {
                        victims.get(name)(probe, 10);
                    });
                }
            });
        }
    }
}

thread_local! {
    static STEPPER: Cell<*mut Bench> = const { Cell::new(std::ptr::null_mut()) };
}

extern "C" fn handle_step(_: libc::c_int, _: *mut c_void, _: *mut libc::ucontext_t) {
    let bench = STEPPER.get();
    // SAFETY: set by the test on this thread, which is stopped in the stepped code.
    if let Some(bench) = unsafe { bench.as_mut() } {
        bench.probe();
    }
}

/// Probes at every single instruction that the victim switches on.
fn step(victim: Victim) -> Box<Bench> {
    let mut bench = Bench::new();
    // SAFETY: as in `handle`.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle_step as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut()), 0);
    }
    STEPPER.set(&raw mut *bench);
    victim(probe, 12);
    STEPPER.set(std::ptr::null_mut());
    println!("{} instructions, {} restarts, {} differences", bench.probes, bench.restarts, bench.differences);
    assert_eq!(bench.differences, 0);
    bench
}

/// Prologues, epilogues, linkage table, lazy binding, malloc.
#[test]
fn every_instruction() {
    let _guard = lock(&ONE_AT_A_TIME);
    for flags in [FLAGS[0], FLAGS[1]] {
        let victims = Victims::with(flags);
        let bench = step(victims.get("step_by_step"));
        assert!(bench.probes > 1000);
        assert!(bench.restarts > 0, "the dynamic linker's frames are found by rbx");
    }
}

#[test]
fn every_instruction_of_hand_written_code() {
    let _guard = lock(&ONE_AT_A_TIME);
    // Before the modules are listed. SAFETY: a zero-terminated name; may fail.
    unsafe { libc::dlopen(c"libcrypto.so.3".as_ptr(), libc::RTLD_NOW) };
    step(Victims::with(&["-O2"]).get("step_through_assembly"));
}

thread_local! {
    static WALKS: RefCell<Vec<(Walk, Vec<u64>)>> = const { RefCell::new(Vec::new()) };
    static LIMIT: Cell<usize> = const { Cell::new(0) };
    static HIDDEN: Cell<u64> = const { Cell::new(0) };
    static STRATEGY: Cell<Strategy> = const { Cell::new(Strategy::Auto) };
}

extern "C" fn walk_here() {
    let mut process = Process::new();
    if HIDDEN.get() != 0 {
        process.hide_table(HIDDEN.get());
    }
    let mut registers = Registers::default();
    capture(&raw mut registers);
    let mut out = [0; 100];
    let mut cache = RuleCache::<64>::new();
    let result = walk(&process, &mut cache, &registers, LIMIT.get(), STRATEGY.get(), &mut out);
    WALKS.with_borrow_mut(|walks| walks.push((result, out[..result.depth].to_vec())));
}

#[test]
fn the_limit_is_told_from_the_end() {
    let victims = Victims::with(&["-O2"]);
    let victim = victims.get("plain");
    STRATEGY.set(Strategy::Tables);
    LIMIT.set(100);
    let mut complete = 0;
    for _ in 0..3 {
        victim(walk_here, 5);
        let (result, pcs) = WALKS.with_borrow_mut(Vec::pop).expect("a walk");
        match LIMIT.get() {
            100 => {
                assert_eq!(result.end, End::Outermost);
                complete = pcs.len();
                LIMIT.set(complete);
            }
            limit if limit == complete => {
                assert_eq!((result.end, result.depth), (End::Outermost, complete));
                LIMIT.set(complete - 1);
            }
            limit => assert_eq!((result.end, result.depth), (End::LimitReached, limit)),
        }
    }
}

/// Code without a table is crossed by its frame pointers, and everything behind it marked.
#[test]
fn no_table_but_frame_pointers() {
    let victims = Victims::with(&["-O2", "-fno-omit-frame-pointer"]);
    let victim = victims.get("plain");
    LIMIT.set(100);
    let mut seen = Vec::new();
    for strategy in [Strategy::Tables, Strategy::Auto] {
        STRATEGY.set(strategy);
        for hidden in [0, victim as *const () as u64] {
            HIDDEN.set(hidden);
            victim(walk_here, 5);
            seen.push(WALKS.with_borrow_mut(Vec::pop).expect("a walk"));
        }
    }
    let [(all, all_pcs), (cut, cut_pcs), (auto, auto_pcs), (guessed, guessed_pcs)] = &seen[..] else {
        panic!("four walks");
    };
    assert_eq!((all.end, all.guessed_from), (End::Outermost, None));
    assert_eq!((auto.end, auto.guessed_from), (End::Outermost, None));
    assert_eq!(all_pcs[1..7], auto_pcs[1..7]);
    // The first frame in the hidden library is known, its caller is not.
    let first_hidden = cut_pcs.len() - 1;
    assert_eq!(cut.end, End::NoRule { pc: cut_pcs[first_hidden] });
    assert_eq!(guessed.guessed_from, Some(first_hidden + 1));
    // Behind the six frames of the victim comes this function, at another call each time.
    assert_eq!(guessed_pcs[..7], auto_pcs[..7]);
    // Behind the chain the tables take over again.
    assert_eq!(guessed_pcs.len(), auto_pcs.len());
    assert_eq!(guessed.end, End::Outermost);
}

/// With frame pointers everywhere in the victims, their frames are found without any table.
#[test]
fn frame_pointers_only() {
    let victims = Victims::with(&["-O2", "-fno-omit-frame-pointer"]);
    let victim = victims.get("plain");
    LIMIT.set(100);
    HIDDEN.set(0);
    STRATEGY.set(Strategy::Tables);
    victim(walk_here, 5);
    let (_, by_tables) = WALKS.with_borrow_mut(Vec::pop).expect("a walk");
    STRATEGY.set(Strategy::FramePointers);
    victim(walk_here, 5);
    let (result, pcs) = WALKS.with_borrow_mut(Vec::pop).expect("a walk");
    // This test itself need not have frame pointers: then its first frame is left out.
    let victim_frames = |pcs: &[u64]| {
        let start = victim as *const () as u64;
        let here = |pc: &&u64| (start..start + 0x100).contains(pc);
        pcs.iter().filter(here).count()
    };
    assert!(victim_frames(&pcs) + 1 >= victim_frames(&by_tables));
    assert!(victim_frames(&pcs) >= 5);
    assert_eq!(result.guessed_from, Some(1));
}
