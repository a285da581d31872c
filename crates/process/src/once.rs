//! Values that are written once, before others look at them.
//!
//! A room with `unsafe`: a value that everybody reads without an atomic instruction was changed, by one thread, before anybody could
//! come to it. Each type here says who that is.

use crate::shared::Phase;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use heapledger_linux::token::{Token, TokenHeld};

/// The one thread that sets up the recorder. Others see the phase, and stay away from all [`Early`] values until it has ended.
pub(crate) struct Starting<'p>(&'p AtomicU8);

impl<'p> Starting<'p> {
    /// `None` if somebody has started before, or is starting.
    pub(crate) fn claim(phase: &'p AtomicU8) -> Option<Starting<'p>> {
        let (unstarted, starting) = (Phase::Unstarted as u8, Phase::Starting as u8);
        phase.compare_exchange(unstarted, starting, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        Some(Starting(phase))
    }

    /// Lets others in, or keeps them out for good.
    pub(crate) fn end(self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Release);
    }
}

/// A value that only who is [`Starting`] changes, and that only who has seen the end of that looks at.
pub(crate) struct Early<T>(UnsafeCell<T>);

// SAFETY: changed by one thread before the phase says `On` (release), looked at by those who have seen that (acquire), and by the
// one itself.
unsafe impl<T: Sync + Send> Sync for Early<T> {}

impl<T> Early<T> {
    pub(crate) const fn new(value: T) -> Early<T> {
        Early(UnsafeCell::new(value))
    }

    /// The value.
    #[inline(always)]
    pub(crate) fn get(&self) -> &T {
        // SAFETY: nobody changes it, see `Sync`.
        unsafe { &*self.0.get() }
    }

    /// Changes it.
    pub(crate) fn change<R>(&self, _: &mut Starting, change: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: who is starting is alone, and has no reference from `get` while it changes something.
        change(unsafe { &mut *self.0.get() })
    }
}

/// A reference that is noted once, or a few times, and lives for ever.
pub struct Noted<T: 'static>(AtomicPtr<T>);

impl<T: Sync> Default for Noted<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Sync> Noted<T> {
    /// None yet.
    pub const fn new() -> Noted<T> {
        Noted(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// Notes one.
    pub fn set(&self, value: &'static T) {
        self.0.store((&raw const *value).cast_mut(), Ordering::Release);
    }

    /// Whether one was noted.
    #[inline(always)]
    pub(crate) fn is_set(&self) -> bool {
        !self.0.load(Ordering::Relaxed).is_null()
    }

    /// What was noted last.
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or such a reference.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }
}

/// A list to whose end values are added, and from which nothing is taken.
pub(crate) struct Appended<T, const MOST: usize> {
    values: UnsafeCell<[T; MOST]>,
    count: AtomicUsize,
    adding: Token,
}

// SAFETY: a value is written by the holder of `adding` before `count` covers it (release), and only looked at afterwards (acquire).
unsafe impl<T: Sync + Send, const MOST: usize> Sync for Appended<T, MOST> {}

/// Who alone adds to a list.
pub(crate) struct Adding<'l, T, const MOST: usize> {
    list: &'l Appended<T, MOST>,
    _held: TokenHeld<'l>,
}

impl<T, const MOST: usize> Appended<T, MOST> {
    /// No values yet: those that come are written over what is given, which is never dropped.
    pub(crate) const fn over(values: [T; MOST]) -> Self {
        Appended { values: UnsafeCell::new(values), count: AtomicUsize::new(0), adding: Token::new() }
    }

    /// All values, the first one first.
    #[inline(always)]
    pub(crate) fn all(&self) -> &[T] {
        let count = self.count.load(Ordering::Acquire);
        // SAFETY: `add` leaves the count at so many at most, and writes nothing below it.
        unsafe { core::slice::from_raw_parts(self.values.get().cast::<T>(), count) }
    }

    /// Keeps others from adding. `None` if somebody does for too long.
    pub(crate) fn lock(&self) -> Option<Adding<'_, T, MOST>> {
        self.adding.take().map(|held| Adding { list: self, _held: held })
    }
}

impl<'l, T, const MOST: usize> Adding<'l, T, MOST> {
    /// Adds a value at the end. `None` if there is no room.
    pub(crate) fn add(&mut self, value: T) -> Option<&'l T> {
        let count = self.list.count.load(Ordering::Relaxed);
        if count >= MOST {
            return None;
        }
        // SAFETY: inside the array; nobody else adds, and nobody looks at what is not counted yet.
        unsafe {
            let place = self.list.values.get().cast::<T>().add(count);
            place.write(value);
            self.list.count.store(count.wrapping_add(1), Ordering::Release);
            Some(&*place)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_stays_in_its_order() {
        let list: Appended<(u32, AtomicU8), 3> = Appended::over([const { (0, AtomicU8::new(0)) }; 3]);
        assert!(list.all().is_empty());
        {
            let mut adding = list.lock().expect("nobody adds");
            for number in 1..=3 {
                assert_eq!(adding.add((number, AtomicU8::new(7))).map(|value| value.0), Some(number));
            }
            assert!(adding.add((4, AtomicU8::new(0))).is_none());
        }
        assert_eq!(list.all().iter().map(|value| value.0).sum::<u32>(), 6);
        assert!(list.lock().is_some());
    }

    #[test]
    fn one_thread_starts_once() {
        let phase = AtomicU8::new(Phase::Unstarted as u8);
        let early = Early::new(1);
        let mut starting = Starting::claim(&phase).expect("nobody has started");
        assert!(Starting::claim(&phase).is_none());
        early.change(&mut starting, |value| *value = 2);
        starting.end(Phase::Off);
        assert!(Starting::claim(&phase).is_none() && *early.get() == 2);
        static NOTED: Noted<u32> = Noted::new();
        assert!(!NOTED.is_set() && NOTED.get().is_none());
        NOTED.set(&5);
        assert!(NOTED.is_set() && NOTED.get() == Some(&5));
    }
}
