# $1: root of the repository, $2: where to keep what is made.
# The crates are compiled for chips, and firmware with them inside is linked. The library for these targets is rustup's, if it can be
# added; else it is built of Debian's rustc-web and rust-web-src, which are a matched pair. They are unpacked, not installed: as packages they
# conflict with rustup's.
root=$1 keep=$2 targets="thumbv7m-none-eabi riscv32imac-unknown-none-elf" smaller=thumbv6m-none-eabi
skip() { echo "skipped: $1"; exit 77; }

of_rustup() {
    sysroot=$(rustc --print sysroot 2>/dev/null) || return 1
    for target in $targets; do
        ls "$sysroot/lib/rustlib/$target/lib/"liballoc-*.rlib >/dev/null 2>&1 || return 1
    done
}

of_debian() {
    for tool in apt-get apt-cache dpkg-deb; do
        command -v $tool >/dev/null || skip "rustup has no library for $targets, and $tool is missing, so Debian's rustc cannot be fetched"
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
    rustc=$usr/bin/rustc
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
        "$rustc" --version >/dev/null || skip "Debian's rustc does not run here"
        echo "$version" > "$keep/version"
    fi
    for target in $targets; do
        library=$(echo "$usr"/src/rustc-*/library)
        of_target=$usr/lib/rustlib/$target/lib
        [ -f "$of_target/liballoc.rlib" ] && continue
        echo "building core for $target (about a minute, once)"
        mkdir -p "$of_target"
        thumb=
        case $target in thumb*) thumb="--cfg thumb" ;; esac
        base() {
            RUSTC_BOOTSTRAP=1 "$rustc" --crate-type rlib --edition 2024 --target $target -Copt-level=1 \
                -Cpanic=abort -Cforce-frame-pointers=yes -Zforce-unstable-if-unmarked --cap-lints allow \
                --out-dir "$of_target" -L "$of_target" "$@"
        }
        base --crate-name core "$library/core/src/lib.rs"
        CFG_CARGO_FEATURES='[]' CFG_OPT_LEVEL=1 CFG_TARGET_FEATURES='[]' \
            base --crate-name compiler_builtins "$library/compiler-builtins/compiler-builtins/src/lib.rs" \
            -Ccodegen-units=10000 --cfg 'feature="compiler-builtins"' --cfg 'feature="mem"' \
            --cfg 'feature="unstable-intrinsics"' --cfg intrinsics_enabled --cfg arch_enabled \
            --cfg optimizations_enabled $thumb --extern core="$of_target/libcore.rlib"
        base --crate-name alloc "$library/alloc/src/lib.rs"
    done
}

mkdir -p "$keep"
if ! of_rustup && command -v rustup >/dev/null; then
    timeout 300 rustup --quiet target add $targets $smaller thumbv7em-none-eabihf >/dev/null 2>&1 || true
fi
if of_rustup; then
    rustc=rustc
else
    of_debian
fi

# Firmware is linked by the linker of rustup's toolchain.
linker=$(LD_LIBRARY_PATH= rustc --print sysroot)/lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld
[ -x "$linker" ] || echo "firmware is not linked: there is no $linker"
compile() {
    name=$1 crate=$2
    shift 2
    "$rustc" --crate-type rlib --crate-name "$crate" --edition 2024 --target $target \
        -Copt-level=s -Cpanic=abort -Cforce-frame-pointers=yes -Dwarnings --out-dir "$out" -L "$out" "$@" \
        "$root/crates/$name/src/lib.rs"
}
# Firmware in Rust, with the linker's script of its own. $1: the source; $2: the program.
link() {
    source=$1 program=$2
    shift 2
    "$rustc" --crate-name "$program" --edition 2024 --target $target -Copt-level=s -Cpanic=abort -Cdebuginfo=1 \
        -Clto=fat -Ccodegen-units=1 -Cforce-frame-pointers=yes -Dwarnings -Clinker="$linker" -Clink-arg="-T$script" \
        --check-cfg 'cfg(scan)' --check-cfg 'cfg(lock, values(any()))' --check-cfg 'cfg(guard, values(any()))' --check-cfg 'cfg(set, values(any()))' --check-cfg 'cfg(room, values(any()))' \
        --out-dir "$out" -L "$out" --extern heapledger "$@" "$root/e2e/firmware/$source.rs"
}
# The static library for firmware in C. $1: where to; then the compiler's options.
library() {
    into=$1
    shift
    # Calls and addresses that the linker makes shorter. (The compiler says that this may change.)
    case $target in riscv*) set -- "$@" -Ctarget-feature=+relax ;; esac
    "$rustc" --crate-type staticlib --crate-name heapledger_firmware --edition 2024 --target $target -Copt-level=s \
        -Cpanic=abort -Clto=fat -Ccodegen-units=1 -Dwarnings --check-cfg 'cfg(test)' --check-cfg 'cfg(feature, values("guard", "fixed", "hooks"))' \
        --out-dir "$into" -L "$out" --extern heapledger "$@" "$root/crates/firmware/src/lib.rs"
}
# The same, of which blocks are guarded.
guarded_library() { library "$out/guard" --cfg 'feature="guard"'; }
# The same, which tells the firmware of each block.
hooks_library() { mkdir -p "$out/hooks"; library "$out/hooks" --cfg 'feature="hooks"'; }
# The same, built for one firmware. $1: where to; $2: what for; then the compiler's options.
fixed_library() {
    into=$1 fixed_for=$2
    shift 2
    mkdir -p "$into"
    HEAPLEDGER_FIXED=$fixed_for library "$into" --cfg 'feature="fixed"' "$@"
}
fixed_for_measure="records=100 sites=512 depth=5 stack=1"
fixed_for_windows="records=64 sites=64 depth=8 history=16 tasks=4 largest=1048574"
fixed_for_commands="records=100 sites=512 depth=12 history=200 tasks=3 largest=1048574 clock_bits=8 tick_ns=1000000 actual_sizes=1 stack=1"
# Firmware in C, if there is a compiler for it: other programs than Debian's rustc, which has libraries of its own.
c_options="-Os -g -Wall -Wextra -Werror -ffunction-sections -I$root/crates/firmware/include -I$root/e2e/firmware"
wrapped_two="-Wl,--wrap=malloc,--wrap=free"
wrapped="$wrapped_two,--wrap=calloc,--wrap=realloc"
wrapped_newlib="$wrapped,--wrap=_malloc_r,--wrap=_free_r,--wrap=_calloc_r,--wrap=_realloc_r"
without() { echo "firmware is not built for $target: there is no $1"; }
# One library's own allocator with metadata before its blocks. zlib's sources are in a crate, which cargo fetches. $1: the compiler and
# its options; then the linker's words before the objects, and behind them.
with_zlib() {
    fetched=$keep/zlib/$target
    mkdir -p "$fetched"
    printf '%s\n' '[package]' 'name = "fetched"' 'edition = "2024"' '[lib]' 'path = "/dev/null"' '[workspace]' \
        '[dependencies]' 'libz-sys = "=1.1.31"' > "$fetched/Cargo.toml"
    zlib=$(LD_LIBRARY_PATH= timeout 120 cargo metadata --quiet --format-version 1 --manifest-path "$fetched/Cargo.toml" 2>/dev/null |
        grep -o '"manifest_path":"[^"]*/libz-sys-[^"]*/Cargo.toml"' | head -n 1 | cut -d'"' -f4) || zlib=
    zlib=${zlib%Cargo.toml}src/zlib
    [ -f "$zlib/deflate.c" ] || { without "crate libz-sys, so zlib is missing"; return 0; }
    objects=
    for source in adler32 crc32 deflate trees zutil; do
        LD_LIBRARY_PATH= $1 -w -isystem "$zlib" -DZ_SOLO -c "$zlib/$source.c" -o "$out/zlib_$source.o"
        objects="$objects $out/zlib_$source.o"
    done
    LD_LIBRARY_PATH= $1 -isystem "$zlib" -DZ_SOLO -I"$root/crates/metadata-c/include" -c "$root/e2e/firmware/metadata.c" -o "$out/metadata_c.o"
    LD_LIBRARY_PATH= $2 "$out/start.o" "$out/metadata_c.o" $objects $3 -o "$out/metadata_c"
    echo "firmware with metadata before zlib's blocks is linked for $target"
}
in_c_for_cortex_m3() {
    for tool in arm-none-eabi-gcc clang; do
        command -v $tool >/dev/null || { without $tool; return 0; }
    done
    headers=$(arm-none-eabi-gcc -print-sysroot 2>/dev/null)/include/newlib
    [ -f "$headers/stdlib.h" ] || headers=/usr/include/newlib
    [ -f "$headers/stdlib.h" ] || { without newlib; return 0; }
    arm="arm-none-eabi-gcc -mcpu=cortex-m3 -mthumb"
    # (Of `memcpy` and the like the C library has shorter ones: it comes first.)
    grouped="-Wl,--start-group -lc $out/libheapledger_firmware.a -Wl,--end-group"
    c_link() {
        program=$1
        shift
        LD_LIBRARY_PATH= $arm -nostartfiles -T "$root/e2e/firmware/cortex_m3_c.ld" -Wl,--gc-sections -Wl,--no-warn-execstack \
            "$out/start.o" "$@" $grouped -o "$out/$program"
    }
    LD_LIBRARY_PATH= $arm $c_options -c "$root/e2e/firmware/start.c" -o "$out/start.o"
    # clang's frame pointers can be followed.
    LD_LIBRARY_PATH= clang --target=thumbv7m-none-eabi -fshort-enums -fno-omit-frame-pointer -isystem "$headers" $c_options \
        -c "$root/e2e/firmware/commands.c" -o "$out/commands_c.o"
    c_link commands_c --specs=nano.specs "$out/commands_c.o" $wrapped_newlib
    for layout in none MINIMAL TASKS EVERYTHING; do
        case $layout in none) defined= wrap= ;; *) defined=-DLAYOUT=HEAPLEDGER_$layout wrap=$wrapped_two ;; esac
        LD_LIBRARY_PATH= clang --target=thumbv7m-none-eabi -fshort-enums -fno-omit-frame-pointer -isystem "$headers" $c_options \
            $defined -c "$root/e2e/firmware/measure.c" -o "$out/measure_c.o"
        c_link measure_c_$layout --specs=nano.specs "$out/measure_c.o" $wrap
    done
    # Built for one firmware, of which no function that is led to the library calls another one.
    ungrouped=$grouped
    for source in measure commands; do
        fixed=$out/fixed_for_$source
        case $source in
            measure) fixed_library "$fixed" "$fixed_for_measure"; wrap=$wrapped_two ;;
            *) fixed_library "$fixed" "$fixed_for_commands"; wrap=$wrapped ;;
        esac
        grouped="-Wl,--start-group -lc $fixed/libheapledger_firmware.a -Wl,--end-group"
        LD_LIBRARY_PATH= clang --target=thumbv7m-none-eabi -fshort-enums -fno-omit-frame-pointer -isystem "$headers" $c_options \
            -DLAYOUT=HEAPLEDGER_FIXED -c "$root/e2e/firmware/$source.c" -o "$out/fixed_c.o"
        c_link ${source}_c_FIXED --specs=nano.specs "$out/fixed_c.o" $wrap
    done
    hooks_library
    fixed_library "$out/fixed_for_windows" "$fixed_for_windows" --cfg 'feature="hooks"'
    for layout in TASKS FIXED; do
        case $layout in TASKS) of=hooks program=windows_c ;; *) of=fixed_for_windows program=windows_c_FIXED ;; esac
        grouped="-Wl,--start-group -lc $out/$of/libheapledger_firmware.a -Wl,--end-group"
        LD_LIBRARY_PATH= clang --target=thumbv7m-none-eabi -fshort-enums -fno-omit-frame-pointer -isystem "$headers" $c_options \
            -DLAYOUT=HEAPLEDGER_$layout -c "$root/e2e/firmware/windows.c" -o "$out/windows_c.o"
        c_link $program --specs=nano.specs "$out/windows_c.o" $wrapped_two
    done
    grouped=$ungrouped
    LD_LIBRARY_PATH= $arm $c_options -c "$root/e2e/firmware/survivor.c" -o "$out/survivor_c.o"
    c_link survivor_c --specs=nano.specs "$out/survivor_c.o" $wrapped_two,--build-id=sha1
    ungrouped=$grouped grouped="-Wl,--start-group -lc $out/guard/libheapledger_firmware.a -Wl,--end-group"
    for level in LIGHT FULL; do
        for source in commands guard; do
            LD_LIBRARY_PATH= clang --target=thumbv7m-none-eabi -fshort-enums -fno-omit-frame-pointer -isystem "$headers" $c_options \
                -DGUARD=HEAPLEDGER_$level -c "$root/e2e/firmware/$source.c" -o "$out/guarded_c.o"
            c_link ${source}_c_$level --specs=nano.specs "$out/guarded_c.o" $wrapped_newlib
        done
    done
    for ends in "" _ends; do
        LD_LIBRARY_PATH= clang --target=thumbv7m-none-eabi -fshort-enums -fno-omit-frame-pointer -isystem "$headers" $c_options \
            ${ends:+-DENDS} -c "$root/e2e/firmware/faults.c" -o "$out/faults_c.o"
        c_link faults_c$ends --specs=nano.specs "$out/faults_c.o" $wrapped_newlib
    done
    grouped=$ungrouped
    # gcc's cannot.
    LD_LIBRARY_PATH= $arm $c_options -DSCANNED -c "$root/e2e/firmware/commands.c" -o "$out/commands_c_scan.o"
    c_link commands_c_scan "$out/commands_c_scan.o" $wrapped_newlib
    echo "firmware in C is linked for $target"
    with_freertos
    with_zlib "clang --target=thumbv7m-none-eabi -fshort-enums -fno-omit-frame-pointer -isystem $headers $c_options" \
        "$arm -nostartfiles -T $root/e2e/firmware/cortex_m3_c.ld -Wl,--gc-sections -Wl,--no-warn-execstack --specs=nano.specs" \
        "-Wl,--start-group -lc $out/libheapledger_metadata_c.a -Wl,--end-group"
    wrapped_cxx=$wrapped_newlib
    for form in wj wjRKSt9nothrow_t wjSt11align_val_t wjSt11align_val_tRKSt9nothrow_t; do
        wrapped_cxx="$wrapped_cxx,--wrap=_Zn$form,--wrap=_Zna${form#w}"
    done
    for form in Pv PvRKSt9nothrow_t Pvj PvSt11align_val_t PvjSt11align_val_t PvSt11align_val_tRKSt9nothrow_t; do
        wrapped_cxx="$wrapped_cxx,--wrap=_Zdl$form,--wrap=_Zda$form"
    done
    [ "$(LD_LIBRARY_PATH= $arm -print-file-name=libstdc++.a)" != libstdc++.a ] || { without libstdc++; return 0; }
    LD_LIBRARY_PATH= $arm $c_options -x c++ -std=c++17 -c "$root/e2e/firmware/commands.cpp" -o "$out/commands_cpp.o"
    grouped="-Wl,--start-group -lstdc++ -lc $out/libheapledger_firmware.a -Wl,--end-group"
    c_link commands_cpp "$out/commands_cpp.o" \
        $wrapped_cxx,--wrap=memalign,--wrap=_memalign_r,--wrap=aligned_alloc,--wrap=posix_memalign
    grouped="-Wl,--start-group -lstdc++ -lc $out/guard/libheapledger_firmware.a -Wl,--end-group"
    for level in LIGHT FULL; do
        for source in "-x c++ -std=c++17 $root/e2e/firmware/commands.cpp" "$root/e2e/firmware/commands_cpp_guard.c"; do
            LD_LIBRARY_PATH= $arm $c_options -DGUARD=HEAPLEDGER_$level -c $source -o "$out/$(basename "${source##* }").o"
        done
        c_link commands_cpp_$level "$out/commands.cpp.o" "$out/commands_cpp_guard.c.o" \
            $wrapped_cxx,--wrap=memalign,--wrap=_memalign_r,--wrap=aligned_alloc,--wrap=posix_memalign
    done
    echo "firmware in C++ is linked for $target"
}
# The kernel's sources are in a crate, which cargo fetches.
with_freertos() {
    fetched=$keep/freertos
    mkdir -p "$fetched"
    printf '%s\n' '[package]' 'name = "fetched"' 'edition = "2024"' '[lib]' 'path = "/dev/null"' '[workspace]' \
        '[dependencies]' 'freertos-next = "=0.12.0"' > "$fetched/Cargo.toml"
    kernel=$(LD_LIBRARY_PATH= timeout 120 cargo metadata --quiet --format-version 1 --manifest-path "$fetched/Cargo.toml" 2>/dev/null |
        grep -o '"manifest_path":"[^"]*/freertos-next-[^"]*/Cargo.toml"' | head -n 1 | cut -d'"' -f4) || kernel=
    kernel=${kernel%Cargo.toml}FreeRTOS-Kernel
    [ -f "$kernel/tasks.c" ] || { without "crate freertos-next, so FreeRTOS is missing"; return 0; }
    of_kernel="-isystem $kernel/include -isystem $kernel/portable/GCC/ARM_CM3"
    objects=
    for source in tasks queue list portable/GCC/ARM_CM3/port portable/MemMang/heap_4; do
        object=$out/freertos_$(basename "${source##* }").o
        LD_LIBRARY_PATH= $arm $c_options $of_kernel -w -c "$kernel/$source.c" -o "$object"
        objects="$objects $object"
    done
    # $1: the program; then what is defined.
    kernel_link() {
        program=$1
        shift
        LD_LIBRARY_PATH= $arm $c_options $of_kernel "$@" -c "$root/e2e/firmware/freertos.c" -o "$out/freertos.o"
        c_link "$program" --specs=nano.specs "$out/freertos.o" $objects -Wl,--wrap=pvPortMalloc,--wrap=vPortFree,--wrap=pvPortCalloc
    }
    kernel_link freertos
    ungrouped=$grouped grouped="-Wl,--start-group -lc $out/guard/libheapledger_firmware.a -Wl,--end-group"
    for level in LIGHT FULL; do
        kernel_link freertos_$level -DGUARD=HEAPLEDGER_$level
    done
    grouped=$ungrouped
    echo "firmware with FreeRTOS is linked for $target"
}
in_c_for_riscv() {
    command -v riscv64-unknown-elf-gcc >/dev/null || { without riscv64-unknown-elf-gcc; return 0; }
    riscv="riscv64-unknown-elf-gcc -mabi=ilp32 --specs=picolibc.specs"
    # Registers of the machine are an extension by itself, of which there is no library.
    riscv_compile="$riscv -march=rv32imac_zicsr -fno-omit-frame-pointer $c_options"
    echo '#include <stdlib.h>' | LD_LIBRARY_PATH= $riscv_compile -x c -c - -o "$out/probe.o" 2>/dev/null || { without picolibc; return 0; }
    LD_LIBRARY_PATH= $riscv_compile -c "$root/e2e/firmware/start.c" -o "$out/start.o"
    # $1: the source; $2: the program; $3: what the linker leads to the library; then what is defined.
    c_link() {
        source=$1 program=$2 wrap=$3
        shift 3
        LD_LIBRARY_PATH= $riscv_compile "$@" -c "$root/e2e/firmware/$source.c" -o "$out/$program.o"
        LD_LIBRARY_PATH= $riscv -march=rv32imac -nostartfiles -T "$root/e2e/firmware/riscv_virt_c.ld" -Wl,--gc-sections \
            -Wl,--no-warn-rwx-segments "$out/start.o" "$out/$program.o" $wrap -Wl,--start-group -lc "$archive" -Wl,--end-group -o "$out/$program"
    }
    archive=$out/guard/libheapledger_firmware.a
    for level in LIGHT FULL; do
        c_link commands commands_c_$level "$wrapped" -DGUARD=HEAPLEDGER_$level
        c_link guard guard_c_$level "$wrapped" -DGUARD=HEAPLEDGER_$level
    done
    c_link faults faults_c "$wrapped"
    c_link faults faults_c_ends "$wrapped" -DENDS
    hooks_library
    archive=$out/hooks/libheapledger_firmware.a
    c_link windows windows_c "$wrapped_two" -DLAYOUT=HEAPLEDGER_TASKS
    archive=$out/libheapledger_firmware.a
    c_link commands commands_c "$wrapped"
    c_link survivor survivor_c "$wrapped_two,--build-id=sha1"
    c_link measure measure_c_none ""
    for layout in MINIMAL TASKS EVERYTHING; do
        c_link measure measure_c_$layout "$wrapped_two" -DLAYOUT=HEAPLEDGER_$layout
    done
    fixed_library "$out/fixed" "$fixed_for_measure own_stack_end=1"
    archive=$out/fixed/libheapledger_firmware.a
    c_link measure measure_c_FIXED "$wrapped_two" -DLAYOUT=HEAPLEDGER_FIXED
    echo "firmware in C is linked for $target"
    with_zlib "$riscv_compile" \
        "$riscv -march=rv32imac -nostartfiles -T $root/e2e/firmware/riscv_virt_c.ld -Wl,--gc-sections -Wl,--no-warn-rwx-segments" \
        "-Wl,--start-group -lc $out/libheapledger_metadata_c.a -Wl,--end-group"
}
for_target() {
    target=$1
    out=$keep/out/$target
    # What cannot be built any more is not to be found.
    rm -rf "$out"
    mkdir -p "$out"
    compile format heapledger_format
    compile unwind heapledger_unwind
    compile guard heapledger_guard
    compile lws heapledger_lws
    compile metadata heapledger_metadata --extern heapledger_lws
    compile metadata-c heapledger_metadata_c --extern heapledger_metadata --crate-type staticlib
    compile wire heapledger_wire --extern heapledger_lws
    compile recorder heapledger_recorder --extern heapledger_format
    # Without `std` the crate for programs records in a region of memory; what records on Linux is empty.
    compile linux heapledger_linux
    compile process heapledger_process --extern heapledger_format --extern heapledger_lws
    compile watch heapledger_watch --extern heapledger_format
    compile heapledger heapledger --extern heapledger_format --extern heapledger_recorder --extern heapledger_guard \
        --extern heapledger_watch --extern heapledger_lws --extern heapledger_wire
    echo "the crates for firmware compile for $target"

    [ -x "$linker" ] || return 0
    case $target in
        thumb*) script=$root/e2e/firmware/cortex_m3.ld ;;
        *) script=$root/e2e/firmware/riscv_virt.ld ;;
    esac
    case $target in thumb*)
        link firmware firmware -Clink-arg=--build-id=sha1
        # Another one, which sends its events by a serial line.
        link wire wire_firmware --extern heapledger_wire
        # And one whose ledger is sent as it is entered.
        link sends sends --extern heapledger_wire
        ;;
    esac
    link commands commands
    link commands commands_scan --cfg scan
    link survivor survivor
    link windows windows
    link cuts cuts
    # Two cores, under a lock around the allocator, or one for recording alone.
    case $target in riscv*)
        for lock in around apart; do
            link cores cores_$lock --cfg "lock=\"$lock\""
        done
        ;;
    esac
    # With blocks that are guarded.
    for guard in light full; do
        for program in commands reach damages; do
            link $program ${program}_$guard --cfg "guard=\"$guard\""
        done
    done
    # What is measured has room for many blocks.
    sed 's/LENGTH = 64K/LENGTH = 2M/' "$script" > "$out/large.ld"
    script=$out/large.ld
    # The sets of switches that `e2e/tests/firmware_costs.rs` compares.
    for room in 100 1000 10000; do
        for set in none bare minimal crowded history time tasks everything full light filled; do
            case $set$room in crowded1000|crowded10000|full1000|full10000|light1000|light10000|filled1000|filled10000) continue ;; esac
            link measure measure_${set}_$room --cfg "set=\"$set\"" --cfg "room=\"$room\""
        done
    done
    for set in minimal everything full; do
        link pauses pauses_$set --cfg "set=\"$set\"" --cfg 'room="10000"'
    done
    echo "firmware with heapledger is linked for $target"
    library "$out"
    mkdir -p "$out/guard"
    guarded_library
    case $target in thumb*) in_c_for_cortex_m3 ;; *) in_c_for_riscv ;; esac
    # The codec of backtraces by itself: what encoding takes of a chip's flash. Goals are those of the Cortex-M3.
    case $target in thumb*) ;; *) return 0 ;; esac
    "$rustc" --crate-name backtrace --edition 2024 --target $target -Copt-level=s -Cpanic=abort -Dwarnings \
        -Clinker="$linker" -Clink-arg=-eencode_backtrace -Clink-arg=--gc-sections --out-dir "$out" -L "$out" \
        --extern heapledger_lws "$root/e2e/firmware/backtrace.rs"
    flash=$(LD_LIBRARY_PATH= size "$out/backtrace" | awk 'NR == 2 {print $1}')
    echo "encoding a backtrace takes $flash bytes of flash"
    [ "$flash" -le 1536 ] || { echo "that is more than 1536"; exit 1; }
}
# Firmware as users build theirs, with crates that cargo fetches. Debian's compiler has no cargo.
of_users() {
    target=thumbv7m-none-eabi own=$keep/own
    if [ "$rustc" != rustc ]; then
        without "cargo with a library for chips, so firmware with executors is missing"
    elif ! (cd "$root/e2e/own_firmware" && timeout 300 cargo fetch --quiet --locked --target thumbv7m-none-eabi 2> "$keep/out/fetch.txt"); then
        # That is nothing that is missing here: what the crates need has changed.
        if grep -q 'lock file' "$keep/out/fetch.txt"; then
            cat "$keep/out/fetch.txt"
            echo "e2e/own_firmware/Cargo.lock is out of date: \`cargo update --workspace\` there mends it"
            exit 1
        fi
        without "way to fetch embassy-executor and RTIC"
    else
        (cd "$root/e2e/own_firmware" && RUSTFLAGS="-Clink-arg=-Tlink.x -L$root/e2e/own_firmware -Cforce-frame-pointers=yes" \
            cargo build --quiet --locked --offline --release --target thumbv7m-none-eabi --target-dir "$own")
        for program in embassy rtic; do
            cp "$own/thumbv7m-none-eabi/release/$program" "$keep/out/thumbv7m-none-eabi/own_$program"
        done
        echo "firmware with embassy-executor and RTIC is linked"
    fi
}
# With a floating-point unit.
with_floats() {
    target=thumbv7em-none-eabihf out=$keep/out/thumbv7em-none-eabihf
    rm -rf "$out"
    if [ -x "$linker" ] && ls "$("$rustc" --print sysroot)/lib/rustlib/$target/lib/"libcore-*.rlib >/dev/null 2>&1; then
        mkdir -p "$out"
        script=$root/e2e/firmware/cortex_m3.ld
        compile format heapledger_format
        compile guard heapledger_guard
        compile recorder heapledger_recorder --extern heapledger_format
        compile lws heapledger_lws
        compile wire heapledger_wire --extern heapledger_lws
        compile watch heapledger_watch --extern heapledger_format
        compile heapledger heapledger --extern heapledger_format --extern heapledger_recorder --extern heapledger_guard \
            --extern heapledger_watch --extern heapledger_lws --extern heapledger_wire
        link commands commands
        echo "firmware with heapledger is linked for $target"
    fi
}
# A Cortex-M0 cannot compare and swap: it has what is for chips, and nothing else.
for_cortex_m0() {
    target=$smaller out=$keep/out/$smaller
    if ls "$("$rustc" --print sysroot)/lib/rustlib/$target/lib/"libcore-*.rlib >/dev/null 2>&1; then
        mkdir -p "$out"
        compile format heapledger_format
        compile guard heapledger_guard
        compile recorder heapledger_recorder --extern heapledger_format
        compile lws heapledger_lws
        compile wire heapledger_wire --extern heapledger_lws
        compile heapledger heapledger --extern heapledger_format --extern heapledger_recorder --extern heapledger_guard \
            --extern heapledger_lws --extern heapledger_wire
        library "$out"
        mkdir -p "$out/guard"
        guarded_library
        echo "what is for chips compiles for $target"
        if [ -x "$linker" ]; then
            script=$root/e2e/firmware/cortex_m3.ld
            link commands commands
            for guard in light full; do
                link reach reach_$guard --cfg "guard=\"$guard\""
            done
            echo "firmware with heapledger is linked for $target"
        fi
        # A Cortex-M3 runs what is made for it.
        headers=$(arm-none-eabi-gcc -print-sysroot 2>/dev/null || true)/include/newlib
        [ -f "$headers/stdlib.h" ] || headers=/usr/include/newlib
        if command -v arm-none-eabi-gcc >/dev/null && command -v clang >/dev/null && [ -f "$headers/stdlib.h" ]; then
            m0="arm-none-eabi-gcc -mcpu=cortex-m0 -mthumb"
            LD_LIBRARY_PATH= $m0 $c_options -c "$root/e2e/firmware/start.c" -o "$out/start.o"
            # $1: the source; $2: the program; $3: the library; then what is defined.
            m0_link() {
                source=$1 program=$2 archive=$3
                shift 3
                LD_LIBRARY_PATH= clang --target=thumbv6m-none-eabi -fshort-enums -fno-omit-frame-pointer -isystem "$headers" $c_options \
                    "$@" -c "$root/e2e/firmware/$source.c" -o "$out/$source.o"
                LD_LIBRARY_PATH= $m0 -nostartfiles --specs=nano.specs -T "$root/e2e/firmware/cortex_m3_c.ld" -Wl,--gc-sections \
                    -Wl,--no-warn-execstack "$out/start.o" "$out/$source.o" $wrapped_newlib -Wl,--start-group -lc \
                    "$archive" -Wl,--end-group -o "$keep/out/thumbv7m-none-eabi/$program"
            }
            m0_link commands commands_c_m0 "$out/libheapledger_firmware.a"
            for level in LIGHT FULL; do
                m0_link commands commands_c_m0_$level "$out/guard/libheapledger_firmware.a" -DGUARD=HEAPLEDGER_$level
                m0_link guard guard_c_m0_$level "$out/guard/libheapledger_firmware.a" -DGUARD=HEAPLEDGER_$level
            done
            echo "firmware in C is linked for $target"
        fi
    fi
}

# What is at once touches nothing of each other. Each is one program after the other.
at_once() {
    jobs= failed=0
    for job in "$@"; do
        ($job) &
        jobs="$jobs $!"
    done
    for job in $jobs; do wait "$job" || failed=$?; done
    [ $failed = 0 ] || exit $failed
}
set --
for target in $targets; do set -- "$@" "for_target $target"; done
at_once "$@"
# What these make lies beside what the first of those has made.
at_once of_users with_floats for_cortex_m0
