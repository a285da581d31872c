//! An allocator that is instrumented: blocks come and go, in one list and in several, and the lists tell of all that live.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use heapledger_lws::{Dialect, Width, decode};
use heapledger_metadata::{Came, Owner, POST, PRE, Prepared, snip};

/// A block of the instrumented allocator, as its user knows it.
struct Block {
    user: NonNull<u8>,
    size: usize,
    layout: Layout,
}

fn allocate(owner: &Owner, frames: &[u64], size: usize) -> Block {
    let prepared = Prepared::new(frames, size);
    let layout = Layout::from_size_align(size + prepared.extra(), 16).expect("a layout");
    // SAFETY: the layout has a size.
    let start = NonNull::new(unsafe { alloc(layout) }).expect("there is memory");
    // SAFETY: so many bytes more were asked for, and the list outlives the block.
    let user = unsafe { owner.adjust(start, &prepared) };
    // SAFETY: the user's part.
    unsafe { user.write_bytes(0xaa, size) };
    Block { user, size, layout }
}

fn free(block: Block) {
    // SAFETY: the user's part was filled, and each block is freed once.
    unsafe {
        let whole = std::slice::from_raw_parts(block.user.as_ptr(), block.size);
        assert!(whole.iter().all(|byte| *byte == 0xaa), "nobody has written into the user's part");
        dealloc(Owner::trim(block.user).as_ptr(), block.layout);
    }
}

fn sizes(owner: &Owner) -> Vec<u64> {
    let mut sizes = Vec::new();
    owner.walk(&mut |_, blob| {
        let mut frames = [0; 255];
        sizes.push(decode(blob, Width::W64, &mut frames).expect("a backtrace").size);
        true
    });
    sizes
}

#[test]
fn lists_tell_of_all_that_live_oldest_first_whatever_order_blocks_go_in() {
    let owners = [Owner::new(None), Owner::new(None)];
    let mut live: [Vec<Block>; 2] = [Vec::new(), Vec::new()];
    let mut state = 1u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    for _ in 0..3000 {
        let which = random(2) as usize;
        if live[which].len() > 30 || !live[which].is_empty() && random(2) == 0 {
            let index = random(live[which].len() as u64) as usize;
            free(live[which].remove(index));
        } else {
            // Of programs at fixed addresses, of others, and none.
            let base = [0x40_0000, 0x55d0_c3a8_0000][random(2) as usize];
            let frames: Vec<u64> = (0..random(40)).map(|_| base + random(1 << 20)).collect();
            let block = allocate(&owners[which], &frames, 1 + random(500) as usize);
            assert_eq!(block.user.as_ptr() as usize % 16, 0, "blocks are where the allocator's would be");
            live[which].push(block);
        }
        let expected: Vec<u64> = live[which].iter().map(|block| block.size as u64).collect();
        assert_eq!(sizes(&owners[which]), expected);
        assert_eq!(owners[which].count(), expected.len());
    }
    live.into_iter().flatten().for_each(free);
    assert_eq!(owners.each_ref().map(Owner::count), [0, 0]);
}

#[test]
fn lines_are_written_oldest_first_and_a_walk_can_end() {
    let owner = Owner::new(None);
    let frames = [0x406651, 0x406852, 0x406c1b, 0x406294];
    let blocks = [allocate(&owner, &frames, 7520), allocate(&owner, &[], 100)];
    let (mut compressed, mut plain) = (String::new(), String::new());
    owner.write_compressed(&mut compressed).expect("a String has room");
    owner.write_plain(&mut plain).expect("a String has room");
    assert_eq!(compressed, "~m#IF0BmUQugNCkgCnkhdAYpQa6wAAV\n~m#AHZAAAU=\n");
    assert_eq!(plain, "~b#size: 7520, 0x406651 0x406852 0x406c1b 0x406294 \n~b#size: 100, \n");
    let mut seen = 0;
    owner.walk(&mut |_, _| {
        seen += 1;
        false
    });
    assert_eq!(seen, 1);
    // As the original has it: 21 bytes of backtrace and three words are rounded up, here to sixteen.
    assert_eq!(Prepared::new(&frames, 7520).extra(), 48);
    blocks.into_iter().for_each(free);
}

#[test]
fn whoever_wants_is_told_of_blocks_that_come_and_go() {
    static CAME: AtomicUsize = AtomicUsize::new(0);
    fn told(came: Came, user: *const u8, blob: &[u8]) {
        assert!(!user.is_null() && !blob.is_empty());
        CAME.fetch_add(if came == Came::Allocated { 1 } else { 100 }, Ordering::Relaxed);
    }
    let owner = Owner::new(Some(told));
    let blocks: Vec<Block> = (1..=5).map(|size| allocate(&owner, &[1, 2, 3], size)).collect();
    assert_eq!(CAME.load(Ordering::Relaxed), 5);
    blocks.into_iter().take(2).for_each(free);
    assert_eq!(CAME.load(Ordering::Relaxed), 205);
}

#[test]
fn frames_of_the_instrumentation_and_of_the_start_are_left_out() {
    let frames: Vec<u64> = (0..50).collect();
    assert_eq!(snip(&frames[..6], PRE, POST), [2, 3, 4]);
    assert_eq!(snip(&frames[..3], PRE, POST), [2], "one frame stays");
    assert_eq!(snip(&frames[..2], PRE, POST), [0u64; 0]);
    let deep = snip(&frames, PRE, POST);
    assert_eq!((deep.first(), deep.len()), (Some(&2), 31));
    assert_eq!(snip(&frames, 0, 0).len(), 31, "more cannot be written");
}

#[test]
fn what_the_format_cannot_hold_is_kept_all_the_same() {
    let deep: Vec<u64> = (0..200).map(|frame| 0x7fff_0000_0000 + frame * 0x1_0000_1234).collect();
    let prepared = Prepared::new(&deep, 77);
    let mut frames = [0; 255];
    let decoded = decode(prepared.blob(), Width::W64, &mut frames).expect("a backtrace");
    assert_eq!((decoded.size, decoded.frames.len()), (77, 0), "too long: the size alone");
    let prepared = Prepared::new(&deep[..31], usize::MAX);
    let decoded = decode(prepared.blob(), Width::W64, &mut frames).expect("a backtrace");
    assert_eq!((decoded.size, decoded.frames, decoded.dialect), (u64::MAX, &deep[..31], Dialect::Extension));
    let narrow = Prepared::narrow(&[0x4008_1eff, 0xffff_ffff], 9);
    let decoded = decode(narrow.blob(), Width::W32, &mut frames).expect("a backtrace");
    assert_eq!((decoded.size, decoded.frames), (9, &[0x4008_1eff, 0xffff_ffff][..]));
}
