//! Linker settings of the library of calls.

fn main() {
    // A reference that nothing satisfies is an error here, not when somebody's program is started.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,defs");
    // Nothing is bound lazily: that would happen in the middle of a call.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
    // Within the library its own functions are called, whatever the program defines.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo:rustc-cdylib-link-arg=-nostartfiles");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libheapledger_calls.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
