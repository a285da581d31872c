//! On programs that are compiled here by gcc: each kind is the real thing, not an imitation of its bytes.

use super::*;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// A directory for one test; removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("heapledger-detect-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Scratch(path)
    }

    /// Compiles a C program with these options.
    fn program(&self, name: &str, source: &str, options: &[&str]) -> PathBuf {
        let (code, program) = (self.0.join(format!("{name}.c")), self.0.join(name));
        fs::write(&code, source).expect("source written");
        let status = Command::new("gcc").args(["-O0", "-o"]).arg(&program).arg(&code).args(options).status();
        assert!(status.expect("gcc is needed for this test").success());
        program
    }

    fn script(&self, name: &str, first_line: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, format!("{first_line}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn verdict(path: &Path) -> Verdict {
    examine(path, &[path.into()], &|name| crate::exec::find(name).ok())
}

const PLAIN: &str = "#include <stdlib.h>\nint main(void) { free(malloc(1)); return 0; }\n";

#[test]
fn an_ordinary_program_can_be_tracked() {
    let scratch = Scratch::new("plain");
    assert_eq!(verdict(&scratch.program("plain", PLAIN, &[])).why, None);
    for system in ["/bin/sh", "/usr/bin/perl", "/bin/bash"] {
        assert_eq!(verdict(Path::new(system)).why, None, "{system}");
    }
}

#[test]
fn static_programs() {
    let scratch = Scratch::new("static");
    assert_eq!(verdict(&scratch.program("static", PLAIN, &["-static"])).why, Some(Why::Static));
    assert_eq!(verdict(&scratch.program("static-pie", PLAIN, &["-static-pie"])).why, Some(Why::Static));
}

#[test]
fn the_loader_called_by_hand_is_no_static_program() {
    let own = File::open("/proc/self/exe").ok().and_then(elf::read).and_then(|own| own.interpreter);
    assert_eq!(verdict(&own.expect("linked dynamically")).why, None);
}

#[test]
fn programs_that_gain_rights() {
    let scratch = Scratch::new("suid");
    let program = scratch.program("plain", PLAIN, &[]);
    let set = |mode| fs::set_permissions(&program, fs::Permissions::from_mode(mode)).expect("chmod");
    set(0o4755);
    // Our own rights again: nothing is gained, and the loader does preload.
    assert_eq!(verdict(&program).why, None);
    if getuid().is_root() && !no_new_privileges() {
        std::os::unix::fs::chown(&program, Some(65534), Some(65534)).expect("chown as root");
        set(0o4755);
        assert_eq!(verdict(&program).why, Some(Why::SetUid));
        set(0o2755);
        assert_eq!(verdict(&program).why, Some(Why::SetGid));
        set(0o2745);
        assert_eq!(verdict(&program).why, None, "without the group's right to execute it means something else");
    }
}

#[test]
fn programs_with_their_own_allocator() {
    let scratch = Scratch::new("own");
    let own = "#include <stddef.h>\nstatic char heap[999];\nvoid *malloc(size_t n) { return n < 999 ? heap : 0; }\n\
               int main(void) { return malloc(1) != heap; }\n";
    assert_eq!(verdict(&scratch.program("exported", own, &["-rdynamic"])).why, Some(Why::OwnAllocator));
    let renamed = own.replace("malloc", "je_malloc");
    let found = verdict(&scratch.program("built-in", &renamed, &[]));
    assert_eq!(found.why, Some(Why::BuiltInAllocator("je_malloc".into())));
    assert!(found.why.is_some_and(|why| why.partly()));
    let tells = "__asm__(\".pushsection .note.heapledger,\\\"a\\\",@note; .p2align 2; .long 11, 8, 0x484C;\"\n\
                 \".asciz \\\"heapledger\\\"; .p2align 2; .quad 0; .popsection\");\n";
    let with_the_crate = scratch.program("with-the-crate", &format!("{tells}{renamed}"), &[]);
    assert_eq!(verdict(&with_the_crate).why, None, "it tells of its calls by itself");
    let linked_with_it = scratch.program("linked-with-it", &format!("{tells}{PLAIN}"), &["-static"]);
    let found = verdict(&linked_with_it);
    assert_eq!(found.why, Some(Why::RecordsItself));
    assert!(found.why.is_some_and(|why| why.partly()));
    let stripped = scratch.program("stripped", &renamed, &["-s"]);
    assert_eq!(verdict(&stripped).why, None, "nothing is left to tell it by");
}

#[test]
fn sanitizers() {
    let scratch = Scratch::new("sanitizers");
    let try_compile = |name: &str, compiler: &str, source: &str, options: &[&str]| {
        let (code, product) = (scratch.0.join(format!("{name}.c")), scratch.0.join(name));
        fs::write(&code, source).expect("source written");
        let status = Command::new(compiler).args(["-g", "-o"]).arg(&product).arg(&code).args(options).output();
        if status.is_ok_and(|output| output.status.success()) {
            return Some(product);
        }
        eprintln!("SKIPPED: {compiler} {options:?} does not work here");
        None
    };
    let mut seen = 0;
    for (compiler, flag, more, name) in [
        ("gcc", "address", &[][..], Some("AddressSanitizer")),
        ("gcc", "thread", &[], Some("ThreadSanitizer")),
        ("gcc", "leak", &[], Some("LeakSanitizer")),
        ("gcc", "address", &["-static-libasan"], Some("AddressSanitizer")),
        ("gcc", "thread", &["-static-libtsan"], Some("ThreadSanitizer")),
        ("gcc", "undefined", &[], None),
        ("clang", "address", &[], Some("AddressSanitizer")),
        ("clang", "address", &["-shared-libsan"], Some("AddressSanitizer")),
        ("clang", "thread", &[], Some("ThreadSanitizer")),
        ("clang", "undefined", &[], None),
    ] {
        let flag = format!("-fsanitize={flag}");
        if let Some(program) = try_compile("plain", compiler, PLAIN, &[&[flag.as_str()], more].concat()) {
            assert_eq!(verdict(&program).why, name.map(Why::Sanitizer), "{compiler} {flag} {more:?}");
            seen += 1;
        }
    }
    assert!(seen > 0, "no compiler has any");
    // A program that is built as usual, with a library that is not: what counts is in the process.
    let flags = ["-shared", "-fPIC", "-fsanitize=address"];
    if try_compile("libinner.so", "gcc", "int inner(void) { return 0; }\n", &flags).is_some() {
        let outer = "int inner(void);\nint outer(void) { return inner(); }\n";
        let here = format!("-L{}", scratch.0.display());
        let origin = "-Wl,-rpath,$ORIGIN";
        let flags = ["-shared", "-fPIC", &here, "-linner", origin];
        try_compile("libouter.so", "gcc", outer, &flags).expect("linked");
        let main = "int outer(void);\nint main(void) { return outer(); }\n";
        let program = scratch.program("main", main, &[&here, "-louter", origin, "-Wl,--allow-shlib-undefined"]);
        assert_eq!(verdict(&program).why, Some(Why::Sanitizer("AddressSanitizer")));
    }
}

#[test]
fn other_c_libraries_and_processors() {
    let scratch = Scratch::new("other");
    let musl = scratch.program("musl", PLAIN, &["-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"]);
    assert_eq!(verdict(&musl).why, Some(Why::Musl));
    let plain = scratch.program("plain", PLAIN, &[]);
    let mut bytes = fs::read(&plain).expect("read");
    bytes[18..20].copy_from_slice(&object::elf::EM_AARCH64.0.to_le_bytes());
    let foreign = scratch.0.join("aarch64");
    fs::write(&foreign, &bytes).expect("written");
    let found = verdict(&foreign);
    assert_eq!(found.why, Some(Why::Foreign { bits: 64, machine: object::elf::EM_AARCH64.0 }));
    assert!(found.to_string().contains("a 64-bit program for aarch64"));
    bytes[4] = 1;
    bytes[18..20].copy_from_slice(&object::elf::EM_386.0.to_le_bytes());
    fs::write(&foreign, &bytes).expect("written");
    assert!(verdict(&foreign).to_string().contains("a 32-bit program for i386"));
}

#[test]
fn scripts_are_what_runs_them() {
    let scratch = Scratch::new("script");
    let program = scratch.program("static", PLAIN, &["-static"]);
    let first = scratch.script("first", &format!("#!{}", program.display()));
    let second = scratch.script("second", &format!("#! {} -x", first.display()));
    let found = verdict(&second);
    assert_eq!(found.why, Some(Why::Static));
    assert_eq!(found.path, program);
    let by_env = scratch.script("by-env", "#!/usr/bin/env sh");
    assert_eq!(verdict(&by_env).path.file_name(), Some(std::ffi::OsStr::new("sh")));
    let endless = scratch.0.join("endless");
    scratch.script("endless", &format!("#!{}", endless.display()));
    assert_eq!(verdict(&endless).why, None, "the kernel will refuse it");
}

#[test]
fn damaged_files_are_left_to_the_kernel() {
    let scratch = Scratch::new("damaged");
    let bytes = fs::read(scratch.program("plain", PLAIN, &[])).expect("read");
    let path = scratch.0.join("damaged");
    for cut in (0..bytes.len()).step_by(997).chain(0..70) {
        fs::write(&path, &bytes[..cut]).expect("written");
        let _ = verdict(&path);
    }
    for at in (0..4096.min(bytes.len())).step_by(7) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0xff;
        fs::write(&path, &flipped).expect("written");
        let _ = verdict(&path);
    }
    assert_eq!(verdict(&scratch.0.join("missing")).why, None);
    assert_eq!(verdict(Path::new("/")).why, None);
}
