//! A program that loads libraries and unloads them, so many times, by one thread and then by four at once: those with the crate inside,
//! and others that call back. Its memory and its files do not grow.

use std::alloc::System;
use std::ffi::{CStr, CString, c_char, c_void};
use std::hint::black_box;
use std::mem::transmute;
use std::{env, fs, thread};

use heapledger::{Heapledger, Recording};

#[global_allocator]
static HEAP: Heapledger<System> = Heapledger::system();

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: i32) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlclose(library: *mut c_void) -> i32;
    fn dlerror() -> *const c_char;
}

/// A size that nobody else asks for.
const KEPT_BYTES: usize = 4_321;

/// What libraries call back: takes a block, and keeps one where it is called from afar.
extern "C" fn back(bytes: usize) {
    drop(black_box(Vec::<u8>::with_capacity(bytes)));
    if bytes == 100 {
        std::mem::forget(black_box(Box::new([1u8; KEPT_BYTES])));
    }
}

/// Loads a library, has it do something, and unloads it.
fn uses(path: &CStr) {
    // SAFETY: libraries of the test, whose functions have these types; none is called after it has gone.
    unsafe {
        let library = dlopen(path.as_ptr(), 2);
        assert!(!library.is_null(), "{:?}", CStr::from_ptr(dlerror()));
        let [works, tells, calls_back] =
            [c"library_works", c"library_tells", c"calls_back"].map(|name| dlsym(library, name.as_ptr()));
        if calls_back.is_null() {
            assert_eq!(transmute::<*mut c_void, extern "C" fn(usize) -> usize>(works)(20), 30);
            assert!(transmute::<*mut c_void, extern "C" fn() -> bool>(tells)());
        } else {
            transmute::<*mut c_void, extern "C" fn(extern "C" fn(usize))>(calls_back)(back);
        }
        assert_eq!(dlclose(library), 0);
    }
}

/// How many mappings and open files there are.
fn grown() -> (usize, usize) {
    let maps = fs::read_to_string("/proc/self/maps").expect("maps").lines().count();
    (maps, fs::read_dir("/proc/self/fd").expect("files").count())
}

fn main() {
    let rounds: usize = env::args().nth(1).and_then(|rounds| rounds.parse().ok()).expect("how often");
    let libraries: Vec<CString> = env::args().skip(2).map(|path| CString::new(path).expect("a path")).collect();
    let use_all = |step: usize| {
        (0..rounds).for_each(|round| uses(&libraries[round * step % libraries.len()]));
    };
    use_all(1);
    let before = grown();
    use_all(1);
    let now = grown();
    // Memory of ours may have come to lie beside other memory, or no longer.
    assert!(now.0 <= before.0 + 4 && now.1 <= before.1, "{before:?} and then {now:?}");
    thread::scope(|scope| {
        for step in 1..=4 {
            scope.spawn(move || use_all(step));
        }
    });
    assert_eq!(heapledger::recording(), Recording::On);
    println!("{}", rounds * 6);
}
