//! Debian packages that the tests, the demo and the measurements need.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{Result, run};

/// Something that must be there, and the package that brings it.
pub(crate) struct Need {
    /// A command in `PATH`, a library in the system's library directory, or a file.
    what: What,
    package: &'static str,
}

enum What {
    Command(&'static str),
    Library(&'static str),
    File(&'static str),
}

const fn command(name: &'static str, package: &'static str) -> Need {
    Need { what: What::Command(name), package }
}

const fn library(name: &'static str, package: &'static str) -> Need {
    Need { what: What::Library(name), package }
}

const fn file(path: &'static str, package: &'static str) -> Need {
    Need { what: What::File(path), package }
}

/// For the demo.
pub(crate) const DEMO: &[Need] = &[command("jq", "jq")];

/// For the tests: compilers for the programs that they run, and real programs.
pub(crate) const TEST: &[Need] = &[
    command("gcc", "gcc"),
    command("g++", "g++"),
    command("clang", "clang"),
    command("ld.lld", "lld"),
    command("musl-gcc", "musl-tools"),
    command("nm", "binutils"),
    command("pkg-config", "pkgconf"),
    command("cmake", "cmake"),
    command("gdb", "gdb"),
    command("gdbserver", "gdbserver"),
    command("jq", "jq"),
    command("python3", "python3"),
    command("perl", "perl"),
    command("sqlite3", "sqlite3"),
    command("xmllint", "libxml2-utils"),
    command("git", "git"),
    command("redis-server", "redis-server"),
    command("redis-benchmark", "redis-tools"),
    command("tmux", "tmux"),
    command("pgrep", "procps"),
    command("heaptrack", "heaptrack"),
    command("valgrind", "valgrind"),
    command("curl", "curl"),
    command("debuginfod-find", "debuginfod"),
    command("script", "bsdutils"),
    command("man", "man-db"),
    command("chromium", "chromium"),
    library("libjemalloc.so.2", "libjemalloc2"),
    library("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
];

/// For packages of our own: what packs, and what unpacks and looks at it.
pub(crate) const DIST: &[Need] = &[
    command("dpkg-deb", "dpkg"),
    command("dpkg-shlibdeps", "dpkg-dev"),
    command("rpmbuild", "rpm"),
    command("rpm2cpio", "rpm2cpio"),
    command("cpio", "cpio"),
    command("git", "git"),
    command("man", "man-db"),
];

/// For tests that are skipped without: chips, and the debugger that knows them.
pub(crate) const CHIP: &[Need] = &[
    command("qemu-system-arm", "qemu-system-arm"),
    command("qemu-system-riscv32", "qemu-system-misc"),
    command("gdb-multiarch", "gdb-multiarch"),
    // Compilers and C libraries for them.
    command("arm-none-eabi-gcc", "gcc-arm-none-eabi"),
    file("/usr/lib/arm-none-eabi/newlib/nano.specs", "libnewlib-arm-none-eabi"),
    file("/usr/lib/arm-none-eabi/newlib/libstdc++.a", "libstdc++-arm-none-eabi-newlib"),
    command("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf"),
    file("/usr/lib/picolibc/riscv64-unknown-elf/picolibc.specs", "picolibc-riscv64-unknown-elf"),
];

/// For measuring: programs, and the tools that we are compared with.
pub(crate) const BENCH: &[Need] = &[
    command("gcc", "gcc"),
    command("g++", "g++"),
    command("jq", "jq"),
    command("python3", "python3"),
    command("perl", "perl"),
    command("sqlite3", "sqlite3"),
    command("xmllint", "libxml2-utils"),
    command("redis-server", "redis-server"),
    command("redis-benchmark", "redis-tools"),
    command("heaptrack", "heaptrack"),
    command("zstd", "zstd"),
    command("valgrind", "valgrind"),
    library("libtcmalloc.so.4", "libgoogle-perftools4"),
];

/// For reading exported files: the viewers that they are for.
pub(crate) const VIEWERS: &[Need] = &[
    command("g++", "g++"),
    command("go", "golang-go"),
    command("heaptrack_print", "heaptrack"),
    command("ms_print", "valgrind"),
    command("chromium", "chromium"),
    command("perl", "perl"),
    // flamegraph.pl is part of it.
    file("/usr/share/perl5/Devel/NYTProf/flamegraph.pl", "libdevel-nytprof-perl"),
    command("gzip", "gzip"),
    command("python3", "python3-venv"),
    command("npm", "npm"),
];

const LIBRARY_DIRECTORIES: &[&str] = &["/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];

impl Need {
    fn is_met(&self) -> bool {
        match self.what {
            What::Command(name) => on_path(name),
            What::Library(name) => library_path(name).is_some(),
            What::File(path) => Path::new(path).exists(),
        }
    }
}

/// A library of the system, by file name.
pub(crate) fn library_path(name: &str) -> Option<PathBuf> {
    LIBRARY_DIRECTORIES.iter().map(|directory| Path::new(directory).join(name)).find(|path| path.exists())
}

/// Whether there is a command of this name.
pub(crate) fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
}

/// Installs what is missing, or says what to install.
pub(crate) fn provide(needs: &[Need]) -> Result {
    let missing: Vec<&str> = needs.iter().filter(|need| !need.is_met()).map(|need| need.package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let by_hand = format!("these packages are missing; install them with: apt-get install {}", missing.join(" "));
    if !is_root() || !on_path("apt-get") {
        return Err(by_hand);
    }
    println!("installing {}", missing.join(" "));
    if !install(&missing) {
        // The lists may be old, or another apt-get was at work.
        run(&mut quiet_apt(&["update"]))?;
        if !install(&missing) {
            return Err(by_hand);
        }
    }
    let still: Vec<&str> = needs.iter().filter(|need| !need.is_met()).map(|need| need.package).collect();
    if still.is_empty() { Ok(()) } else { Err(format!("installed, yet not found: {}", still.join(" "))) }
}

/// The same for what is not needed: where it cannot be had, a line says so.
pub(crate) fn provide_if_possible(needs: &[Need]) {
    if let Err(reason) = provide(needs) {
        println!("{reason}; what needs them is skipped");
    }
}

fn install(packages: &[&str]) -> bool {
    let mut apt = quiet_apt(&["install", "-y", "--no-install-recommends"]);
    run(apt.args(packages)).is_ok()
}

fn quiet_apt(arguments: &[&str]) -> Command {
    let mut apt = Command::new("apt-get");
    // A server that a package would start is not wanted: the tests start their own.
    apt.arg("-qq").args(arguments).env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
    apt
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
