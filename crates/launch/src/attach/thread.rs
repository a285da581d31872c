//! One thread of a program that is held for a while, and made to call a function.

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use libc::user_regs_struct;

use super::AttachError;
use super::frame::{Laid, State};
use super::registers;
use crate::sys::{self, CALL_STOP, Stop};

/// A thread that does not stop in this time waits in the kernel for something that cannot be interrupted.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long one is waited for that has to be let go.
const LAST_PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_micros(20);
/// The result of a system call of which the kernel remembers how it is gone on with.
const GOES_ON: i64 = -516;

/// A thread that stands, or will soon. It goes on when this is dropped.
#[derive(Debug)]
pub(super) struct HeldThread {
    pub(super) id: i32,
    stop: Option<Stop>,
}

impl HeldThread {
    /// Stops it. `Ok(None)` if it has ended meanwhile, or waits in the kernel.
    pub(super) fn stop(id: i32) -> io::Result<Option<HeldThread>> {
        match sys::seize_for_calls(id) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
            seized => seized?,
        }
        let mut held = HeldThread { id, stop: None };
        let _ = sys::interrupt(id);
        held.wait(PATIENCE);
        if held.stop.is_none_or(|stop| stop == Stop::Gone) {
            return Ok(None);
        }
        // What has done nothing is made again, with and without us.
        let _ = sys::enter_again(id);
        Ok(Some(held))
    }

    /// Why it stands.
    pub(super) fn stopped(&self) -> Option<Stop> {
        self.stop
    }

    pub(super) fn registers(&self) -> io::Result<user_regs_struct> {
        registers::general(self.id)
    }

    /// All that a function may change.
    pub(super) fn state(&self) -> io::Result<State> {
        let (registers, extended) = (self.registers()?, registers::extended(self.id)?);
        Ok(State { registers, extended, blocked: registers::blocked_signals(self.id)? })
    }

    /// Waits for it to stop.
    fn wait(&mut self, patience: Duration) {
        let began = Instant::now();
        while self.stop.is_none() && began.elapsed() < patience {
            match sys::look_at_thread(self.id) {
                Ok(Some(stop)) => self.stop = Some(stop),
                Ok(None) => sleep(LOOK),
                Err(_) => self.stop = Some(Stop::Gone),
            }
        }
    }

    /// Has it call a function, whose frame is laid, and waits until that has returned: until it asks the kernel to restore its
    /// registers. All its signals wait meanwhile.
    ///
    /// # Errors
    /// If it ends, is stopped by somebody, or does not come back in time. It goes on by itself then.
    pub(super) fn call(
        &mut self,
        registers: user_regs_struct,
        laid: &Laid,
        patience: Duration,
    ) -> Result<(), AttachError> {
        registers::block_signals(self.id, u64::MAX).map_err(AttachError::Trace)?;
        registers::set_general(self.id, registers).map_err(AttachError::Trace)?;
        let deadline = Instant::now() + patience;
        let mut signal = 0;
        loop {
            sys::resume_to_call(self.id, signal).map_err(AttachError::Trace)?;
            self.stop = None;
            self.wait(deadline.saturating_duration_since(Instant::now()));
            signal = match self.stop {
                None => {
                    // Whatever it waits for: it has to be let go, and it must stand for that.
                    let _ = sys::interrupt(self.id);
                    self.wait(LAST_PATIENCE);
                    return Err(AttachError::NotBack(patience));
                }
                Some(Stop::Gone) => return Err(AttachError::EndedMeanwhile),
                Some(Stop::Group(_)) => return Err(AttachError::StoppedMeanwhile),
                Some(Stop::Asked) => 0,
                Some(Stop::Signal(CALL_STOP)) if self.is_returning(laid) => {
                    self.stop = Some(Stop::Asked);
                    return Ok(());
                }
                Some(Stop::Signal(CALL_STOP)) => 0,
                // One that cannot wait: it has done something wrong.
                Some(Stop::Signal(signal)) => signal,
            };
        }
    }

    /// Whether it is about to have its registers restored.
    fn is_returning(&self, laid: &Laid) -> bool {
        const ENTERED: i64 = -38;
        self.registers().is_ok_and(|regs| {
            regs.orig_rax.cast_signed() == libc::SYS_rt_sigreturn
                && regs.rax.cast_signed() == ENTERED
                && regs.rsp == laid.frame.wrapping_add(8)
        })
    }

    /// It goes on where it was when `state` was taken. To be called when it is about to have its registers restored: the kernel does
    /// that, but for a system call that was interrupted and is to be gone on with.
    pub(super) fn go_back(mut self, state: &State) -> io::Result<()> {
        if state.registers.rax.cast_signed() != GOES_ON || state.registers.orig_rax.cast_signed() < 0 {
            return Ok(());
        }
        // Should we be killed in between, it makes the call anew.
        registers::set_extended(self.id, &state.extended)?;
        registers::block_signals(self.id, state.blocked)?;
        let anew = user_regs_struct { orig_rax: u64::MAX, ..super::frame::resumed(&state.registers) };
        registers::set_general(self.id, anew)?;
        sys::interrupt(self.id)?;
        sys::resume(self.id, 0)?;
        self.stop = None;
        self.wait(LAST_PATIENCE);
        // On its way out of the kernel, which looks once more whether a call is to be gone on with.
        registers::set_general(self.id, state.registers)
    }
}

impl Drop for HeldThread {
    fn drop(&mut self) {
        // Only a thread that stands can be let go. One that does not is let go when this process ends.
        self.wait(LAST_PATIENCE);
        let signal = match self.stop {
            Some(Stop::Signal(signal)) if signal != CALL_STOP => signal,
            _ => 0,
        };
        let _ = sys::detach(self.id, signal);
    }
}
