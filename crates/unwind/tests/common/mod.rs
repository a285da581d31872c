//! This process as an [`Environment`], and libgcc's unwinder as the judge.
//!
//! # Safety
//!
//! Words are read only inside the mappings listed in `/proc/self/maps` when [`Process::new`] ran.
//! Tests keep those alive: stacks and libraries are made before and kept until after.

#![allow(dead_code, reason = "each test uses its part")]

use std::arch::naked_asm;
use std::ffi::c_void;
use std::ops::Range;

use heapledger_unwind::{Environment, Lookup, Registers, RuleCache, Strategy, Table, Walk, walk};

struct Module {
    addresses: Vec<Range<u64>>,
    table: Option<Table<'static>>,
}

/// A snapshot of this process's mappings and modules.
pub(crate) struct Process {
    readable: Vec<Range<u64>>,
    modules: Vec<Module>,
}

impl Process {
    pub(crate) fn new() -> Self {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("a mounted /proc");
        let readable = maps.lines().filter_map(readable_range).collect();
        let mut modules = Vec::new();
        let data = (&raw mut modules).cast();
        // SAFETY: the callback gets the pointer to `modules`, which lives longer than the call.
        unsafe { libc::dl_iterate_phdr(Some(add_module), data) };
        Self { readable, modules }
    }

    /// Makes the module that holds `pc` one without a table.
    pub(crate) fn hide_table(&mut self, pc: u64) {
        for module in &mut self.modules {
            if module.addresses.iter().any(|range| range.contains(&pc)) {
                module.table = None;
            }
        }
    }
}

fn readable_range(line: &str) -> Option<Range<u64>> {
    let mut fields = line.split(' ');
    let (start, end) = fields.next()?.split_once('-')?;
    fields.next()?.starts_with('r').then_some(())?;
    if line.contains("[vvar") {
        return None;
    }
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

unsafe extern "C" fn add_module(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> libc::c_int {
    // SAFETY: glibc passes a valid description, and its table of headers is mapped.
    let (info, headers) = unsafe {
        let info = &*info;
        (info, std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()))
    };
    // SAFETY: `Process::new` passes its vector.
    let modules = unsafe { &mut *data.cast::<Vec<Module>>() };
    let range = |header: &libc::Elf64_Phdr| {
        let start = info.dlpi_addr + header.p_vaddr;
        start..start + header.p_memsz
    };
    let loads: Vec<_> = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(range).collect();
    let header = headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME).map(range);
    let table = header.and_then(|header| {
        let holder = loads.iter().find(|load| load.contains(&header.start))?;
        let length = (holder.end - holder.start) as usize;
        // SAFETY: a loaded segment without writable parts; tests unload nothing.
        let segment = unsafe { std::slice::from_raw_parts(holder.start as *const u8, length) };
        Some(Table { segment, segment_address: holder.start, header_address: header.start })
    });
    modules.push(Module { addresses: loads, table });
    0
}

impl Environment for Process {
    fn read_word(&self, address: u64) -> Option<u64> {
        let end = address.checked_add(8)?;
        let known = self.readable.iter().any(|range| range.start <= address && end <= range.end);
        // SAFETY: inside a readable mapping.
        known.then(|| unsafe { (address as *const u64).read_unaligned() })
    }

    fn find_table(&self, pc: u64) -> Lookup<'_> {
        let holds = |module: &&Module| module.addresses.iter().any(|range| range.contains(&pc));
        match self.modules.iter().find(holds) {
            None => Lookup::NoTable,
            Some(Module { table: None, .. }) => Lookup::NoTable,
            Some(Module { table: Some(table), .. }) => Lookup::Found(*table),
        }
    }
}

/// The registers as they are after the call of this function.
#[unsafe(naked)]
pub(crate) extern "C" fn capture(registers: *mut Registers) {
    naked_asm!(
        "mov rax, [rsp]",
        "mov [rdi], rax",
        "lea rax, [rsp + 8]",
        "mov [rdi + 8], rax",
        "mov [rdi + 16], rbp",
        "mov [rdi + 24], rbx",
        "mov [rdi + 32], r12",
        "mov [rdi + 40], r13",
        "mov [rdi + 48], r14",
        "mov [rdi + 56], r15",
        "ret",
    )
}

unsafe extern "C" {
    fn _Unwind_Backtrace(
        callback: unsafe extern "C" fn(*mut c_void, *mut c_void) -> libc::c_int,
        data: *mut c_void,
    ) -> libc::c_int;
    fn _Unwind_GetIPInfo(context: *mut c_void, is_exact: *mut libc::c_int) -> usize;
}

pub(crate) const FRAMES_MAX: usize = 256;

/// Frames of one stack. Fixed, so that signal handlers can fill it.
#[derive(Clone, Copy)]
pub(crate) struct Frames {
    pub(crate) pcs: [u64; FRAMES_MAX],
    pub(crate) count: usize,
}

impl Frames {
    pub(crate) const fn new() -> Self {
        Self { pcs: [0; FRAMES_MAX], count: 0 }
    }

    pub(crate) fn as_slice(&self) -> &[u64] {
        &self.pcs[..self.count]
    }
}

unsafe extern "C" fn add_frame(context: *mut c_void, data: *mut c_void) -> libc::c_int {
    // SAFETY: `libgcc_walk` passes its frames.
    let frames = unsafe { &mut *data.cast::<Frames>() };
    let mut is_exact = 0;
    // SAFETY: the context is the unwinder's own.
    let pc = unsafe { _Unwind_GetIPInfo(context, &raw mut is_exact) } as u64;
    if frames.count == FRAMES_MAX || pc == 0 {
        return 5;
    }
    frames.pcs[frames.count] = pc + u64::from(is_exact != 0);
    frames.count += 1;
    0
}

#[inline(always)]
pub(crate) fn libgcc_walk(frames: &mut Frames) {
    frames.count = 0;
    // SAFETY: the callback gets the pointer to `frames`.
    unsafe { _Unwind_Backtrace(add_frame, (&raw mut *frames).cast()) };
}

pub(crate) type Cache = RuleCache<1024>;

/// Walks from here with both. The first frame is this function, at two different calls.
#[inline(never)]
pub(crate) fn walk_both(
    process: &Process,
    cache: &mut Cache,
    strategy: Strategy,
    ours: &mut Frames,
    theirs: &mut Frames,
) -> Walk {
    let mut registers = Registers::default();
    capture(&raw mut registers);
    let result = walk(process, cache, &registers, FRAMES_MAX, strategy, &mut ours.pcs);
    ours.count = result.depth;
    libgcc_walk(theirs);
    result
}
