//! Nothing is built here: cargo demands a script of a package that says what it links to, and only of such a package does it
//! refuse two versions in one program.
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
}
