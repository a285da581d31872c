//! Which function of a stack holds a block: the innermost that does not merely pass allocations on.

use std::sync::LazyLock;

use regex::Regex;

use crate::query::SyntaxError;
use crate::{NamedFrame, NamedStack};

/// The standard libraries of C++ and Rust with their containers, `operator new`, that of classes too, what HotSpot allocates by
/// (`os::malloc`, `AllocateHeap`), and the allocator of our own crate; and these as the linker knows them, for names that are shown so.
const LIBRARIES: &str = concat!(
    r"(?-u)^(?:[A-Za-z0-9_:*&]+ )?(?:std|__gnu_cxx|__cxxabiv1)::",
    r"|^operator new|^(?u:[^()]*)::operator new(?:\[\])?(?:\(|$)",
    r"|^os::(?:malloc|realloc|strdup|strdup_check_oom)(?:\(|$)|^(?:AllocateHeap|ReallocateHeap)(?:\(|$)",
    r"|^<?(?:alloc|core|std|hashbrown)::",
    // Traits that are the library's own affair, for types of anybody's: `<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem`.
    r"|^<(?u:.+) as (?:alloc::(?:[a-z_]+::)+|<\[_\]>::[a-z_]+::)(?:Spec[A-Za-z]+|ConvertVec)(?:<(?u:.*)>)?>::",
    r"|^__r(?:ust|dl|g)_|^__rustc::|^<?heapledger::(?:allocator|entry|chip::(?:allocator|books|entry))::",
    r"|^_Z(?:Z*NK?[VrRO]*)?(?:S[tabsiod]|9__gnu_cxx|10__cxxabiv1|n[wa]|5alloc|4core|3std|9hashbrown)",
    r"|^_RNvC[A-Za-z0-9]*_7___rustc|^_ZN(?:[0-9]+_\$LT\$heapledger\.\.(?:chip\.\.)?|10heapledger(?:4chip)?9)allocator|^_ZN10heapledger(?:4chip)?5(?:entry|books)",
);

/// The functions of our own header by which a program tells of its blocks (`HEAPLEDGER_WEAK`) or has some. Without optimisation they are inlined, too,
/// where there is debug information.
const OF_OUR_HEADER: &str = r"^heapledger_(?:weak_[a-z0-9_]+|(?:all_|one_)?tasks?_alloc_?)(?:[.(]|$)";

/// How all of these begin.
const OURS: &str = "heapledger_";

/// Functions by which Python (3.9 to 3.14) calls what it runs, its own functions and those of modules; who called whom is told by the functions around
/// them, and, with `-X perf`, by names of Python's.
const PYTHON_CALLS: &str = concat!(
    r"^(?:_?PyEval_(?:EvalCode|EvalCodeEx|EvalFrame|EvalFrameDefault|EvalFrameEx|Vector)|py_trampoline_evaluator",
    r"|_?PyObject_(?:Call|CallFunction|CallFunctionObjArgs|CallMethod|CallMethodObjArgs|CallNoArgs|CallObject|CallOneArg|Call_Prepend",
    r"|FastCall|FastCallDict|FastCallDictTstate|MakeTpCall|Vectorcall|VectorcallDict|VectorcallMethod|VectorcallMethodId|VectorcallTstate)",
    r"|_?PyFunction_(?:FastCallDict|Vectorcall)|_?PyVectorcall_(?:Call|Function)|object_vacall|vectorcall_(?:maybe|method|unbound)",
    r"|cfunction_(?:call|vectorcall_[A-Z_]+)|method_vectorcall(?:_[A-Z_]+)?|type_call|slot_tp_(?:call|init|new)|do_call_core",
    r"|call_(?:function|method|unbound_noarg)|function_code_fastcall|trace_call_function",
    r"|run_eval_code_obj|run_mod|pyrun_file|_?PyRun_[A-Za-z]+|pymain_(?:main|run_[a-z_]+)|Py_(?:RunMain|BytesMain|Main)|builtin_exec(?:_impl)?)",
    r"(?:\.[a-z0-9_.]+)?$",
);

static CALLS_IN_PYTHON: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(PYTHON_CALLS).ok());

static IN_OUR_HEADER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(OF_OUR_HEADER).ok());

/// To make it takes a millisecond: not for a program in C.
static IN_LIBRARIES: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(LIBRARIES).ok());

/// What stands in all names that match [`LIBRARIES`], and how those begin in which it does not.
const BETWEEN_NAMES: &str = "::";
const BEGINNINGS: [&str; 6] = ["operator new", "AllocateHeap", "ReallocateHeap", "__r", "_Z", "_R"];

/// Which functions hold blocks. A function that is looked through holds none: its caller does. If all of a stack would
/// be looked through, its innermost function holds.
#[derive(Clone, Debug)]
pub struct Holders {
    conventional: bool,
    /// Looks through what [begins a program](begins_program) and [`PYTHON_CALLS`] too.
    beginning: bool,
    hidden: Vec<Regex>,
}

impl Default for Holders {
    /// Looks through functions whose name says that they allocate, and through the standard libraries of C++ and Rust.
    fn default() -> Holders {
        Holders { conventional: true, beginning: false, hidden: Vec::new() }
    }
}

/// Most patterns of functions to look through.
const HIDDEN_MAX: usize = 256;

impl Holders {
    /// The innermost function, whatever its name.
    pub fn innermost() -> Holders {
        Holders { conventional: false, beginning: false, hidden: Vec::new() }
    }

    /// Those that a call tree shows: the default, and neither what comes before `main` nor by what Python calls functions.
    pub fn of_tree() -> Holders {
        Holders { beginning: true, ..Holders::default() }
    }

    /// Looks through functions with such names too.
    ///
    /// # Errors
    /// If that is no pattern, or one too many: each takes memory, and time for each function.
    pub fn hide(&mut self, pattern: &str) -> Result<(), SyntaxError> {
        if self.hidden.len() == HIDDEN_MAX {
            let error = SyntaxError::new(format!("more than {HIDDEN_MAX} patterns"), pattern, 0..pattern.len());
            return Err(error.help("one pattern can name several: 'xmalloc|my_alloc'"));
        }
        self.hidden.push(crate::query::pattern(pattern)?);
        Ok(())
    }

    /// Whether this frame's function can hold a block.
    pub fn holds(&self, frame: &NamedFrame) -> bool {
        let is_in_library = |file: &str| is_in_rust_library(file) || is_in_python_library(file);
        !(self.conventional && (is_of_our_allocator(frame) || frame.file.as_deref().is_some_and(is_in_library)))
            && frame.function.as_deref().is_none_or(|name| self.holds_name(name))
    }

    /// Whether a function of this name can hold a block.
    pub fn holds_name(&self, name: &str) -> bool {
        let conventional = || is_conventional(name) || is_in_libraries(name) || is_of_our_header(name);
        !(self.conventional && conventional()
            || self.beginning && (begins_program(name) || calls_in_python(name))
            || self.hides(name))
    }

    /// Whether a function of this name matches one of the patterns to look through.
    pub fn hides(&self, name: &str) -> bool {
        self.hidden.iter().any(|pattern| pattern.is_match(name))
    }

    /// The frame that holds; `None` if the stack has no frames.
    pub fn holder<'s>(&self, stack: &'s NamedStack) -> Option<&'s NamedFrame> {
        stack.frames.iter().find(|frame| self.holds(frame)).or_else(|| stack.frames.first())
    }
}

fn is_in_libraries(name: &str) -> bool {
    (name.contains(BETWEEN_NAMES) || BEGINNINGS.iter().any(|begin| name.starts_with(begin)))
        && IN_LIBRARIES.as_ref().is_some_and(|pattern| pattern.is_match(name))
}

/// Whether this is a function of one word whose name says that it allocates: `xmalloc`, `g_malloc0`, `PyMem_RawMalloc`, `zmalloc`,
/// `jv_mem_alloc`, `sqlite3Malloc`, `xstrdup`. What compilers append to a name is behind a dot. By hand: nearly all that is named at the end of a run is
/// asked this, and to make a pattern takes longer than all that.
fn is_conventional(name: &str) -> bool {
    let (word, behind) = name.as_bytes().split_at(name.find('.').unwrap_or(name.len()));
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let begins = |at: usize, part: &&str| {
        word.get(at..at + part.len()).is_some_and(|there| there.eq_ignore_ascii_case(part.as_bytes()))
    };
    let mut letters = word.iter().enumerate();
    let tells = letters.any(|(at, letter)| {
        let parts: &[&str] = match letter.to_ascii_lowercase() {
            b'm' => &["malloc", "memalign", "memdup", "memalloc", "mem_alloc"],
            b'c' => &["calloc"],
            b'r' => &["realloc"],
            b's' => &["strdup", "strndup"],
            b'z' => &["zalloc"],
            _ => &[],
        };
        parts.iter().any(|part| begins(at, part))
    });
    tells && word.iter().all(is_letter) && behind.iter().all(|byte| is_letter(byte) || *byte == b'.')
}

/// Whether a function of this name is one with which programs and threads begin, in front of `main` and of what a thread was made for; or of the
/// loader's that run constructors. The C libraries are glibc and musl.
pub fn begins_program(name: &str) -> bool {
    let of_start =
        matches!(name, "_start" | "_start_c" | "start" | "start_thread" | "start_init" | "generic_start_main");
    let of_libc = matches!(
        name,
        "__libc_start_main" | "__libc_start_main_impl" | "__libc_start_call_main" | "libc_start_main_stage2"
    );
    let of_thread = matches!(name, "clone" | "clone3" | "__clone" | "__clone3");
    of_start || of_libc || of_thread || matches!(name, "_dl_start_user" | "_dl_init" | "call_init" | "do_init_fini")
}

/// Whether a function of this name is of our own header, wherever a program has that: its caller is who speaks to the recorder.
pub fn is_of_our_header(name: &str) -> bool {
    name.starts_with(OURS) && IN_OUR_HEADER.as_ref().is_some_and(|pattern| pattern.is_match(name))
}

/// Whether Python calls functions by a function of this name.
fn calls_in_python(name: &str) -> bool {
    CALLS_IN_PYTHON.as_ref().is_some_and(|pattern| pattern.is_match(name))
}

/// Whether a file is one of Rust's own libraries: what is in there holds nothing, whatever it is called (`<i32 as Display>::fmt`). The compiler has them at
/// `/rustc/COMMIT/library/`, and where they are installed they lie below `rustlib/src/rust/library/`.
pub fn is_in_rust_library(file: &str) -> bool {
    let built = file.strip_prefix("/rustc/").and_then(|rest| rest.split_once('/'));
    built.is_some_and(|(_, rest)| rest.starts_with("library/")) || file.contains("/rustlib/src/rust/library/")
}

/// Whether a file is of the library that comes with Python: below `lib/python3.11`, but for what was installed there. What imports modules is in Python itself.
pub fn is_in_python_library(file: &str) -> bool {
    let is_version = |name: &str| {
        let version = name.strip_prefix("python3.");
        version.is_some_and(|minor| !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut parts = file.split('/').skip_while(|part| *part != "lib").skip(1);
    file.starts_with("<frozen importlib.")
        || parts.next().is_some_and(is_version)
            && parts.next().is_some_and(|part| !matches!(part, "site-packages" | "dist-packages"))
}

/// Whether a frame is of the allocator of our own crate, which is inlined into its callers. Debug information that tells lines
/// and nothing more has its name without what it is of: `alloc<std::alloc::System>`.
fn is_of_our_allocator(frame: &NamedFrame) -> bool {
    let mut parts = frame.file.as_deref().unwrap_or_default().rsplit('/');
    let is_allocator = frame.inlined && parts.next() == Some("allocator.rs");
    let directory = parts.next();
    // That of firmware lies one further down.
    let directory = if directory == Some("chip") { parts.next() } else { directory };
    is_allocator
        && directory == Some("src")
        && parts.next().is_some_and(|package| package.strip_prefix("heapledger").is_some_and(is_version_or_nothing))
}

/// Of a package's directory: `heapledger`, `heapledger-0.1.0`.
fn is_version_or_nothing(rest: &str) -> bool {
    rest.is_empty() || rest.strip_prefix('-').is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_by_hand_is_what_patterns_tell() {
        let convention =
            r"(?i-u)^[a-z0-9_]*(?:malloc|calloc|zalloc|realloc|memalign|strn?dup|memdup|mem_?alloc)[a-z0-9_.]*$";
        let beginning = concat!(
            r"^(?:_start|_start_c|__libc_start_main(?:_impl)?|__libc_start_call_main|libc_start_main_stage2|generic_start_main",
            r"|start_thread|start|clone3?|__clone3?|_dl_start_user|_dl_init|call_init|do_init_fini|start_init)$",
        );
        let [convention, beginning] = [convention, beginning].map(|text| Regex::new(text).expect("a pattern"));
        let parts = [
            "malloc",
            "Calloc",
            "zALLOC",
            "realloc",
            "memalign",
            "strdup",
            "strndup",
            "memdup",
            "memalloc",
            "mem_Alloc",
            "mem__alloc",
            "mem",
            "alloc",
            "align",
            "_",
            ".",
            "0",
            "é",
            " ",
            "::",
            "x",
            "",
            "Z",
            "strnndup",
            "~",
            "[",
        ];
        let begins = [
            "_start",
            "_start_c",
            "__libc_start_main",
            "libc_start_call_main",
            "__libc_start_call_main",
            "libc_start_main_stage2",
            "generic_start_main",
            "start_thread",
            "start",
            "clone",
            "__clone",
            "_dl_start_user",
            "_dl_init",
            "call_init",
            "do_init_fini",
            "start_init",
            "",
        ];
        let behind = ["", "_impl", "3", "_", ".", "33"];
        let both = begins.iter().flat_map(|one| behind.map(|two| format!("{one}{two}")));
        let names = parts.iter().flat_map(|one| parts.map(|two| parts.map(|three| format!("{one}{two}{three}"))));
        for name in names.flatten().chain(both) {
            assert_eq!(is_conventional(&name), convention.is_match(&name), "{name}");
            assert_eq!(begins_program(&name), beginning.is_match(&name), "{name}");
        }
    }

    #[test]
    fn there_is_an_end_to_patterns() {
        let mut holders = Holders::innermost();
        (0..HIDDEN_MAX).for_each(|number| holders.hide(&number.to_string()).expect("a pattern"));
        assert!(holders.hide("x").is_err_and(|error| error.what().contains("more than")));
        assert!(!holders.holds_name("f255") && holders.holds_name("x"));
    }

    #[test]
    fn what_lies_in_rusts_own_libraries_holds_nothing() {
        let frame = |file: &str| NamedFrame {
            function: Some("<i32 as Display>::fmt".into()),
            file: Some(file.into()),
            ..NamedFrame::default()
        };
        for (file, holds) in [
            ("/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/core/src/fmt/num.rs", false),
            ("/home/x/.rustup/toolchains/stable/lib/rustlib/src/rust/library/alloc/src/vec/mod.rs", false),
            ("/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/compiler/rustc_span/src/lib.rs", true),
            ("/home/x/library/src/lib.rs", true),
            ("/rustc/x.rs", true),
            ("<frozen importlib._bootstrap>", false),
            ("<frozen os>", true),
            ("/usr/lib/python3.11/json/encoder.py", false),
            ("/home/x/.pyenv/versions/3.12.1/lib/python3.12/asyncio/events.py", false),
            ("/home/x/venv/lib/python3.12/site-packages/flask/app.py", true),
            ("/usr/lib/python3/dist-packages/yaml/reader.py", true),
            ("/usr/local/lib/python3.11/dist-packages/x.py", true),
            ("/home/x/lib/python3.x/app.py", true),
            ("/srv/app.py", true),
        ] {
            assert_eq!(Holders::default().holds(&frame(file)), holds, "{file}");
            assert!(Holders::innermost().holds(&frame(file)), "{file}");
        }
    }

    #[test]
    fn calls_of_python_are_not_in_trees() {
        let holders = Holders::of_tree();
        for name in [
            "_PyEval_EvalFrameDefault",
            "_PyObject_VectorcallTstate.lto_priv.0",
            "PyObject_Vectorcall",
            "_PyObject_MakeTpCall",
            "cfunction_vectorcall_FASTCALL_KEYWORDS",
            "method_vectorcall_VARARGS_KEYWORDS",
            "py_trampoline_evaluator",
            "pymain_run_file_obj",
            "Py_BytesMain",
        ] {
            assert!(!holders.holds_name(name), "{name}");
            assert!(Holders::default().holds_name(name) && Holders::innermost().holds_name(name), "{name}");
        }
        for name in ["zlib_compressobj", "PyObject_Str", "_PyBytes_FromSize", "run_module", "main", "type_new", "PyRun"]
        {
            assert!(holders.holds_name(name), "{name}");
        }
    }

    #[test]
    fn wrappers_are_looked_through() {
        let holders = Holders::default();
        for name in [
            "xmalloc",
            "g_malloc0",
            "PyMem_RawMalloc",
            "_PyObject_Malloc",
            "zmalloc_usable_internal",
            "ztrymalloc_usable_internal",
            "jv_mem_alloc",
            "sqlite3MemMalloc",
            "xstrdup",
            "CRYPTO_zalloc",
            "xrealloc.constprop.0",
            "operator new(unsigned long)",
            "CHeapObjBase::operator new(unsigned long, MEMFLAGS)",
            "v8::internal::Malloced::operator new[](unsigned long)",
            "os::malloc(unsigned long, MEMFLAGS, NativeCallStack const&)",
            "os::strdup_check_oom(char const*, MEMFLAGS)",
            "AllocateHeap(unsigned long, MEMFLAGS, AllocFailStrategy::AllocFailEnum)",
            "ReallocateHeap(char*, unsigned long, MEMFLAGS, AllocFailStrategy::AllocFailEnum)",
            "std::__new_allocator<int>::allocate(unsigned long, void const*)",
            "void std::vector<int>::_M_realloc_insert<int>(int*)",
            "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
            "alloc::raw_vec::RawVec<T,A>::grow_one",
            "__rust_alloc",
            "__rustc::__rust_realloc",
            "<heapledger::allocator::Heapledger<A> as core::alloc::global::GlobalAlloc>::alloc",
            "heapledger::allocator::real::alloc",
            "heapledger::entry::alloc_zeroed",
            "heapledger::chip::allocator::ChipAllocator<A,B>::begins",
            "<heapledger::chip::allocator::ChipAllocator<A,B> as core::alloc::global::GlobalAlloc>::realloc",
            "heapledger::chip::entry::begin",
            "heapledger::chip::books::Books<B>::allocated",
            "_ZN10heapledger4chip9allocator22ChipAllocator$LT$A$C$B$GT$6begins17h0E",
            "_ZN88_$LT$heapledger..chip..allocator..ChipAllocator$LT$A$C$B$GT$$u20$as$u20$core..alloc..global..GlobalAlloc$GT$5alloc17h0E",
            "_ZN10heapledger4chip5entry5begin17h0E",
            "_ZN10heapledger5entry5alloc17h0123456789abcdefE",
            "<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
            "<T as alloc::slice::hack::ConvertVec>::to_vec",
            "<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec::<alloc::alloc::Global>",
            "<alloc::vec::Vec<T> as alloc::vec::spec_from_iter::SpecFromIter<T,I>>::from_iter",
            "_ZN10heapledger9allocator4real5alloc17h0E",
            "_RNvCsfLfy6EI15iL_7___rustc12___rust_alloc",
            "heapledger_weak_allocated",
            "heapledger_weak_resized.constprop.0",
            "heapledger_tasks_alloc_",
            "heapledger_all_tasks_alloc",
            "heapledger_weak_allocated(int, void const*, unsigned long, int)",
            "_ZN82_$LT$heapledger..allocator..Heapledger$LT$A$GT$$u20$as$u20$core..alloc..global..GlobalAlloc$GT$5alloc17h0E",
            "_ZSt11make_sharedIiJiEE",
            "_ZNSt6vectorIiSaIiEE9push_backEOi",
            "_ZNKSt6vectorIiSaIiEE4copyEv",
            "_ZN9__gnu_cxx13new_allocatorIiE8allocateEmPKv",
            "_ZNSaIcE8allocateEm",
            "_Znwm",
            "_ZZNSt8__detail4findEvENKUlvE_clEv",
            "_ZN5alloc3vec12Vec$LT$T$GT$4push17h0123456789abcdefE",
        ] {
            assert!(!holders.holds_name(name), "{name}");
            assert!(Holders::innermost().holds_name(name), "{name}");
        }
        // Names of a library in other letters are somebody else's.
        for name in ["Core::Engine::load()", "Std::grow(int)", "Alloc::Pool::take", "OPERATOR NEW", "_zn3std"] {
            assert!(holders.holds_name(name), "{name}");
        }
        for name in ["_Z5parsev", "_ZN5Store3addESt6vectorIiE", "_Z9allocatorSt4pair", "_ZN4main1fEv"] {
            assert!(holders.holds_name(name), "{name}");
        }
        for name in [
            "main",
            "parse",
            "worker1(int)",
            "mystd::f()",
            "f(std::string)",
            "allocate_table",
            "os::mallocate(int)",
            "Heaps::AllocateHeap(int)",
            "made(Pool::operator new(int))",
            "dup2",
            "jv_parse",
            "heapledger::main",
            "heapledger_weak_allocated_pool::take",
            "my_heapledger_weak_allocated",
            "heapledger::entrance::main",
            "heapledger::chip::walk::take",
            "_ZN10heapledger4chip4walk4take17h0E",
            "<Order as alloc::string::ToString>::to_string",
            "<shop::Order as core::fmt::Display>::fmt",
            "<shop::Order as shop::alloc::Spec>::make",
        ] {
            assert!(holders.holds_name(name), "{name}");
        }
    }

    #[test]
    fn our_own_allocator_is_known_by_its_file() {
        let frame = |file: &str, inlined| NamedFrame {
            function: Some("alloc<std::alloc::System>".into()),
            file: Some(file.into()),
            inlined,
            ..NamedFrame::default()
        };
        for file in [
            "/h/crates/heapledger/src/allocator.rs",
            "/c/registry/src/x/heapledger-0.1.0/src/allocator.rs",
            "/h/heapledger/src/chip/allocator.rs",
        ] {
            assert!(!Holders::default().holds(&frame(file, true)), "{file}");
            assert!(Holders::default().holds(&frame(file, false)) && Holders::innermost().holds(&frame(file, true)));
        }
        for file in [
            "src/allocator.rs",
            "/h/heapledger/src/main.rs",
            "/h/heapledger/chip/allocator.rs",
            "/h/heapledger-own/src/allocator.rs",
            "",
        ] {
            assert!(Holders::default().holds(&frame(file, true)), "{file}");
        }
    }

    #[test]
    fn more_can_be_hidden() {
        let mut holders = Holders::default();
        holders.hide("^pool_").expect("a pattern");
        assert!(holders.hide("(").is_err());
        let frame = |name: &str| NamedFrame { function: Some(name.into()), ..NamedFrame::default() };
        let stack =
            |names: &[&str]| NamedStack { frames: names.iter().map(|name| frame(name)).collect(), damaged: false };
        let holder = |names: &[&str]| holders.holder(&stack(names)).and_then(|frame| frame.function.clone());
        assert_eq!(holder(&["xmalloc", "pool_get", "parse", "main"]).as_deref(), Some("parse"));
        assert_eq!(holder(&["xmalloc", "pool_get"]).as_deref(), Some("xmalloc"));
        assert_eq!(holder(&[]), None);
    }
}
