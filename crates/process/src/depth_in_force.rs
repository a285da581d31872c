//! How much is taken of the stacks of calls that end blocks, and how that changes while the program runs.
//!
//! What is in force is what was asked for last, and whole stacks as long as a trace window is not stopped that asks for them. Each change is a
//! mark of all threads in the ledger ([`MarkKind::FreeDepth`]), set before less or more is taken: so what was in force up to a number
//! tells of each stack whether it may have been cut. A call that was under way at that moment may have a stack as before.
#![forbid(unsafe_code)]

use crate::family;
use crate::guarded::Level;
use crate::marks::{self, NewMark, NotTold};
use crate::once::Starting;
use crate::shared::Shared;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use heapledger_format::FreeDepth;
use heapledger_format::mark::MarkKind;
use heapledger_linux::text::Text;
use heapledger_linux::token::Token;

/// What is in force. All zeros before recording has begun.
pub(crate) struct DepthInForce {
    /// [`FreeDepth::word`].
    word: AtomicU64,
    /// Nothing is asked for that an event would have to look at: [`crate::shared::Settings::is_usual_but_depth`], and of a free its
    /// caller is taken.
    is_usual: AtomicBool,
    /// What holds while no window asks for more.
    asked: AtomicU64,
    /// Windows that do.
    windows: AtomicU32,
    changing: Token,
}

impl DepthInForce {
    /// None.
    pub(crate) const fn new() -> DepthInForce {
        DepthInForce {
            word: AtomicU64::new(0),
            is_usual: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            windows: AtomicU32::new(0),
            changing: Token::new(),
        }
    }

    /// What recording begins with.
    pub(crate) fn start(&self, _: &Starting, depth: FreeDepth, is_usual_but_depth: bool) {
        self.asked.store(depth.word(), Ordering::Relaxed);
        self.put(depth, is_usual_but_depth);
    }

    /// What is taken at this moment.
    #[inline(always)]
    pub(crate) fn get(&self) -> FreeDepth {
        FreeDepth::of_word(self.word.load(Ordering::Relaxed)).unwrap_or(FreeDepth::WHOLE)
    }

    /// See the field.
    #[inline(always)]
    pub(crate) fn is_usual(&self) -> bool {
        self.is_usual.load(Ordering::Relaxed)
    }

    fn put(&self, depth: FreeDepth, is_usual_but_depth: bool) {
        self.word.store(depth.word(), Ordering::Relaxed);
        self.is_usual.store(is_usual_but_depth && depth == FreeDepth::CALLER, Ordering::Relaxed);
    }

    fn asked(&self) -> FreeDepth {
        FreeDepth::of_word(self.asked.load(Ordering::Relaxed)).unwrap_or(FreeDepth::WHOLE)
    }

    /// Puts something in force, and tells the ledger.
    fn change(&self, shared: &'static Shared, depth: FreeDepth) -> Result<(), NotTold> {
        if depth != self.get() {
            let name = text(depth);
            marks::mark(
                shared,
                &NewMark { kind: MarkKind::FreeDepth, name: name.bytes(), about: 0, of_own_thread: false },
            )?;
            self.put(depth, shared.settings().is_usual_but_depth);
        }
        Ok(())
    }

    /// A window opens that asks for whole stacks.
    ///
    /// # Errors
    /// If it cannot have them.
    pub(crate) fn window_opens(&self, shared: &'static Shared) -> Result<(), NotTold> {
        let _changing = self.changing.take().ok_or(NotTold::Busy)?;
        self.change(shared, FreeDepth::WHOLE)?;
        self.windows.store(self.windows.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        Ok(())
    }

    /// It is over, or was none after all.
    pub(crate) fn window_closes(&self, shared: &'static Shared) {
        // If another thread is at it for long, more is taken than is asked for from now on.
        let Some(_changing) = self.changing.take() else { return };
        let left = self.windows.load(Ordering::Relaxed).saturating_sub(1);
        self.windows.store(left, Ordering::Relaxed);
        if left == 0 {
            // Without room for the mark it stays as it is, and is as the ledger says.
            let _ = self.change(shared, self.asked());
        }
    }
}

/// As options have it.
pub(crate) fn text(depth: FreeDepth) -> Text<24> {
    let (text, number) = depth.parts();
    let mut all = Text::new();
    all.push(text.as_bytes());
    if let Some(number) = number {
        all.push_number(u64::from(number));
    }
    all
}

/// From now on this much is taken of the stacks of calls that end blocks, once no window asks for more.
///
/// # Errors
/// [`NotTold::Off`] if nothing is recorded, [`NotTold::NotSo`] where blocks are guarded: there stacks are whole. [`NotTold::NoRoom`] if the ledger has no
/// room to say so, [`NotTold::Busy`] if another thread is about to change it: then nothing has changed.
pub fn set(shared: &'static Shared, depth: FreeDepth) -> Result<(), NotTold> {
    if !family::follows(shared) {
        return Err(NotTold::Off);
    }
    if shared.settings().guard.level != Level::Off {
        return Err(NotTold::NotSo);
    }
    let in_force = &shared.free_depth;
    let _changing = in_force.changing.take().ok_or(NotTold::Busy)?;
    if in_force.windows.load(Ordering::Relaxed) == 0 {
        in_force.change(shared, depth)?;
    }
    in_force.asked.store(depth.word(), Ordering::Relaxed);
    Ok(())
}
