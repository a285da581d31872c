//! The one list of functions that the linker's `--wrap` leads here, each with its kind, and what becomes of a call.
//!
//! Only those that the firmware names are linked: of each nothing but its own few instructions and its row of the list.
//!
//! # Safety
//! A room with `unsafe`: it declares the real functions, which the linker has under another name, stands before them in assembly, and reads
//! where one of them has stored its block.

use heapledger::chip::{Address, Kind};

#[cfg(feature = "fixed")]
use crate::direct::{gives, takes};
use crate::entering::begin;
#[cfg(not(any(feature = "guard", feature = "fixed")))]
use crate::entering::end;
#[cfg(not(feature = "guard"))]
use crate::entering::{resized, resizing};
#[cfg(feature = "guard")]
use crate::guarding::{give, resize, store, take};
use crate::layouts::Given;
#[cfg(not(feature = "guard"))]
use crate::layouts::Resized;
#[cfg(not(feature = "fixed"))]
use crate::marks::Entered;
use crate::marks::{self, Within};
#[cfg(not(feature = "guard"))]
use crate::stub::Pushed;
use crate::stub::stub;

/// A function of the firmware's, with up to four arguments, of which each fits into a register.
type Real = unsafe extern "C" fn(usize, usize, usize, usize) -> usize;

/// What is known of a function.
pub(crate) struct Hook {
    real: Real,
    pub(crate) kind: Kind,
    /// Which argument says how many bytes.
    pub(crate) size: u8,
    /// Which one says how often; [`ONCE`]: none.
    pub(crate) times: u8,
    /// Which one is the block.
    pub(crate) block: u8,
    /// What it may call of the list.
    pub(crate) within: Within,
}

pub(crate) const ONCE: u8 = 0xFF;

impl Hook {
    /// An argument; which one there is, is certain.
    #[inline(always)]
    pub(crate) fn argument(arguments: &[usize; 4], nth: u8) -> usize {
        let [first, ..] = *arguments;
        arguments.get(usize::from(nth & 3)).copied().unwrap_or(first)
    }

    /// The same; `None`: more than there can be.
    #[cfg(feature = "guard")]
    pub(crate) fn bytes_checked(&self, arguments: &[usize; 4]) -> Option<usize> {
        let bytes = Self::argument(arguments, self.size);
        if self.times == ONCE { Some(bytes) } else { bytes.checked_mul(Self::argument(arguments, self.times)) }
    }

    /// Bytes that are asked for. (Of more than there can be, the real function gives none.)
    #[inline(always)]
    pub(crate) fn bytes(&self, arguments: &[usize; 4]) -> usize {
        let bytes = Self::argument(arguments, self.size);
        if self.times == ONCE { bytes } else { bytes.wrapping_mul(Self::argument(arguments, self.times)) }
    }

    #[inline(always)]
    pub(crate) fn call(&self, [first, second, third, fourth]: [usize; 4]) -> usize {
        // SAFETY: the firmware's own call, with what it has passed.
        unsafe { (self.real)(first, second, third, fourth) }
    }

    pub(crate) fn given(&self) -> Given {
        Given::of(self.kind, None)
    }

    /// Makes a call of it, and enters what came of that, as `block` finds it. What is answered, `told` knows by what the call has answered and by the block.
    #[cfg(not(feature = "guard"))]
    #[inline(always)]
    fn make(
        &self,
        pushed: &mut Pushed,
        block: impl FnOnce(&Pushed, usize) -> usize,
        told: impl FnOnce(usize, usize) -> usize,
    ) -> usize {
        let fourth = pushed.fourth();
        let cookie = pushed.cookie();
        let entered = marks::enter(cookie, self.within);
        let [first, second, third, _] = pushed.arguments;
        let answer = self.call([first, second, third, fourth]);
        let (block, bytes) = (block(pushed, answer), self.bytes(&pushed.arguments));
        if entered.is_nested() {
            if block == 0 && bytes != 0 {
                marks::had_none(entered, cookie);
            }
            return answer;
        }
        marks::leave(entered, cookie);
        told(answer, self.gave(block, bytes, pushed.frame()))
    }

    /// A call of it has returned. That block: with it whoever enters it returns at once to who has called, and takes the room of this on the stack.
    #[inline(always)]
    fn gave(&self, block: usize, bytes: usize, frame: *const usize) -> usize {
        // (Of no bytes, none is what there may be.)
        if block == 0 && bytes == 0 {
            return 0;
        }
        begin(self.given(), block as Address, bytes as Address, frame) as usize
    }
}

/// A function that gives blocks.
#[cfg(not(any(feature = "guard", feature = "fixed")))]
#[inline(never)]
extern "C" fn give(pushed: &mut Pushed, hook: &Hook) -> usize {
    hook.make(pushed, |_, block| block, |_, block| block)
}

/// One that stores its block, and answers 0.
#[cfg(not(feature = "guard"))]
#[inline(never)]
extern "C" fn store(pushed: &mut Pushed, hook: &Hook) -> usize {
    let stored = |pushed: &Pushed, answer| {
        let place = core::ptr::with_exposed_provenance::<usize>(Hook::argument(&pushed.arguments, hook.block));
        // SAFETY: the real function has just stored it there.
        if answer == 0 { unsafe { place.read() } } else { 0 }
    };
    hook.make(pushed, stored, |answer, _| answer)
}

/// A function that takes them back.
#[cfg(not(any(feature = "guard", feature = "fixed")))]
#[inline(never)]
extern "C" fn take(pushed: &mut Pushed, hook: &Hook) {
    let fourth = pushed.fourth();
    let cookie = pushed.cookie();
    let entered = marks::enter(cookie, hook.within);
    // (None is taken by its fourth argument, where the mark is.)
    let block = Hook::argument(&pushed.arguments, hook.block);
    if block != 0 && !entered.is_nested() {
        // Before: then nobody can have been given the address again.
        end(hook.kind, block as Address, pushed.frame());
    }
    let [first, second, third, _] = pushed.arguments;
    hook.call([first, second, third, fourth]);
    marks::leave(entered, cookie);
}

/// A function that resizes them.
#[cfg(not(feature = "guard"))]
#[inline(never)]
extern "C" fn resize(pushed: &mut Pushed, hook: &Hook) -> usize {
    let arguments = pushed.arguments;
    let (old, bytes) = (Hook::argument(&arguments, hook.block), hook.bytes(&arguments));
    let cookie = pushed.cookie();
    let entered = marks::enter(cookie, hook.within);
    if entered.is_nested() {
        return hook.call(arguments);
    }
    let kept = if old == 0 { None } else { resizing(old as Address) };
    let block = hook.call(arguments);
    marks::leave(entered, cookie);
    if old == 0 {
        hook.gave(block, bytes, pushed.frame());
    } else {
        // (No block of no bytes: it was given back.)
        let how = Resized { kept, given: hook.given(), block: block as Address, bytes: bytes as Address };
        resized(&how, pushed.frame());
    }
    block
}

/// What stands before `new`, which may throw: beside registers nothing of a call lies in it while the real function runs, and unwinding
/// passes it.
#[cfg(not(feature = "fixed"))]
#[repr(C)]
pub(crate) struct PushedNew {
    /// What `enter_new` has found, as a number, while the real function runs.
    entered: usize,
    second: usize,
    cookie: usize,
    kept: usize,
    #[cfg(target_arch = "riscv32")]
    kept_too: [usize; 2],
    frame: [usize; 2],
}

#[cfg(not(feature = "fixed"))]
impl PushedNew {
    fn frame(&self) -> *const usize {
        let frame = (&raw const self.frame).cast::<usize>();
        if cfg!(target_arch = "riscv32") { frame.wrapping_add(2) } else { frame }
    }
}

/// 0: a part of another call; 1: one without a mark; else the address of its mark.
#[cfg(not(feature = "fixed"))]
#[inline(never)]
extern "C" fn enter_new(pushed: &mut PushedNew) -> usize {
    let entered = marks::enter(&raw mut pushed.cookie, Within::New);
    if entered.is_nested() { Entered::NESTED } else { entered }.number()
}

#[cfg(not(feature = "fixed"))]
#[inline(never)]
extern "C" fn gave_new(block: usize, bytes: usize, pushed: &mut PushedNew, hook: &Hook) -> usize {
    let entered = Entered::of_number(pushed.entered);
    // Or what it called had no block, and was entered since.
    if entered == Entered::NESTED || !marks::leave(entered, &raw mut pushed.cookie) {
        return block;
    }
    hook.gave(block, bytes, pushed.frame());
    block
}

/// Functions of the list: what the linker calls ours and the real one, how they are called, and what is known of them.
macro_rules! hooks {
    ($($work:ident $wrap:ident $real:ident $hook:ident $kind:ident ($size:expr, $times:expr, $block:expr, $within:ident);)*) => {
        unsafe extern "C" {
            $(fn $real(_: usize, _: usize, _: usize, _: usize) -> usize;)*
        }
        $(hook!($work $wrap $real $hook $kind ($size, $times, $block, $within));)*
    };
}

/// One of them.
macro_rules! hook {
    // In a library that is built for one firmware what is called most often hands itself on.
    (@fixed give $wrap:ident $real:ident $hook:ident $kind:ident ($size:expr, $times:expr, $block:expr, $within:ident)) => {
        gives!($wrap $real $kind ($size, $times) [] []);
    };
    (@fixed take $wrap:ident $real:ident $hook:ident $kind:ident ($size:expr, $times:expr, $block:expr, $within:ident)) => {
        takes!($wrap $real $kind ($block));
    };
    (@fixed $work:ident $($others:tt)*) => {
        hook!(@pushed $work $($others)*);
    };
    (@pushed $work:ident $wrap:ident $real:ident $hook:ident $kind:ident ($size:expr, $times:expr, $block:expr, $within:ident)) => {
        static $hook: Hook = Hook {
            real: $real,
            kind: Kind::$kind,
            size: $size,
            times: $times,
            block: $block,
            within: Within::$within,
        };
        stub!($wrap, $work, $hook);
    };
    ($work:ident $($others:tt)*) => {
        #[cfg(feature = "fixed")]
        hook!(@fixed $work $($others)*);
        #[cfg(not(feature = "fixed"))]
        hook!(@pushed $work $($others)*);
    };
}

hooks! {
    // C, as newlib and picolibc have it. (`free` and `malloc` of picolibc call nobody.)
    give __wrap_malloc __real_malloc MALLOC MALLOC (0, ONCE, ONCE, Others);
    give __wrap_calloc __real_calloc CALLOC CALLOC (1, 0, ONCE, Others);
    resize __wrap_realloc __real_realloc REALLOC REALLOC (1, ONCE, 0, Others);
    resize __wrap_reallocarray __real_reallocarray REALLOCARRAY REALLOCARRAY (2, 1, 0, Others);
    give __wrap_memalign __real_memalign MEMALIGN MEMALIGN (1, ONCE, ONCE, Others);
    give __wrap_aligned_alloc __real_aligned_alloc ALIGNED_ALLOC ALIGNED_ALLOC (1, ONCE, ONCE, Others);
    store __wrap_posix_memalign __real_posix_memalign POSIX_MEMALIGN POSIX_MEMALIGN (2, ONCE, 0, Others);
    give __wrap_valloc __real_valloc VALLOC VALLOC (0, ONCE, ONCE, Others);
    give __wrap_pvalloc __real_pvalloc PVALLOC PVALLOC (0, ONCE, ONCE, Others);
    take __wrap_free __real_free FREE FREE (ONCE, ONCE, 0, Others);
    take __wrap_cfree __real_cfree CFREE CFREE (ONCE, ONCE, 0, Others);
    take __wrap_free_sized __real_free_sized FREE_SIZED FREE_SIZED (ONCE, ONCE, 0, Others);
    take __wrap_free_aligned_sized __real_free_aligned_sized FREE_ALIGNED_SIZED FREE_ALIGNED_SIZED (ONCE, ONCE, 0, Others);
    // newlib's own.
    give __wrap__malloc_r __real__malloc_r MALLOC_R MALLOC_R (1, ONCE, ONCE, Nobody);
    give __wrap__calloc_r __real__calloc_r CALLOC_R CALLOC_R (2, 1, ONCE, Others);
    resize __wrap__realloc_r __real__realloc_r REALLOC_R REALLOC_R (2, ONCE, 1, Others);
    give __wrap__memalign_r __real__memalign_r MEMALIGN_R MEMALIGN_R (2, ONCE, ONCE, Others);
    take __wrap__free_r __real__free_r FREE_R FREE_R (ONCE, ONCE, 1, Nobody);
    // FreeRTOS. (Those of its `heap_3` call `malloc` and `free`.)
    give __wrap_pvPortMalloc __real_pvPortMalloc PV_PORT_MALLOC PV_PORT_MALLOC (0, ONCE, ONCE, Others);
    give __wrap_pvPortCalloc __real_pvPortCalloc PV_PORT_CALLOC PV_PORT_CALLOC (1, 0, ONCE, Others);
    take __wrap_vPortFree __real_vPortFree V_PORT_FREE V_PORT_FREE (ONCE, ONCE, 0, Others);
    // ESP-IDF.
    give __wrap_heap_caps_malloc __real_heap_caps_malloc HEAP_CAPS_MALLOC HEAP_CAPS_MALLOC (0, ONCE, ONCE, Others);
    give __wrap_heap_caps_malloc_default __real_heap_caps_malloc_default HEAP_CAPS_MALLOC_DEFAULT HEAP_CAPS_MALLOC (0, ONCE, ONCE, Others);
    give __wrap_heap_caps_calloc __real_heap_caps_calloc HEAP_CAPS_CALLOC HEAP_CAPS_CALLOC (1, 0, ONCE, Others);
    resize __wrap_heap_caps_realloc __real_heap_caps_realloc HEAP_CAPS_REALLOC HEAP_CAPS_REALLOC (1, ONCE, 0, Others);
    resize __wrap_heap_caps_realloc_default __real_heap_caps_realloc_default HEAP_CAPS_REALLOC_DEFAULT HEAP_CAPS_REALLOC (1, ONCE, 0, Others);
    give __wrap_heap_caps_aligned_alloc __real_heap_caps_aligned_alloc HEAP_CAPS_ALIGNED_ALLOC HEAP_CAPS_ALIGNED_ALLOC (1, ONCE, ONCE, Others);
    give __wrap_heap_caps_aligned_calloc __real_heap_caps_aligned_calloc HEAP_CAPS_ALIGNED_CALLOC HEAP_CAPS_ALIGNED_CALLOC (2, 1, ONCE, Others);
    take __wrap_heap_caps_free __real_heap_caps_free HEAP_CAPS_FREE HEAP_CAPS_FREE (ONCE, ONCE, 0, Others);
    take __wrap_heap_caps_aligned_free __real_heap_caps_aligned_free HEAP_CAPS_ALIGNED_FREE HEAP_CAPS_ALIGNED_FREE (ONCE, ONCE, 0, Others);
    // Zephyr.
    give __wrap_k_malloc __real_k_malloc K_MALLOC K_MALLOC (0, ONCE, ONCE, Others);
    give __wrap_k_calloc __real_k_calloc K_CALLOC K_CALLOC (1, 0, ONCE, Others);
    resize __wrap_k_realloc __real_k_realloc K_REALLOC K_REALLOC (1, ONCE, 0, Others);
    give __wrap_k_aligned_alloc __real_k_aligned_alloc K_ALIGNED_ALLOC K_ALIGNED_ALLOC (1, ONCE, ONCE, Others);
    take __wrap_k_free __real_k_free K_FREE K_FREE (ONCE, ONCE, 0, Others);
    // C++: `operator delete`.
    take __wrap__ZdlPv __real__ZdlPv DELETE DELETE (ONCE, ONCE, 0, Others);
    take __wrap__ZdaPv __real__ZdaPv DELETE_ARRAY DELETE_ARRAY (ONCE, ONCE, 0, Others);
    take __wrap__ZdlPvRKSt9nothrow_t __real__ZdlPvRKSt9nothrow_t DELETE_NOTHROW DELETE_NOTHROW (ONCE, ONCE, 0, Others);
    take __wrap__ZdaPvRKSt9nothrow_t __real__ZdaPvRKSt9nothrow_t DELETE_ARRAY_NOTHROW DELETE_ARRAY_NOTHROW (ONCE, ONCE, 0, Others);
    take __wrap__ZdlPvj __real__ZdlPvj DELETE_SIZED DELETE_SIZED (ONCE, ONCE, 0, Others);
    take __wrap__ZdaPvj __real__ZdaPvj DELETE_ARRAY_SIZED DELETE_ARRAY_SIZED (ONCE, ONCE, 0, Others);
    take __wrap__ZdlPvSt11align_val_t __real__ZdlPvSt11align_val_t DELETE_ALIGN DELETE_ALIGN (ONCE, ONCE, 0, Others);
    take __wrap__ZdaPvSt11align_val_t __real__ZdaPvSt11align_val_t DELETE_ARRAY_ALIGN DELETE_ARRAY_ALIGN (ONCE, ONCE, 0, Others);
    take __wrap__ZdlPvjSt11align_val_t __real__ZdlPvjSt11align_val_t DELETE_SIZED_ALIGN DELETE_SIZED_ALIGN (ONCE, ONCE, 0, Others);
    take __wrap__ZdaPvjSt11align_val_t __real__ZdaPvjSt11align_val_t DELETE_ARRAY_SIZED_ALIGN DELETE_ARRAY_SIZED_ALIGN (ONCE, ONCE, 0, Others);
    take __wrap__ZdlPvSt11align_val_tRKSt9nothrow_t __real__ZdlPvSt11align_val_tRKSt9nothrow_t DELETE_ALIGN_NOTHROW DELETE_ALIGN_NOTHROW (ONCE, ONCE, 0, Others);
    take __wrap__ZdaPvSt11align_val_tRKSt9nothrow_t __real__ZdaPvSt11align_val_tRKSt9nothrow_t DELETE_ARRAY_ALIGN_NOTHROW DELETE_ARRAY_ALIGN_NOTHROW (ONCE, ONCE, 0, Others);
}

/// `operator new` in its forms.
macro_rules! news {
    ($($wrap:ident $real:ident $hook:ident $kind:ident;)*) => {
        unsafe extern "C" {
            $(fn $real(_: usize, _: usize, _: usize, _: usize) -> usize;)*
        }
        $(news_one!($wrap $real $hook $kind);)*
    };
}

#[cfg(feature = "fixed")]
macro_rules! news_one {
    ($wrap:ident $real:ident $hook:ident $kind:ident) => {
        // It may throw, and unwinding passes this.
        gives!($wrap $real $kind (0, ONCE) [".fnstart" ".save {{r4, r5, r7, lr}}"] [".fnend"]);
    };
}

#[cfg(not(feature = "fixed"))]
macro_rules! news_one {
    ($wrap:ident $real:ident $hook:ident $kind:ident) => {
            static $hook: Hook =
                Hook { real: $real, kind: Kind::$kind, size: 0, times: ONCE, block: ONCE, within: Within::New };

            #[cfg(target_arch = "arm")]
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            extern "C" fn $wrap() {
                core::arch::naked_asm!(
                    ".fnstart",
                    ".save {{r4, r7, lr}}",
                    ".pad #12",
                    "push {{r1, r2, r3, r4, r7, lr}}",
                    "mov r4, r0",
                    "mov r0, sp",
                    "bl {enter}",
                    "mov r7, r0",
                    "mov r0, r4",
                    "ldr r1, [sp]",
                    "ldr r2, [sp, #4]",
                    "bl {real}",
                    "str r7, [sp]",
                    "mov r1, r4",
                    "mov r2, sp",
                    "ldr r3, ={hook}",
                    "bl {gave}",
                    "add sp, #12",
                    "pop {{r4, r7, pc}}",
                    ".fnend",
                    enter = sym enter_new,
                    real = sym $real,
                    hook = sym $hook,
                    gave = sym gave_new,
                )
            }

            #[cfg(target_arch = "riscv32")]
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            extern "C" fn $wrap() {
                core::arch::naked_asm!(
                    ".cfi_startproc",
                    "addi sp, sp, -32",
                    ".cfi_def_cfa_offset 32",
                    "sw ra, 28(sp)",
                    "sw s0, 24(sp)",
                    "sw s1, 12(sp)",
                    "sw s2, 16(sp)",
                    ".cfi_offset ra, -4",
                    ".cfi_offset s0, -8",
                    ".cfi_offset s1, -20",
                    ".cfi_offset s2, -16",
                    "sw a1, 0(sp)",
                    "sw a2, 4(sp)",
                    "mv s1, a0",
                    "mv a0, sp",
                    "call {enter}",
                    "mv s2, a0",
                    "mv a0, s1",
                    "lw a1, 0(sp)",
                    "lw a2, 4(sp)",
                    "call {real}",
                    "sw s2, 0(sp)",
                    "mv a1, s1",
                    "mv a2, sp",
                    "la a3, {hook}",
                    "call {gave}",
                    "lw ra, 28(sp)",
                    "lw s1, 12(sp)",
                    "lw s2, 16(sp)",
                    "addi sp, sp, 32",
                    "ret",
                    ".cfi_endproc",
                    enter = sym enter_new,
                    real = sym $real,
                    hook = sym $hook,
                    gave = sym gave_new,
                )
            }
    };
}

news! {
    __wrap__Znwj __real__Znwj NEW NEW;
    __wrap__Znaj __real__Znaj NEW_ARRAY NEW_ARRAY;
    __wrap__ZnwjRKSt9nothrow_t __real__ZnwjRKSt9nothrow_t NEW_NOTHROW NEW_NOTHROW;
    __wrap__ZnajRKSt9nothrow_t __real__ZnajRKSt9nothrow_t NEW_ARRAY_NOTHROW NEW_ARRAY_NOTHROW;
    __wrap__ZnwjSt11align_val_t __real__ZnwjSt11align_val_t NEW_ALIGN NEW_ALIGN;
    __wrap__ZnajSt11align_val_t __real__ZnajSt11align_val_t NEW_ARRAY_ALIGN NEW_ARRAY_ALIGN;
    __wrap__ZnwjSt11align_val_tRKSt9nothrow_t __real__ZnwjSt11align_val_tRKSt9nothrow_t NEW_ALIGN_NOTHROW NEW_ALIGN_NOTHROW;
    __wrap__ZnajSt11align_val_tRKSt9nothrow_t __real__ZnajSt11align_val_tRKSt9nothrow_t NEW_ARRAY_ALIGN_NOTHROW NEW_ARRAY_ALIGN_NOTHROW;
}
