//! Inlined functions that have no linkage name, as GCC leaves it out for what no other file can see.

mod support;

use std::collections::BTreeSet;

use support::*;

const SOURCE: &str = r#"
#include <cstdlib>
static void *volatile sink;
static inline void keep(int size) { sink = malloc(size); }
namespace cache { static inline void fill(int n) { sink = malloc(n); } }
namespace parser { static inline void fill(int n) { sink = malloc(n); } }
namespace deep { inline namespace v1 { namespace {
struct Pool {
    void grab(int n);
    struct Inner { static void one(int n) { sink = malloc(n); } ~Inner() { sink = malloc(7); } };
    template <class T> void make() { sink = malloc(sizeof(T)); }
    operator bool() const { sink = malloc(1); return true; }
};
inline void Pool::grab(int n) { sink = malloc(n + 1); }
} } }
namespace held { extern "C" { inline void c_like(int n) { sink = malloc(n); } } }
typedef struct { void call(int n) { sink = malloc(n); } } Typed;
template <class F> static inline void each(F f) { f(3); }
__attribute__((noinline)) static void helper(int n);
__attribute__((noinline)) void lambdas(int argc) {
    each([=](int q) { sink = malloc(10 * q * argc); });
    {
        auto inner = [=](int q) { sink = malloc(20 * q); auto nested = [=] { sink = malloc(q); }; nested(); };
        inner(argc);
    }
    auto other = [=] { sink = malloc(30 * argc); };
    other();
    auto generic = [=](auto q) { sink = malloc(40 * q); };
    generic(argc);
}
int main(int argc, char **) {
    void helper_declared_here(int);
    keep(argc);
    cache::fill(argc);
    parser::fill(argc);
    deep::Pool pool;
    pool.grab(argc);
    deep::Pool::Inner::one(argc);
    { deep::Pool::Inner inner; }
    pool.make<long>();
    if (pool) held::c_like(argc);
    Typed().call(argc);
    struct Local { void own(int n) { sink = malloc(n); } } local;
    local.own(argc);
    lambdas(argc);
    helper(argc);
    helper_declared_here(argc);
    return 0;
}
static void helper(int n) { sink = malloc(n); }
"#;

/// Declared in a function of the other file, and inlined into another one where the linker optimizes.
const OTHER: &str = "#include <cstdlib>\nstatic void *volatile sink;\nnamespace { struct Far { void go(int n) { sink = malloc(n); } }; }\n\
    void helper_declared_here(int n) { sink = malloc(1); Far().go(n); }\n";

const NAMES: &[&str] = &[
    "keep",
    "cache::fill",
    "parser::fill",
    "deep::v1::(anonymous namespace)::Pool::grab",
    "deep::v1::(anonymous namespace)::Pool::Inner::one",
    "deep::v1::(anonymous namespace)::Pool::Inner::~Inner",
    "deep::v1::(anonymous namespace)::Pool::make<long int>",
    "deep::v1::(anonymous namespace)::Pool::operator bool",
    "c_like",
    "Typed::call",
    "main::Local::own",
    "lambdas::{lambda#1}::operator()",
    "lambdas::{lambda#2}::operator()",
    "lambdas::{lambda#2}::operator()::{lambda#1}::operator()",
    "(anonymous namespace)::Far::go",
];

fn inlined(scratch: &Scratch, compiler: &str, flags: &[&str]) -> BTreeSet<String> {
    scratch.write("prog.cpp", SOURCE);
    scratch.write("other.cpp", OTHER);
    let mut arguments = flags.to_vec();
    arguments.extend(["-std=c++17", "-g", "-O2", "prog.cpp", "other.cpp", "-o", "prog"]);
    scratch.run(compiler, &arguments);
    let text = scratch.run("objdump", &["-d", "--no-show-raw-insn", "prog"]);
    let addresses: Vec<u64> =
        text.lines().filter_map(|line| u64::from_str_radix(line.trim().split_once(":\t")?.0, 16).ok()).collect();
    let (resolved, _) = resolve(&scratch.options(), &scratch.path("prog"), &[], &addresses);
    let frames = resolved.iter().flat_map(|resolved| resolved.frames.iter()).filter(|frame| frame.inlined);
    // Without what some of them take: `Typed::call(int)`.
    frames
        .filter_map(|frame| {
            let name = frame.function.as_deref()?;
            let cut = if name.ends_with(')') && !name.ends_with("operator()") { name.rfind('(') } else { None };
            Some(name[..cut.unwrap_or(name.len())].to_owned())
        })
        .collect()
}

#[test]
fn names_have_what_they_lie_in() {
    for flags in [&[][..], &["-gdwarf-4"], &["-fdebug-types-section"], &["-flto"]] {
        let scratch = Scratch::new();
        let seen = inlined(&scratch, "g++", flags);
        for name in NAMES {
            assert!(seen.contains(*name), "{flags:?}: no {name} in {seen:#?}");
        }
        // In its scope is one lambda that takes nothing, and one that takes anything.
        let first = "lambdas::{lambda#1}::operator()";
        assert!(seen.contains(&format!("{first}<int>")), "{flags:?}: {seen:#?}");
        let bare = ["fill", "grab", "one", "operator()", "own", "go", "held::c_like"];
        for name in bare {
            assert!(!seen.contains(name), "{flags:?}: {name} in {seen:#?}");
        }
    }
}
