//! Programs for chips: flash that begins at 0, labels that assemblers leave, code in RAM, names of C++, a ROM without lines.

mod support;

use support::*;

/// Vectors at 0, so that what the linker threw away, of which its debug information says that it is there, lies over `Reset`.
const AT_ZERO: &str = r#"
typedef unsigned int word;
extern word stack_top;
volatile word sink;
extern "C" void Reset(void);
extern "C" __attribute__((section(".vectors"), used)) void *const vectors[2];
void *const vectors[2] = { &stack_top, (void *) Reset };
void discarded(void) {
    for (word i = 0; i < 100; i++) { sink = i * 3; sink += sink / 7; sink ^= 5; sink = sink % 11 + i; }
}
namespace radio {
struct Queue { __attribute__((noinline)) word take(word n); };
word Queue::take(word n) { sink = n; return sink * 3; }
__attribute__((noinline, section(".ram_code"))) word quick(word n) { sink = n; return sink + 1; }
}
extern "C" void Reset(void) {
    radio::Queue queue;
    for (;;) radio::quick(queue.take(sink));
}
"#;

const LAYOUT: &str = "SECTIONS {
  . = 0;
  .text : { KEEP(*(.vectors)) *(.text.Reset) *(.text*) }
  .ram_code 0x20000000 : AT(0x8000) { *(.ram_code*) }
  .bss 0x20001000 : { *(.bss*) stack_top = .; }
  /DISCARD/ : { *(.ARM.exidx*) *(.note*) *(.eh_frame*) }
}";

/// Links `fw.elf` for a target; with a C++ compiler that knows all of them.
fn linked(scratch: &Scratch, target: &str, flags: &[&str]) {
    scratch.write("fw.cc", AT_ZERO);
    scratch.write("fw.ld", LAYOUT);
    let target = format!("--target={target}");
    let usual =
        ["-Os", "-g", "-ffreestanding", "-nostdlib", "-ffunction-sections", "-fuse-ld=lld", "-Wl,--gc-sections"];
    let mut arguments = vec![target.as_str()];
    arguments.extend(usual);
    arguments.extend(["-fno-exceptions", "-Wl,-Tfw.ld", "-Wl,-eReset", "fw.cc", "-o", "fw.elf"]);
    arguments.extend(flags);
    scratch.run("clang", &arguments);
}

/// Address and bytes of each symbol, by `nm`; of Thumb code without the bit that says so.
fn symbols(scratch: &Scratch, file: &str) -> Vec<(String, u64, u64)> {
    let text = scratch.run("nm", &["-S", file]);
    let symbol = |line: &str| {
        let mut words = line.split(' ');
        let number = |word: Option<&str>| u64::from_str_radix(word?, 16).ok();
        let (address, bytes) = (number(words.next())?, number(words.next())?);
        Some((words.nth(1)?.to_owned(), address & !1, bytes))
    };
    text.lines().filter_map(symbol).collect()
}

const TARGETS: [(&str, &[&str]); 2] =
    [("thumbv7m-none-eabi", &[]), ("riscv32-none-elf", &["-march=rv32imac", "-mno-relax"])];

#[test]
fn what_the_linker_threw_away_claims_nothing_where_flash_begins_at_zero() {
    for (target, flags) in TARGETS {
        let scratch = Scratch::new();
        linked(&scratch, target, flags);
        let known = symbols(&scratch, "fw.elf");
        let lines = scratch.run("readelf", &["--debug-dump=info", "fw.elf"]);
        assert!(lines.contains("discarded"), "{target}: the debug information does not speak of it");
        let at = |name: &str| known.iter().find(|(own, ..)| own == name).map(|(_, at, bytes)| (*at, *bytes));
        let (reset, reset_bytes) = at("Reset").expect("Reset");
        assert!(reset < 16, "{target}: Reset is not near 0, but at {reset:#x}");
        assert_eq!(at("_Z9discardedv"), None, "{target}");
        for (name, expected) in [
            ("Reset", "Reset"),
            ("_ZN5radio5Queue4takeEj", "radio::Queue::take"),
            ("_ZN5radio5quickEj", "radio::quick"),
        ] {
            let (first, bytes) = at(name).expect(name);
            let inside: Vec<u64> = (first..first + bytes).step_by(2).collect();
            let (resolved, _) = resolve(&scratch.options(), &scratch.path("fw.elf"), &[], &inside);
            for (address, resolved) in inside.iter().zip(&resolved) {
                let shown = shown(resolved);
                let last = shown.last().map_or("nothing", String::as_str);
                assert!(last.starts_with(expected), "{target}: {address:#x} of {name} is {shown:?}");
                assert!(last.contains("fw.cc:"), "{target}: {address:#x} of {name} has no line: {shown:?}");
            }
        }
        assert!(at("_ZN5radio5quickEj").is_some_and(|(first, _)| first >= 0x2000_0000), "{target}: it is not in RAM");
        // Without debug information the names stay.
        scratch.run("llvm-objcopy", &["--strip-debug", "fw.elf"]);
        let (resolved, _) = resolve(&scratch.options(), &scratch.path("fw.elf"), &[], &[reset + reset_bytes - 2]);
        assert_eq!(shown(&resolved[0]), ["Reset ??:0"], "{target}");
    }
}

#[test]
fn a_function_at_zero_keeps_its_debug_information() {
    for (target, flags) in TARGETS {
        let scratch = Scratch::new();
        scratch.write(
            "first.c",
            "volatile int s;\nvoid other(void) { s = s * 3 / 7 + s % 5; }\nint first(int n) { s = n; return s * 3; }\n",
        );
        scratch.write("first.ld", "SECTIONS { . = 0; .text : { *(.text.first) *(.text*) } .bss 0x20000000 : { *(.bss*) } /DISCARD/ : { *(.ARM.exidx*) *(.note*) } }");
        let target_flag = format!("--target={target}");
        let mut arguments =
            vec![target_flag.as_str(), "-Os", "-g", "-ffreestanding", "-nostdlib", "-ffunction-sections"];
        arguments.extend([
            "-fuse-ld=lld",
            "-Wl,--gc-sections",
            "-Wl,-Tfirst.ld",
            "-Wl,-efirst",
            "first.c",
            "-o",
            "first.elf",
        ]);
        arguments.extend(flags);
        scratch.run("clang", &arguments);
        let first = symbols(&scratch, "first.elf").into_iter().find(|(name, ..)| name == "first").expect("first");
        assert_eq!(first.1, 0, "{target}");
        let inside: Vec<u64> = (0..first.2).step_by(2).collect();
        let (resolved, _) = resolve(&scratch.options(), &scratch.path("first.elf"), &[], &inside);
        assert!(resolved.iter().all(|resolved| shown(resolved) == ["first first.c:3"]), "{target}: {resolved:?}");
    }
}

#[test]
fn labels_of_assemblers_and_compilers_name_nothing() {
    let scratch = Scratch::new();
    scratch.write(
        "rom.s",
        " .text\n .globl Reset\nReset:\n la sp, stack_top\n la t0, sink\n lw t1, 0(t0)\n call inside\n .globl Fault\nFault: j Fault\n\
         inside:\n la t2, sink\n ret\n .bss\nsink: .space 4\nstack_top:\n",
    );
    scratch.run("clang", &["--target=riscv32-none-elf", "-march=rv32imac", "-c", "rom.s", "-o", "rom.o"]);
    scratch.run("ld.lld", &["-Ttext=0x80000000", "-eReset", "rom.o", "-o", "rom.elf"]);
    let symbols = scratch.run("nm", &["rom.elf"]);
    assert!(symbols.contains("80000008 t .Lpcrel_hi1"), "the labels are not there: {symbols}");
    let inside: Vec<u64> = (0x8000_0000..0x8000_002a).step_by(2).collect();
    let (resolved, _) = resolve(&scratch.options(), &scratch.path("rom.elf"), &[], &inside);
    for (address, resolved) in inside.iter().zip(&resolved) {
        let expected = match address & 0xFF {
            0..0x1C => "Reset",
            0x1C..0x20 => "Fault",
            _ => "inside",
        };
        assert_eq!(function(&resolved.frames[0]), expected, "{address:#x}");
    }
}

/// A ROM of which there is nothing but where its functions lie: in a file of its own, whose symbols say what they are and how long; or told by the linker script of
/// a firmware, as numbers.
#[test]
fn functions_of_a_rom_that_are_absolute_symbols_have_names() {
    for (target, flags, thumb) in
        [("thumbv7m-none-eabi", &[][..], 1u64), ("riscv32-none-elf", &["-march=rv32imac", "-mno-relax"], 0)]
    {
        let scratch = Scratch::new();
        let target_flag = format!("--target={target}");
        let of_rom = |name: &str, address: u64, bytes: u64| {
            let address = address | thumb;
            format!(" .globl {name}\n .set {name}, {address:#x}\n .type {name}, %function\n .size {name}, {bytes}\n")
        };
        let rom = of_rom("rom_malloc", 0x4000_0100, 0x40) + &of_rom("rom_free", 0x4000_0140, 0x20);
        scratch.write("rom.s", &rom);
        let compiled = |source: &str, object: &str| {
            let mut arguments = vec![target_flag.as_str(), "-c", source, "-o", object];
            arguments.extend(flags);
            scratch.run("clang", &arguments);
        };
        compiled("rom.s", "rom.o");
        scratch.run("ld.lld", &["rom.o", "-e0", "-o", "rom.elf"]);
        assert!(scratch.run("nm", &["rom.elf"]).contains(" A rom_malloc"), "{target}: it is not absolute");
        let names = |file: &str, addresses: &[u64]| -> Vec<String> {
            let (resolved, _) = resolve(&scratch.options(), &scratch.path(file), &[], addresses);
            resolved.iter().map(|resolved| shown(resolved).concat()).collect()
        };
        assert_eq!(
            names("rom.elf", &[0x4000_0100, 0x4000_013e, 0x4000_0140, 0x4000_015e]),
            ["rom_malloc ??:0", "rom_malloc ??:0", "rom_free ??:0", "rom_free ??:0"],
            "{target}"
        );
        // Behind the last one is nothing that is known.
        assert!(!names("rom.elf", &[0x4000_0160])[0].contains("rom_"), "{target}");

        scratch.write("fw.c", "int of_rom(int); int Reset(void) { return of_rom(3) + 1; }");
        let script = format!(
            "SECTIONS {{ . = 0x8000; .text : {{ *(.text*) }} /DISCARD/ : {{ *(.ARM.exidx*) *(.note*) *(.comment*) }} }}\n\
             of_rom = {:#x}; other_of_rom = {:#x}; stack_bytes = 0x8002;",
            0x4000_0200 | thumb,
            0x4000_0300 | thumb
        );
        scratch.write("fw.ld", &script);
        compiled("fw.c", "fw.o");
        scratch.run("ld.lld", &["-Tfw.ld", "-eReset", "fw.o", "-o", "fw.elf"]);
        assert_eq!(
            names("fw.elf", &[0x4000_0200, 0x4000_02fe, 0x4000_0300, 0x8002]),
            ["of_rom ??:0", "of_rom ??:0", "other_of_rom ??:0", "Reset ??:0"],
            "{target}"
        );
        // So far from the last one nobody knows.
        assert!(!names("fw.elf", &[0x4001_0000])[0].contains("of_rom"), "{target}");
    }
}
