//! Threads that sleep, and whether they slept all the while.

use std::fs;
use std::ops::Range;

/// A thread that was found asleep.
#[derive(Debug)]
pub(super) struct Asleep {
    process: i32,
    thread: i32,
    place: String,
    switches: Switches,
}

/// How often it has left a processor, by itself and by force.
type Switches = (u64, u64);

impl Asleep {
    /// A thread that sleeps now.
    pub(super) fn look(process: i32, thread: i32) -> Option<Asleep> {
        // In this order: what happens in between makes a difference later and not the other way round.
        let switches = switches(process, thread)?;
        let place = Self::place(process, thread)?;
        Some(Asleep { process, thread, place, switches })
    }

    /// Whether it has not woken since. A thread that ran in between has left its processor once more than it had.
    pub(super) fn still(&self) -> bool {
        Self::place(self.process, self.thread).is_some_and(|place| place == self.place)
            && switches(self.process, self.thread) == Some(self.switches)
    }

    /// Whether it sleeps inside of this code, or where that cannot be told.
    pub(super) fn is_in(&self, code: &[Range<u64>]) -> bool {
        instruction(&self.place).is_none_or(|address| code.iter().any(|range| range.contains(&address)))
    }

    /// Where a thread is that is on no processor: `NUMBER ARGUMENTS… SP PC`, or `-1 SP PC` outside of a system call. The
    /// kernel makes sure of it: of another one it says `running`.
    pub(super) fn place(process: i32, thread: i32) -> Option<String> {
        let line = fs::read_to_string(format!("/proc/{process}/task/{thread}/syscall")).ok()?;
        (line.trim() != "running").then_some(line)
    }
}

/// The address of the instruction in such a line.
pub(super) fn instruction(place: &str) -> Option<u64> {
    let word = place.split_ascii_whitespace().next_back()?;
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

fn switches(process: i32, thread: i32) -> Option<Switches> {
    let status = fs::read_to_string(format!("/proc/{process}/task/{thread}/status")).ok()?;
    let number = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
    Some((number("voluntary_ctxt_switches:")?, number("nonvoluntary_ctxt_switches:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Duration;

    fn own_thread() -> i32 {
        let own = fs::read_link("/proc/thread-self").unwrap();
        own.file_name().unwrap().to_str().unwrap().parse().unwrap()
    }

    #[test]
    fn a_thread_sleeps_until_it_is_woken() {
        let (wake, woken) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let sleeper = thread::spawn(move || {
            tell.send(own_thread()).unwrap();
            woken.recv().unwrap();
            tell.send(0).unwrap();
            let _ = ended.recv();
        });
        let (process, id) = (std::process::id() as i32, told.recv().unwrap());
        let found = loop {
            let found = Asleep::look(process, id);
            // 202: futex. One that it is in for a moment on its way is none.
            if let Some(found) = found.filter(|found| found.place.starts_with("202 ")) {
                thread::sleep(Duration::from_millis(20));
                if found.still() {
                    break found;
                }
            }
            thread::yield_now();
        };
        assert!(found.still());
        let pc = instruction(&found.place).unwrap();
        assert!(found.is_in(&[0..1, pc..pc + 1]) && !found.is_in(&[0..pc, pc + 1..u64::MAX]), "{found:?}");
        assert_eq!(instruction("running"), None);
        wake.send(()).unwrap();
        told.recv().unwrap();
        // It sleeps in the same call again, soon: that is not the same sleep.
        for _ in 0..1000 {
            assert!(!found.still());
            thread::yield_now();
        }
        drop(end);
        sleeper.join().unwrap();
        assert!(!found.still(), "it has ended");
        assert!(Asleep::look(process, id).is_none());
    }

    #[test]
    fn who_runs_does_not_sleep() {
        let (tell, told) = mpsc::channel();
        let end = Arc::new(AtomicBool::new(false));
        let runner = thread::spawn({
            let end = Arc::clone(&end);
            move || {
                tell.send(own_thread()).unwrap();
                drop(tell);
                while !end.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        });
        let (process, id) = (std::process::id() as i32, told.recv().unwrap());
        // After this it spins.
        assert!(told.recv().is_err());
        assert!(Asleep::look(process, id).is_none());
        end.store(true, Ordering::Relaxed);
        runner.join().unwrap();
        assert!(Asleep::look(i32::MAX, i32::MAX).is_none());
    }
}
