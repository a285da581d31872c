//! System calls on files, by path and by descriptor. The kernel checks all that they are given.
#![forbid(unsafe_code)]

use core::ffi::CStr;

use super::{Errno, Result, checked, number};

/// Flags of `open`.
pub mod open_flag {
    /// Read only.
    pub const READ: usize = 0;
    /// Write only.
    pub const WRITE: usize = 1;
    /// Read and write.
    pub const READ_WRITE: usize = 2;
    /// Create.
    pub const CREATE: usize = 0o100;
    /// Fail if it exists.
    pub const EXCLUSIVE: usize = 0o200;
    /// Append.
    pub const APPEND: usize = 0o2000;
    /// Only the name is looked up: nothing is read or written.
    pub const PATH_ONLY: usize = 0o10_000_000;
    /// A new file without a name, in this directory.
    pub const UNNAMED: usize = 0o20_200_000;
    /// Must be a directory.
    pub const DIRECTORY: usize = 0o200_000;
    /// Do not follow a symbolic link.
    pub const NO_FOLLOW: usize = 0o400_000;
    /// Close on exec.
    pub const CLOSE_ON_EXEC: usize = 0o2_000_000;
}

/// Opens a file.
pub fn open(path: &CStr, flags: usize, mode: usize) -> Result<usize> {
    checked(number::OPEN, [path.as_ptr() as usize, flags, mode, 0, 0, 0])
}

/// Entries of a directory that is open, as the kernel has them: how many bytes, 0 at the end.
pub fn read_directory(fd: usize, entries: &mut [u8]) -> Result<usize> {
    checked(number::GETDENTS64, [fd, entries.as_mut_ptr() as usize, entries.len(), 0, 0, 0])
}

/// Opens an event of a thread (`perf_event_open`), closed on exec.
pub fn open_event(attributes: &[u64; 16], thread: u32) -> Result<usize> {
    const CLOSE_ON_EXEC: usize = 8;
    const NONE: usize = usize::MAX;
    checked(number::PERF_EVENT_OPEN, [attributes.as_ptr() as usize, thread as usize, NONE, NONE, CLOSE_ON_EXEC, 0])
}

/// `PERF_EVENT_IOC_ID`.
pub(in super::super) const EVENT_ID: usize = 0x8008_2407;

/// The number of an event, which no other one has or will have. Of a descriptor that is no event's, an error.
pub fn event_id(fd: usize) -> Result<u64> {
    let mut id = 0u64;
    checked(number::IOCTL, [fd, EVENT_ID, &raw mut id as usize, 0, 0, 0])?;
    Ok(id)
}

/// Closes a descriptor that this crate opened.
pub fn close(fd: usize) {
    let _ = checked(number::CLOSE, [fd, 0, 0, 0, 0, 0]);
}

/// Reads once; interrupted reads are repeated.
pub fn read(fd: usize, into: &mut [u8]) -> Result<usize> {
    loop {
        match checked(number::READ, [fd, into.as_mut_ptr() as usize, into.len(), 0, 0, 0]) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Writes once; interrupted writes are repeated.
pub fn write(fd: usize, bytes: &[u8]) -> Result<usize> {
    loop {
        match checked(number::WRITE, [fd, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Writes once, at a place of a file; interrupted writes are repeated.
pub fn write_at(fd: usize, bytes: &[u8], at: u64) -> Result<usize> {
    loop {
        match checked(number::PWRITE64, [fd, bytes.as_ptr() as usize, bytes.len(), at as usize, 0, 0]) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Reads once, at a place of a file; interrupted reads are repeated.
pub fn read_at(fd: usize, into: &mut [u8], at: u64) -> Result<usize> {
    loop {
        match checked(number::PREAD64, [fd, into.as_mut_ptr() as usize, into.len(), at as usize, 0, 0]) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Gives a file that has none its first name. The name must be vacant.
pub fn give_name(fd: usize, path: &CStr) -> Result<()> {
    const WORKING_DIRECTORY: usize = -100isize as usize;
    const FOLLOW: usize = 0x400;
    let mut own = crate::text::Text::<40>::new();
    own.push(b"/proc/self/fd/").push_number(fd as u64);
    let (from, to) = (own.c_str().as_ptr() as usize, path.as_ptr() as usize);
    checked(number::LINKAT, [WORKING_DIRECTORY, from, WORKING_DIRECTORY, to, FOLLOW, 0]).map(drop)
}

/// Gives a file another name, in place of what has that name.
pub fn rename(from: &CStr, to: &CStr) -> Result<()> {
    checked(number::RENAME, [from.as_ptr() as usize, to.as_ptr() as usize, 0, 0, 0, 0]).map(drop)
}

/// Sets a file's length.
pub fn set_length(fd: usize, bytes: u64) -> Result<()> {
    checked(number::FTRUNCATE, [fd, bytes as usize, 0, 0, 0, 0]).map(drop)
}

/// Reserves storage for a part of a file.
pub fn allocate(fd: usize, offset: u64, bytes: u64) -> Result<()> {
    checked(number::FALLOCATE, [fd, 0, offset as usize, bytes as usize, 0, 0]).map(drop)
}

/// Makes a directory.
pub fn make_directory(path: &CStr, mode: usize) -> Result<()> {
    checked(number::MKDIR, [path.as_ptr() as usize, mode, 0, 0, 0, 0]).map(drop)
}

/// Removes a file's name.
pub fn unlink(path: &CStr) {
    let _ = checked(number::UNLINK, [path.as_ptr() as usize, 0, 0, 0, 0, 0]);
}

/// Makes a symbolic link at `path` that says `target`.
pub fn symbolic_link(target: &CStr, path: &CStr) -> Result<()> {
    checked(number::SYMLINK, [target.as_ptr() as usize, path.as_ptr() as usize, 0, 0, 0, 0]).map(drop)
}

/// Reads a symbolic link.
pub fn read_link<'a>(path: &CStr, into: &'a mut [u8]) -> Result<&'a [u8]> {
    let length = checked(number::READLINK, [path.as_ptr() as usize, into.as_mut_ptr() as usize, into.len(), 0, 0, 0])?;
    into.get(..length).ok_or(Errno::INVAL)
}

/// The path of the working directory.
pub fn working_directory(into: &mut [u8]) -> Result<&[u8]> {
    let length = checked(number::GETCWD, [into.as_mut_ptr() as usize, into.len(), 0, 0, 0, 0])?;
    // Its zero byte is counted. A directory that cannot be reached is said to be `(unreachable)…`.
    into.get(..length.saturating_sub(1)).filter(|path| path.starts_with(b"/")).ok_or(Errno::INVAL)
}

/// Which file a descriptor stands for, and whose it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileIdentity {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// File type and permissions.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Of a device: its number.
    pub stands_for: u64,
    /// Length.
    pub bytes: u64,
}

impl FileIdentity {
    const TYPE: u32 = 0o170_000;

    /// Whether it is a plain file.
    pub fn is_regular(&self) -> bool {
        self.mode & Self::TYPE == 0o100_000
    }

    /// Whether it is a pipe.
    pub fn is_pipe(&self) -> bool {
        self.mode & Self::TYPE == 0o010_000
    }

    /// Whether it is a terminal before which a person may sit, or what swallows all: not a serial line, at whose end may be a device.
    pub fn is_terminal_or_null(&self) -> bool {
        let major = self.stands_for >> 8 & 0xfff | self.stands_for >> 32 & 0xffff_f000;
        let minor = self.stands_for & 0xff | self.stands_for >> 12 & 0xffff_ff00;
        let is_it = matches!((major, minor), (1, 3) | (4, 0..=63) | (5, 0 | 1) | (136..=143, _));
        self.mode & Self::TYPE == 0o020_000 && is_it
    }
}

/// Whether a regular file is open for writing and nothing else. Nothing is read.
pub fn is_write_only(fd: usize) -> bool {
    read(fd, &mut []) == Err(Errno::BADF)
}

/// Asks what a descriptor stands for.
pub fn identify(fd: usize) -> Result<FileIdentity> {
    let mut stat = [0u64; 18]; // struct stat of x86-64: dev, ino, nlink, mode and uid, …
    checked(number::FSTAT, [fd, stat.as_mut_ptr() as usize, 0, 0, 0, 0])?;
    Ok(FileIdentity {
        device: stat[0],
        inode: stat[1],
        mode: stat[3] as u32,
        uid: (stat[3] >> 32) as u32,
        stands_for: stat[5],
        bytes: stat[6],
    })
}

/// Bytes that the user can still write in the file system that holds `path`. One without a limit says nothing.
pub fn free_bytes(path: &CStr) -> Result<u64> {
    let mut found = [0u64; 15]; // struct statfs of x86-64: type, bsize, blocks, bfree, bavail, …
    checked(number::STATFS, [path.as_ptr() as usize, found.as_mut_ptr() as usize, 0, 0, 0, 0])?;
    let [_, block_bytes, blocks, _, available, ..] = found;
    Ok(if blocks == 0 { u64::MAX } else { available.saturating_mul(block_bytes) })
}
