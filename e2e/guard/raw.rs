//! What Rust allows in `unsafe`, done wrongly: the same table as that of `case.h`, in the same words.
//!
//! Built with `rustc -O -g`, or without `-O`; its blocks are those of the C library's `malloc`.

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::hint::black_box;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::ptr;

struct Case {
    name: &'static str,
    run: fn(bool),
    function: &'static str,
    kind: &'static str,
    access: &'static str,
    by: &'static str,
    size: i64,
    offset: i64,
    bytes: i64,
}

const OVERFLOW: &str = "heap-buffer-overflow";
const UNDERFLOW: &str = "heap-buffer-underflow";
const AFTER_FREE: &str = "heap-use-after-free";

#[inline(never)]
#[unsafe(no_mangle)]
fn stores_byte(at: *mut u8) {
    unsafe { black_box(at).write_volatile(0x5A) };
}
#[inline(never)]
#[unsafe(no_mangle)]
fn loads_byte(at: *const u8) {
    black_box(unsafe { black_box(at).read_volatile() });
}
#[inline(never)]
#[unsafe(no_mangle)]
fn stores_word(at: *mut u64) {
    unsafe { black_box(at).write_volatile(0x5A5A_5A5A_5A5A_5A5A) };
}
#[inline(never)]
#[unsafe(no_mangle)]
fn loads_word(at: *const u64) {
    black_box(unsafe { black_box(at).read_volatile() });
}
#[inline(never)]
#[unsafe(no_mangle)]
fn stores_unchecked(slice: &mut [u32], index: usize) {
    unsafe { ptr::write_volatile(slice.as_mut_ptr().add(black_box(index)), 0x5A5A_5A5A) };
}
#[inline(never)]
#[unsafe(no_mangle)]
fn copies(from: *const u8, to: *mut u8, bytes: usize) {
    unsafe { ptr::copy_nonoverlapping(black_box(from), black_box(to), black_box(bytes)) };
    black_box(to);
}
#[inline(never)]
#[unsafe(no_mangle)]
fn ends_again(text: ManuallyDrop<String>) {
    drop(ManuallyDrop::into_inner(text));
    black_box(());
}

fn vector_store_behind(is_bad: bool) {
    let mut numbers = black_box(vec![1u32; 25]);
    // Its length says more than it has.
    if is_bad {
        let mut longer = ManuallyDrop::new(unsafe { Vec::from_raw_parts(numbers.as_mut_ptr(), 26, 26) });
        stores_unchecked(&mut longer, 25);
    } else {
        stores_unchecked(&mut numbers, 24);
    }
}
fn vector_load_before(is_bad: bool) {
    let numbers = black_box(vec![1u64; 16]);
    loads_word(if is_bad { numbers.as_ptr().wrapping_sub(1) } else { numbers.as_ptr() });
}
fn vector_store_before(is_bad: bool) {
    let mut numbers = black_box(vec![1u64; 16]);
    stores_word(if is_bad { numbers.as_mut_ptr().wrapping_sub(1) } else { numbers.as_mut_ptr() });
}
fn slice_too_long(is_bad: bool) {
    let bytes = black_box(vec![1u8; 48]);
    let slice = unsafe { std::slice::from_raw_parts(bytes.as_ptr(), if is_bad { 49 } else { 48 }) };
    loads_byte(slice.as_ptr().wrapping_add(slice.len() - 1));
}
fn boxed_after_drop(is_bad: bool) {
    let boxed = black_box(Box::new([1u64; 8]));
    let inside = (&raw const boxed[3]).cast_mut();
    if !is_bad {
        stores_word(inside);
    }
    drop(boxed);
    if is_bad {
        stores_word(inside);
    }
}
fn string_after_drop(is_bad: bool) {
    let text = black_box("x".repeat(60));
    let inside = text.as_ptr().wrapping_add(30);
    if !is_bad {
        loads_byte(inside);
    }
    drop(text);
    if is_bad {
        loads_byte(inside);
    }
}
fn vector_grown(is_bad: bool) {
    let mut numbers = black_box(vec![1u64; 16]);
    let old = numbers.as_mut_ptr();
    if is_bad {
        numbers.reserve_exact(100_000);
    }
    stores_word(black_box(old).wrapping_add(5));
}
fn shared_after_drop(is_bad: bool) {
    let shared = black_box(std::rc::Rc::new([1u64; 8]));
    // Two counts stand in front.
    let inside = (&raw const shared[2]).cast_mut();
    if !is_bad {
        stores_word(inside);
    }
    drop(shared);
    if is_bad {
        stores_word(inside);
    }
}
fn dropped_twice(is_bad: bool) {
    let text = ManuallyDrop::new(black_box("x".repeat(60)));
    let same = unsafe { ptr::read(&raw const text) };
    drop(ManuallyDrop::into_inner(text));
    if is_bad {
        ends_again(same);
    }
}
fn copied_too_far(is_bad: bool) {
    let mut to = black_box(vec![0u8; 32]);
    copies(black_box([0x5Au8; 64]).as_ptr(), to.as_mut_ptr(), if is_bad { 40 } else { 32 });
}
fn raw_behind(is_bad: bool) {
    let layout = Layout::from_size_align(72, 8).expect("a layout");
    let block = unsafe { alloc(layout) };
    stores_byte(block.wrapping_add(if is_bad { 72 } else { 71 }));
    unsafe { dealloc(block, layout) };
}
fn raw_old_tail(is_bad: bool) {
    let (layout, smaller) =
        (Layout::from_size_align(400, 8).expect("a layout"), Layout::from_size_align(104, 8).expect("a layout"));
    let block = unsafe { realloc(alloc(layout), layout, 104) };
    stores_word(block.wrapping_add(if is_bad { 104 } else { 96 }).cast());
    unsafe { dealloc(block, smaller) };
}
fn in_thread(is_bad: bool) {
    let mut bytes = black_box(vec![0u8; 56]);
    let at = bytes.as_mut_ptr() as usize + if is_bad { 56 } else { 55 };
    std::thread::spawn(move || stores_byte(at as *mut u8)).join().expect("a thread");
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { name: "vector_store_behind", run: vector_store_behind, function: "stores_unchecked", kind: OVERFLOW, access: "write", by: "instruction", size: 100, offset: 100, bytes: 4 },
    Case { name: "vector_load_before", run: vector_load_before, function: "loads_word", kind: UNDERFLOW, access: "read", by: "instruction", size: 128, offset: -8, bytes: 8 },
    Case { name: "vector_store_before", run: vector_store_before, function: "stores_word", kind: UNDERFLOW, access: "write", by: "instruction", size: 128, offset: -8, bytes: 8 },
    Case { name: "slice_too_long", run: slice_too_long, function: "loads_byte", kind: OVERFLOW, access: "read", by: "instruction", size: 48, offset: 48, bytes: 1 },
    Case { name: "boxed_after_drop", run: boxed_after_drop, function: "stores_word", kind: AFTER_FREE, access: "write", by: "instruction", size: 64, offset: 24, bytes: 8 },
    Case { name: "string_after_drop", run: string_after_drop, function: "loads_byte", kind: AFTER_FREE, access: "read", by: "instruction", size: 60, offset: 30, bytes: 1 },
    Case { name: "vector_grown", run: vector_grown, function: "stores_word", kind: AFTER_FREE, access: "write", by: "instruction", size: 128, offset: 40, bytes: 8 },
    Case { name: "shared_after_drop", run: shared_after_drop, function: "stores_word", kind: AFTER_FREE, access: "write", by: "instruction", size: 80, offset: 32, bytes: 8 },
    Case { name: "dropped_twice", run: dropped_twice, function: "ends_again", kind: "double-free", access: "free", by: "free", size: 60, offset: 0, bytes: 0 },
    Case { name: "copied_too_far", run: copied_too_far, function: "copies", kind: OVERFLOW, access: "write", by: "memcpy", size: 32, offset: 32, bytes: 8 },
    Case { name: "raw_behind", run: raw_behind, function: "stores_byte", kind: OVERFLOW, access: "write", by: "instruction", size: 72, offset: 72, bytes: 1 },
    Case { name: "raw_old_tail", run: raw_old_tail, function: "stores_word", kind: OVERFLOW, access: "write", by: "instruction", size: 104, offset: 104, bytes: 8 },
    Case { name: "in_thread", run: in_thread, function: "stores_byte", kind: OVERFLOW, access: "write", by: "instruction", size: 56, offset: 56, bytes: 1 },
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words == ["list"] {
        for case in CASES {
            println!(
                "{} function={} kind={} access={} by={} size={} offset={} bytes={} alignment=16",
                case.name, case.function, case.kind, case.access, case.by, case.size, case.offset, case.bytes
            );
        }
        return;
    }
    let [wanted, mode] = &words[..] else { panic!("CASE bad|good") };
    let is_bad = mode == "bad";
    assert!(is_bad || mode == "good", "CASE bad|good");
    let chosen: Vec<&Case> = CASES.iter().filter(|case| !is_bad && wanted == "all" || case.name == wanted).collect();
    assert!(!chosen.is_empty(), "there is no such case");
    for case in chosen {
        (case.run)(is_bad);
        writeln!(std::io::stdout(), "{} {mode}", case.name).expect("somebody reads");
    }
}
