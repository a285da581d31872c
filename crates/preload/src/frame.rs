//! What a stub leaves on its stack for the functions that it calls.
#![forbid(unsafe_code)]

use heapledger_unwind::Registers;

/// Which hook books a call.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct BookedBy(u32);

impl BookedBy {
    pub(crate) const THIS: BookedBy = BookedBy(0);
    /// One that encloses it: the call comes from a C++ operator of the next allocator, say.
    pub(crate) const ANOTHER: BookedBy = BookedBy(1);
    /// None: what it calls is to be booked.
    pub(crate) const NOBODY: BookedBy = BookedBy(2);
}

/// What a stub knows of its caller. Where it calls [`crate::direct::gave`] or [`crate::direct::frees`] its frame ends here.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Caller {
    pub(crate) args: [usize; 4],
    /// The registers as they will be when the hook has returned.
    pub(crate) registers: Registers,
}

/// What a stub leaves on its stack.
#[repr(C)]
pub(crate) struct CallFrame {
    pub(crate) caller: Caller,
    /// Carried from `before_call` to `after_call`.
    pub(crate) kept: heapledger_process::reallocation::Reallocation,
    pub(crate) booked_by: BookedBy,
    /// What was done beside recording.
    pub(crate) watched: crate::watched::Watched,
    /// The call that encloses this one, to be put back when this one has returned.
    pub(crate) enclosing: heapledger_process::enclosing::Call,
}

/// An argument that no function has which comes back to [`crate::calls::after_call`]: its place is free for a number.
pub(crate) const SPARE_ARGUMENT: usize = 3;

const _: () = assert!(size_of::<Caller>() == 96 && size_of::<CallFrame>() == 160);

impl CallFrame {
    /// Of a caller, with nothing in it yet.
    pub(crate) fn of(caller: Caller) -> CallFrame {
        CallFrame {
            caller,
            kept: Default::default(),
            booked_by: BookedBy::ANOTHER,
            enclosing: Default::default(),
            watched: Default::default(),
        }
    }
}

impl core::ops::Deref for CallFrame {
    type Target = Caller;
    fn deref(&self) -> &Caller {
        &self.caller
    }
}
impl Caller {
    /// The address to which the hook will return.
    pub(crate) fn return_address(&self) -> usize {
        self.registers.ip as usize
    }

    /// The stack pointer after the hook has returned.
    pub(crate) fn stack_pointer(&self) -> usize {
        self.registers.sp as usize
    }
}
