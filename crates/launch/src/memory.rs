//! How the allocator of this process gets memory from the kernel. Who works for some milliseconds asks for most of what it has given back
//! again, and the kernel takes longer to give a page than to fill it. Only of glibc's is anything asked, and nothing is lost where it refuses.

/// Has memory that is given back stay with this process, up to some.
#[cfg(target_env = "gnu")]
pub fn keep() {
    /// What is larger is asked for, and given back, by itself.
    const LARGE_BYTES: i32 = 16 << 20;
    /// More than this does not stay.
    const KEPT_BYTES: i32 = 64 << 20;
    /// Asked for at a time, beside what is needed.
    const AHEAD_BYTES: i32 = 1 << 20;
    let settings =
        [(libc::M_MMAP_THRESHOLD, LARGE_BYTES), (libc::M_TRIM_THRESHOLD, KEPT_BYTES), (libc::M_TOP_PAD, AHEAD_BYTES)];
    for (setting, value) in settings {
        // SAFETY: two numbers.
        let _ = unsafe { libc::mallopt(setting, value) };
    }
}

/// As the C library does it.
#[cfg(not(target_env = "gnu"))]
pub fn keep() {}
