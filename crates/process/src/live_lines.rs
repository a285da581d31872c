//! Live blocks as lines of libwebsockets, `~m#` and `~b#`, from inside of the process: oldest first, no lock held.
//!
//! Nothing is taken from the program's allocator: blocks are gathered in memory of the kernel's, put in order, and written one by one. Whoever
//! takes the lines may allocate; blocks that come meanwhile are not among them.
#![forbid(unsafe_code)]

use crate::private::Passing;
use crate::ways::Way;
use core::fmt;
use heapledger_format::Site;
use heapledger_format::session::DEPTH_LIMIT_MAX;
use heapledger_linux::loader::{self, CodeFinder};
use heapledger_lws::{BLOB_BYTES_MAX, encode_any, extension, line};

/// How a block is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineForm {
    /// `~m#` and the compressed backtrace.
    Compressed,
    /// `~b#size: ` and all of it in words.
    Plain,
}

/// Which addresses frames have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineAddresses {
    /// Those in memory.
    InMemory,
    /// Those in the program's own file; frames of other modules are left out.
    OfProgram,
}

/// Why not all was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinesEnd {
    /// There is no memory to put the blocks in order.
    NoMemory,
    /// Others allocate faster than blocks are gathered.
    Busy,
    /// Who is to take the lines takes no more.
    Refused,
}

/// Most frames of a line: what an extension of the format holds. Of more that are shown, the innermost ones stay.
const FRAMES_MAX: usize = extension::DEPTH_MAX;
/// How often blocks are gathered, with twice as much room each time.
const TRIES: usize = 5;

/// A block: number, bytes, site.
type Gathered = [u64; 3];

/// Writes a line for each live block; how many.
///
/// # Errors
/// If that ended before all were written.
pub fn write(
    way: &'static Way,
    form: LineForm,
    addresses: LineAddresses,
    out: &mut impl fmt::Write,
) -> Result<u64, LinesEnd> {
    let (mut blocks, count) = gather(way)?;
    let blocks = blocks.all().get_mut(..count).unwrap_or(&mut []);
    blocks.sort_unstable_by_key(|[number, ..]| *number);
    let shown = Shown::new(addresses);
    // A signal's stack may be small.
    let whole = Passing::<usize>::new(DEPTH_LIMIT_MAX as usize);
    let room = (whole, Passing::<u64>::new(FRAMES_MAX), Passing::<u8>::new(BLOB_BYTES_MAX));
    let (Some(mut stack), Some(mut frames), Some(mut blob)) = room else { return Err(LinesEnd::NoMemory) };
    let (stack, frames, blob) = (stack.all(), frames.all(), blob.all());
    for [_, bytes, site] in blocks.iter() {
        let depth = way.get_stack(Site(*site as u32), stack).unwrap_or(0);
        let stack = stack.get(..depth).unwrap_or(stack);
        let (mut places, mut used) = (frames.iter_mut(), 0usize);
        for frame in stack.iter().filter_map(|frame| shown.of(*frame)) {
            if let Some(place) = places.next() {
                (*place, used) = (frame as u64, used.saturating_add(1));
            }
        }
        let frames = frames.get(..used).unwrap_or(&[]);
        one(form, frames, *bytes, blob, out).map_err(|_| LinesEnd::Refused)?;
    }
    Ok(count as u64)
}

fn one(form: LineForm, frames: &[u64], bytes: u64, blob: &mut [u8], out: &mut impl fmt::Write) -> fmt::Result {
    match form {
        LineForm::Compressed => {
            // No stack is deeper than what fits.
            let used = encode_any(frames, bytes, blob).unwrap_or(0);
            line::write_compressed(blob.get(..used).unwrap_or(&[]), out)?;
        }
        LineForm::Plain => line::write_plain(frames, bytes, out)?,
    }
    out.write_str("\n")
}

/// All live blocks, in the order of their records, and how many there are.
fn gather(way: &'static Way) -> Result<(Passing<Gathered>, usize), LinesEnd> {
    let mut room = 0usize;
    each(way, &mut |_| room = room.saturating_add(1));
    for _ in 0..TRIES {
        // Others go on meanwhile.
        room = room.saturating_add(room / 8).saturating_add(1024);
        let mut blocks = Passing::<Gathered>::new(room).ok_or(LinesEnd::NoMemory)?;
        let (mut places, mut count) = (blocks.all().iter_mut(), 0usize);
        each(way, &mut |block| {
            count = count.saturating_add(1);
            if let Some(place) = places.next() {
                *place = block;
            }
        });
        if count <= room {
            return Ok((blocks, count));
        }
        room = count.saturating_mul(2);
    }
    Err(LinesEnd::Busy)
}

fn each(way: &'static Way, tell: &mut dyn FnMut(Gathered)) {
    let mut from = 0;
    while let Some((slot, block)) = way.next_record(from) {
        tell([block.number, block.bytes, u64::from(block.site)]);
        from = slot.wrapping_add(1);
    }
}

/// Which addresses are shown, and how far they are moved.
struct Shown {
    low: usize,
    end: usize,
    bias: usize,
}

impl Shown {
    fn new(addresses: LineAddresses) -> Shown {
        let all = Shown { low: 0, end: usize::MAX, bias: 0 };
        if addresses == LineAddresses::InMemory {
            return all;
        }
        let finder = CodeFinder::new();
        finder.start();
        // The loader lists the program first.
        let program = loader::modules().next();
        let code = program.as_ref().and_then(|program| finder.of(program));
        match (program, code) {
            (Some(program), Some(code)) => {
                let (low, end) = code.executable();
                Shown { low, end, bias: program.bias() }
            }
            _ => Shown { low: 0, end: 0, bias: 0 },
        }
    }

    /// A return address may be the first after the code.
    fn of(&self, frame: usize) -> Option<usize> {
        (self.low < frame && frame <= self.end).then(|| frame.wrapping_sub(self.bias))
    }
}
