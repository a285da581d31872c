//! `memcpy` and its like, for as long as the real ones are not known: what looks for them calls them, as compilers do where nobody
//! sees it. Calls come here by way of the stubs.

use core::arch::asm;

// SAFETY of all of these: the arguments are those of a call of the function of that name, which says what of memory it may access.

/// See [`own`].
extern "C" fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    // SAFETY: above.
    unsafe {
        if (to as usize).wrapping_sub(from as usize) >= bytes {
            asm!("rep movsb", inout("rcx") bytes => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack, preserves_flags));
        } else {
            let last = bytes.wrapping_sub(1);
            let (to, from) = (to.wrapping_add(last), from.wrapping_add(last));
            asm!("std", "rep movsb", "cld", inout("rcx") bytes => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack));
        }
    }
    to
}

/// See [`own`].
extern "C" fn memset(to: *mut u8, byte: i32, bytes: usize) -> *mut u8 {
    // SAFETY: above.
    unsafe {
        asm!("rep stosb", inout("rcx") bytes => _, inout("rdi") to => _, in("al") byte as u8, options(nostack, preserves_flags));
    }
    to
}

/// See [`own`].
extern "C" fn memcmp(one: *const u8, other: *const u8, bytes: usize) -> i32 {
    for index in 0..bytes {
        // SAFETY: above. Volatile: the compiler would make a call of it.
        let [a, b] = [one, other].map(|first| unsafe { first.wrapping_add(index).read_volatile() });
        if a != b {
            return i32::from(a).wrapping_sub(i32::from(b));
        }
    }
    0
}

/// See [`own`].
extern "C" fn strlen(text: *const u8) -> usize {
    let mut bytes = 0usize;
    // SAFETY: above.
    while unsafe { text.wrapping_add(bytes).read_volatile() } != 0 {
        bytes = bytes.wrapping_add(1);
    }
    bytes
}

/// What takes the place of a function as long as the real one is not known; 0: nothing does.
pub(crate) fn own(name: &[u8]) -> usize {
    // One byte decides, so that no memory is compared.
    let [b'm' | b's' | b'b', rest @ ..] = name else { return 0 };
    match rest {
        [b'e', b'm', b'c', b'p', b'y'] | [b'e', b'm', b'm', b'o', b'v', b'e'] => memmove as *const () as usize,
        [b'e', b'm', b's', b'e', b't'] => memset as *const () as usize,
        [b'e', b'm', b'c', b'm', b'p'] | [b'c', b'm', b'p'] => memcmp as *const () as usize,
        [b't', b'r', b'l', b'e', b'n'] => strlen as *const () as usize,
        _ => 0,
    }
}

/// What takes the place of a function that there is not.
pub(crate) extern "C" fn nothing() -> usize {
    0
}
