//! Each block, with its stack, by the crate `dhat`.

#[path = "../work.rs"]
mod work;

#[global_allocator]
static HEAP: dhat::Alloc = dhat::Alloc;

fn main() {
    let _profiler = dhat::Profiler::builder().file_name("/dev/null").build();
    work::main();
}
