//! Where libraries are unloaded by others: modules that stay while somebody looks at them, and the one that stays for good.
//!
//! A room with `unsafe`: calls the loader's functions.

use super::loader::{Module, modules};
use core::ffi::{c_char, c_void};

/// The definition of a function of the C library, which is among the modules that are there from the start.
fn function(name: &[u8]) -> Option<usize> {
    modules().find_map(|module| module.symbol(name)).map(|symbol| symbol.address)
}

/// Does something while no module is taken off the list: other threads wait that unload one. For the walks of who begins when others
/// may load and unload libraries; what is done must not load any.
pub fn while_list_stands(f: &mut dyn FnMut()) {
    type Visit = unsafe extern "C" fn(*const c_void, usize, *mut &mut dyn FnMut()) -> i32;
    type Iterate = unsafe extern "C" fn(Visit, *mut &mut dyn FnMut()) -> i32;
    unsafe extern "C" fn visit(_: *const c_void, _: usize, f: *mut &mut dyn FnMut()) -> i32 {
        // SAFETY: what is given below, by the only one who has it.
        unsafe { (*f)() };
        1
    }
    let mut given = f;
    match function(b"dl_iterate_phdr") {
        // SAFETY: the C library's function, which holds the list while it calls `visit`, once, and hands the pointer on.
        Some(address) => unsafe { core::mem::transmute::<usize, Iterate>(address)(visit, &mut given) },
        None => {
            given();
            0
        }
    };
}

/// From now on the module that contains this code is never unloaded, whoever closes it. False if the loader refuses.
///
/// Takes the loader's lock.
pub fn stay_loaded() -> bool {
    const LAZY: i32 = 1;
    const NO_LOAD: i32 = 4;
    const NO_DELETE: i32 = 0x1000;
    type Open = unsafe extern "C" fn(*const c_char, i32) -> *mut c_void;
    let Some(us) = modules().find(Module::is_us) else { return true };
    if us.name().is_empty() {
        return true; // the executable
    }
    // SAFETY: the C library's function; the loader finds the module by the name that it has given it.
    function(b"dlopen").is_some_and(|open| unsafe {
        !core::mem::transmute::<usize, Open>(open)(us.name().as_ptr(), LAZY | NO_LOAD | NO_DELETE).is_null()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_done_once_while_the_list_stands() {
        let (mut times, mut count) = (0, 0);
        while_list_stands(&mut || {
            times += 1;
            count = modules().count();
        });
        assert_eq!((times, count), (1, modules().count()));
        assert!(stay_loaded(), "an executable stays");
    }
}
