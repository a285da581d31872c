//! What programs with the crate do wrongly with their blocks, and the same done rightly. The first argument says what, the second `wrongly` or
//! `rightly`.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::env;
use std::hint::black_box;
use std::mem;
use std::thread;

unsafe extern "C" {
    safe fn fork() -> i32;
    safe fn waitpid(pid: i32, status: Option<&mut i32>, options: i32) -> i32;
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("a layout")
}

#[inline(never)]
fn takes(layout: Layout) -> *mut u8 {
    // SAFETY: its size is not 0.
    let block = black_box(unsafe { alloc(layout) });
    assert!(!block.is_null() && block.addr().is_multiple_of(layout.align()));
    block
}

#[inline(never)]
fn frees(block: *mut u8, layout: Layout) {
    // SAFETY: none where it is wrong; that is what is tested.
    unsafe { dealloc(black_box(block), layout) };
    black_box(());
}

/// Stores a byte that is nobody's fill nor canary.
#[inline(never)]
fn stores(block: *mut u8, at: isize) {
    // SAFETY: as above: a guarded block has other bytes of its own there.
    unsafe { black_box(block).offset(at).write_volatile(0x5A) };
}

fn overflow(is_wrong: bool) {
    let block = takes(layout(100, 1));
    stores(block, if is_wrong { 100 } else { 99 });
    frees(block, layout(100, 1));
}

fn overflow_in_slack(is_wrong: bool) {
    let block = takes(layout(97, 8));
    stores(block, if is_wrong { 103 } else { 96 });
    frees(block, layout(97, 8));
}

fn underflow(is_wrong: bool) {
    let block = takes(layout(100, 8));
    stores(block, if is_wrong { -1 } else { 0 });
    frees(block, layout(100, 8));
}

/// Of its header nothing is left that could be believed: what the call says is.
fn underflow_of_all(is_wrong: bool) {
    let block = takes(layout(200, 8));
    for at in if is_wrong { -16..0 } else { 0..16 } {
        stores(block, at);
    }
    frees(block, layout(200, 8));
}

fn zeroed(is_wrong: bool) {
    let layout = layout(5000, 16);
    // SAFETY: its size is not 0.
    let block = black_box(unsafe { alloc_zeroed(layout) });
    // SAFETY: so many bytes are there, and written.
    assert!(unsafe { std::slice::from_raw_parts(block, 5000) }.iter().all(|byte| *byte == 0));
    stores(block, if is_wrong { 5001 } else { 4999 });
    frees(block, layout);
}

fn aligned(is_wrong: bool) {
    let layout = layout(300, 4096);
    let block = takes(layout);
    stores(block, if is_wrong { 300 } else { 299 });
    frees(block, layout);
}

fn grown(is_wrong: bool) {
    let mut block = takes(layout(10, 4));
    let mut size = 10;
    (0..10).for_each(|at| stores(block, at));
    for new in [11, 4000, 300_000, 60] {
        // SAFETY: as it was asked for.
        block = black_box(unsafe { realloc(block, layout(size, 4), new) });
        size = new;
        // SAFETY: so many were written before, and the block has more.
        assert!(unsafe { std::slice::from_raw_parts(block, 10) }.iter().all(|byte| *byte == 0x5A));
    }
    stores(block, if is_wrong { 60 } else { 59 });
    frees(block, layout(60, 4));
}

/// Damage is found when the block is resized.
fn resized(is_wrong: bool) {
    let block = takes(layout(70, 4));
    stores(block, if is_wrong { 70 } else { 69 });
    // SAFETY: as it was asked for.
    let block = black_box(unsafe { realloc(block, layout(70, 4), 700) });
    frees(block, layout(700, 4));
}

fn after_free(is_wrong: bool) {
    let block = takes(layout(200, 8));
    if !is_wrong {
        stores(block, 100);
    }
    frees(block, layout(200, 8));
    if is_wrong {
        stores(block, 100);
    }
}

#[inline(never)]
fn frees_again(block: *mut u8, layout: Layout) {
    frees(block, layout);
    black_box(());
}

fn double_free(is_wrong: bool) {
    let block = takes(layout(120, 8));
    frees(block, layout(120, 8));
    if is_wrong {
        frees_again(block, layout(120, 8));
    }
}

fn inner_free(is_wrong: bool) {
    let block = takes(layout(130, 8));
    if is_wrong {
        frees_again(block.wrapping_add(48), layout(82, 8));
    }
    frees(block, layout(130, 8));
}

fn stack_free(is_wrong: bool) {
    let mut place = black_box([0u64; 8]);
    if is_wrong {
        frees_again((&raw mut place).cast(), layout(64, 8));
    }
}

fn wrong_layout(is_wrong: bool) {
    let block = takes(layout(140, 8));
    frees(block, if is_wrong { layout(150, 64) } else { layout(140, 8) });
}

fn wrong_layout_resized(is_wrong: bool) {
    let block = takes(layout(160, 8));
    stores(block, 159);
    // SAFETY: none where it is wrong; that is what is tested.
    let new = unsafe { realloc(block, if is_wrong { layout(900, 8) } else { layout(160, 8) }, 1000) };
    // SAFETY: so many bytes were there.
    assert_eq!(unsafe { new.add(159).read() }, 0x5A);
    frees(new, layout(1000, 8));
}

fn thread_overflows(is_wrong: bool) {
    let block = takes(layout(110, 8)).expose_provenance();
    let at = if is_wrong { 110 } else { 109 };
    thread::spawn(move || stores(std::ptr::with_exposed_provenance_mut(block), at)).join().expect("a thread");
    thread::spawn(move || frees(std::ptr::with_exposed_provenance_mut(block), layout(110, 8)))
        .join()
        .expect("a thread");
}

fn left_to_the_end(is_wrong: bool) {
    let block = takes(layout(90, 8));
    stores(block, if is_wrong { 90 } else { 89 });
}

fn aborts(is_wrong: bool) {
    left_to_the_end(is_wrong);
    std::process::abort();
}

/// A child of this program goes on being guarded.
fn child_overflows(is_wrong: bool) {
    let before = takes(layout(80, 8));
    let child = fork();
    if child == 0 {
        overflow(is_wrong);
        stores(before, if is_wrong { 80 } else { 79 });
        frees(before, layout(80, 8));
        std::process::exit(7);
    }
    let mut status = 0;
    assert_eq!((waitpid(child, Some(&mut status), 0), status), (child, 7 << 8));
    frees(before, layout(80, 8));
}

/// Threads that do nothing wrong, and hand blocks to each other.
fn threads(_: bool) {
    let (send, receive) = std::sync::mpsc::channel::<Vec<u64>>();
    let makers: Vec<_> = (0..3u64)
        .map(|maker| {
            let send = send.clone();
            thread::spawn(move || {
                for round in 0..3000u64 {
                    let mut numbers = vec![maker; 1 + (round % 60) as usize];
                    numbers.extend([maker; 5]);
                    numbers.shrink_to_fit();
                    let aligned = layout(1 + (round % 200) as usize, 1 << (round % 9));
                    frees(takes(aligned), aligned);
                    if send.send(numbers).is_err() {
                        return;
                    }
                }
            })
        })
        .collect();
    drop(send);
    let mut count = 0;
    for numbers in receive {
        assert!(numbers.iter().all(|number| *number == numbers[0]));
        count += 1;
    }
    makers.into_iter().for_each(|maker| maker.join().expect("a thread"));
    assert_eq!(count, 9000);
}

/// What the program itself asks.
fn asks(is_wrong: bool) {
    use heapledger::{Error, check_block, check_integrity};

    let block = takes(layout(100, 8));
    assert_eq!((check_integrity(), check_block(block)), (Ok(0), Ok(false)));
    assert_eq!(check_block(block.wrapping_add(16)), Err(Error::NotSo));
    if is_wrong {
        // SAFETY: a guarded block has other bytes of its own there.
        let before = unsafe { block.add(100).read_volatile() };
        stores(block, 100);
        assert_eq!((check_integrity(), check_block(block)), (Ok(1), Ok(true)));
        // SAFETY: as above.
        unsafe { block.add(100).write_volatile(before) };
    }
    assert_eq!((check_integrity(), check_block(block)), (Ok(0), Ok(false)));
    frees(block, layout(100, 8));
    assert_eq!(check_block(block), Err(Error::NotSo));
}

/// Blocks of all levels from the present one on live side by side.
fn lowers(is_wrong: bool) {
    use heapledger::{Error, GuardLevel, check_block, lower_guard};

    let levels = [GuardLevel::Full, GuardLevel::Light, GuardLevel::Off];
    let may: Vec<_> = levels.into_iter().skip_while(|level| lower_guard(*level) == Err(Error::NotSo)).collect();
    let blocks: Vec<_> = may
        .iter()
        .map(|level| {
            assert_eq!(lower_guard(*level), Ok(()));
            let block = takes(layout(100, 8));
            (0..100).for_each(|at| stores(block, at));
            (*level, block)
        })
        .collect();
    assert_eq!(lower_guard(may[0]), Err(Error::NotSo));
    for (level, block) in blocks {
        assert_eq!(check_block(block), if level == GuardLevel::Off { Err(Error::NotSo) } else { Ok(false) });
        if is_wrong && level != GuardLevel::Off {
            stores(block, 100);
        }
        // SAFETY: as it was asked for.
        let new = black_box(unsafe { realloc(block, layout(100, 8), 3000) });
        // SAFETY: so many were written before.
        assert!(unsafe { std::slice::from_raw_parts(new, 100) }.iter().all(|byte| *byte == 0x5A));
        frees(new, layout(3000, 8));
    }
}

/// What a case is called, and what it does.
type Case = (&'static str, fn(bool));

const CASES: &[Case] = &[
    ("overflow", overflow),
    ("overflow_in_slack", overflow_in_slack),
    ("underflow", underflow),
    ("underflow_of_all", underflow_of_all),
    ("zeroed", zeroed),
    ("aligned", aligned),
    ("grown", grown),
    ("resized", resized),
    ("after_free", after_free),
    ("double_free", double_free),
    ("inner_free", inner_free),
    ("stack_free", stack_free),
    ("wrong_layout", wrong_layout),
    ("wrong_layout_resized", wrong_layout_resized),
    ("thread_overflows", thread_overflows),
    ("left_to_the_end", left_to_the_end),
    ("aborts", aborts),
    ("child_overflows", child_overflows),
    ("threads", threads),
    ("asks", asks),
    ("lowers", lowers),
];

pub(crate) fn run() {
    let words: Vec<String> = env::args().skip(1).collect();
    let [name, how] = &words[..] else { panic!("what, and how") };
    let (_, case) = CASES.iter().find(|(known, _)| known == name).expect("a case");
    case(how == "wrongly");
    println!("done");
    mem::forget(words);
}
