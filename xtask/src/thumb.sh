# $1: root of the repository, $2: where to keep the compiler.
# rustup has no library for this target without a download from its own server; Debian's rustc-web and
# rust-web-src are a matched pair. They are unpacked, not installed: as packages they conflict with rustup's.
root=$1 keep=$2 target=thumbv7m-none-eabi
skip() { echo "skipped: $1"; exit 77; }

for tool in apt-get apt-cache dpkg-deb; do
    command -v $tool >/dev/null || skip "$tool is missing, so Debian's rustc cannot be fetched"
done
[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || skip "the recipe is for amd64"
# Older ones have compiler_builtins in a crate of its own, and do not know our edition's idioms.
oldest=1.96
candidate() { version=$(apt-cache policy rustc-web 2>/dev/null | awk '/Candidate:/{print $2}' | grep '^[0-9]' || true); }
usable() { [ -n "$version" ] && dpkg --compare-versions "$version" ge $oldest; }
candidate
if ! usable && [ "$(id -u)" = 0 ]; then
    apt-get -qq update || true
    candidate
fi
have=$(cat "$keep/version" 2>/dev/null || true)
if ! usable; then
    [ -n "$have" ] || skip "Debian's package rustc-web, $oldest or later, is not to be had here (${version:-none})"
    version=$have
fi

usr=$keep/rust/usr
export LD_LIBRARY_PATH="$usr/lib/x86_64-linux-gnu"
if [ "$have" != "$version" ]; then
    rm -rf "$keep"
    mkdir -p "$keep/deb" "$keep/rust"
    std=$(apt-cache depends libstd-rust-web-dev | awk '/Depends: libstd-rust-web-/{print $2; exit}')
    llvm=$(apt-cache depends "$std" | awk '/Depends: libllvm/{print $2; exit}')
    [ -n "$std" ] && [ -n "$llvm" ] || skip "the packages of rustc-web have other names here"
    echo "fetching rustc-web $version (about 100 MB, once)"
    # apt's own user may not write here; that is a warning, not an error.
    (cd "$keep/deb" && LD_LIBRARY_PATH= apt-get download -qq rustc-web "$std" "$llvm" rust-web-src) \
        || skip "the packages cannot be fetched"
    for deb in "$keep"/deb/rustc-web_*.deb "$keep"/deb/libstd-*.deb "$keep"/deb/libllvm*.deb; do
        dpkg-deb -x "$deb" "$keep/rust"
    done
    dpkg-deb --fsys-tarfile "$keep"/deb/rust-web-src_*.deb |
        tar -C "$keep/rust" -x --wildcards './usr/src/rustc-*/library/*'
    rm -rf "$keep/deb"
    "$usr/bin/rustc" --version >/dev/null || skip "Debian's rustc does not run here"

    echo "building core for $target (about a minute, once)"
    library=$(echo "$usr"/src/rustc-*/library)
    out=$usr/lib/rustlib/$target/lib
    mkdir -p "$out"
    base() {
        RUSTC_BOOTSTRAP=1 "$usr/bin/rustc" --crate-type rlib --edition 2024 --target $target -Copt-level=1 \
            -Cpanic=abort -Cembed-bitcode=no -Zforce-unstable-if-unmarked --cap-lints allow \
            --out-dir "$out" -L "$out" "$@"
    }
    base --crate-name core "$library/core/src/lib.rs"
    CFG_CARGO_FEATURES='[]' CFG_OPT_LEVEL=1 CFG_TARGET_FEATURES='[]' \
        base --crate-name compiler_builtins "$library/compiler-builtins/compiler-builtins/src/lib.rs" \
        -Ccodegen-units=10000 --cfg 'feature="compiler-builtins"' --cfg 'feature="mem"' \
        --cfg 'feature="unstable-intrinsics"' --cfg intrinsics_enabled --cfg arch_enabled \
        --cfg optimizations_enabled --cfg thumb --extern core="$out/libcore.rlib"
    echo "$version" > "$keep/version"
fi

# Our crates do not see `alloc`: one that wants it does not compile. Firmware has it.
if ! [ -f "$keep/alloc/liballoc.rlib" ]; then
    mkdir -p "$keep/alloc"
    library=$(echo "$usr"/src/rustc-*/library)
    RUSTC_BOOTSTRAP=1 "$usr/bin/rustc" --crate-type rlib --crate-name alloc --edition 2024 --target $target -Copt-level=1 \
        -Cpanic=abort -Cforce-frame-pointers=yes -Cembed-bitcode=no -Zforce-unstable-if-unmarked --cap-lints allow \
        --out-dir "$keep/alloc" "$library/alloc/src/lib.rs"
fi
out=$keep/out
mkdir -p "$out"
compile() {
    name=$1 crate=$2
    shift 2
    "$usr/bin/rustc" --crate-type rlib --crate-name "$crate" --edition 2024 --target $target \
        -Copt-level=s -Cpanic=abort -Dwarnings --out-dir "$out" -L "$out" "$@" "$root/crates/$name/src/lib.rs"
    echo "$crate compiles for $target"
}
compile format heapledger_format
compile unwind heapledger_unwind
compile guard heapledger_guard
compile lws heapledger_lws
compile metadata heapledger_metadata --extern heapledger_lws
compile wire heapledger_wire --extern heapledger_lws
compile recorder heapledger_recorder --extern heapledger_format
# Without `std` the crate for programs records with the backend for chips; what records on Linux is empty.
compile linux heapledger_linux
compile process heapledger_process --extern heapledger_format
compile watch heapledger_watch --extern heapledger_format
compile heapledger heapledger --extern heapledger_format --extern heapledger_recorder --extern heapledger_watch

# Firmware with the crate inside. The linker is the one of rustup's toolchain.
linker=$(LD_LIBRARY_PATH= rustc --print sysroot)/lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld
rm -f "$out/firmware"
if [ -x "$linker" ]; then
    "$usr/bin/rustc" --crate-name firmware --edition 2024 --target $target -Copt-level=s -Cpanic=abort -Cdebuginfo=1 \
        -Cforce-frame-pointers=yes -Dwarnings -Clinker="$linker" -Clink-arg="-T$root/e2e/firmware/cortex_m3.ld" --out-dir "$out" \
        -L "$out" -L "$keep/alloc" --extern heapledger "$root/e2e/firmware/firmware.rs"
    echo "firmware with heapledger is linked for $target"
    # The codec of backtraces by itself: what encoding takes of a chip's flash.
    "$usr/bin/rustc" --crate-name backtrace --edition 2024 --target $target -Copt-level=s -Cpanic=abort -Dwarnings \
        -Clinker="$linker" -Clink-arg=-eencode_backtrace -Clink-arg=--gc-sections --out-dir "$out" -L "$out" \
        --extern heapledger_lws "$root/e2e/firmware/backtrace.rs"
    flash=$(LD_LIBRARY_PATH= size "$out/backtrace" | awk 'NR == 2 {print $1}')
    echo "encoding a backtrace takes $flash bytes of flash"
    [ "$flash" -le 1536 ] || { echo "that is more than 1536"; exit 1; }
else
    echo "firmware is not linked: there is no $linker"
fi
