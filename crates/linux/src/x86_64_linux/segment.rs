//! A part of a module's file as the loader has mapped it for reading.

/// Such a part. All zeros: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedSegment {
    first: usize,
    bytes: usize,
}

impl MappedSegment {
    /// None.
    pub const NONE: MappedSegment = MappedSegment { first: 0, bytes: 0 };

    /// As the program headers of a loaded module have it.
    pub(super) fn new(first: usize, bytes: usize) -> MappedSegment {
        MappedSegment { first, bytes }
    }

    /// Its first address.
    pub fn address(&self) -> usize {
        self.first
    }

    /// What it holds. Only as long as its module stays loaded: whoever keeps a segment compares with the loader's list after each
    /// unloading. Of a module whose code is on a stack it can be looked at: should it be unloaded, the program itself could not
    /// go on.
    pub fn bytes(&self) -> &'static [u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: a mapped part of a loaded module's file, see above.
        unsafe { core::slice::from_raw_parts(self.first as *const u8, self.bytes) }
    }
}
