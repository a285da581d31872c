//! Linker settings of the preload library.

fn main() {
    // A reference that nothing satisfies is an error here, not when somebody's program is started.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,defs");
    // Nothing is bound lazily: that would happen in the middle of a hook.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
    println!("cargo:rustc-cdylib-link-arg=-nostartfiles");
    // Under `heapledger run` the loader takes what is preloaded for what a program is linked with (`session::LINKED_LIBRARY`).
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libheapledger.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
