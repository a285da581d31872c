//! Which of the default places has room for a ledger. The recorder chooses likewise where nobody says `dir=`.

use std::fs;
use std::path::{Path, PathBuf};

use heapledger_format::session::{LEDGER_BYTES_DEFAULT_MAX, LEDGER_MEMORY_PART};
use nix::sys::statvfs::statvfs;

/// The first place that has room for all that the ledger may become (`max_ledger`, if that was asked for); else the one with the most. A container's
/// `/dev/shm` has 64 MiB.
pub(crate) fn choose(places: impl Iterator<Item = PathBuf>, max_ledger: Option<u64>) -> Option<PathBuf> {
    let wanted = max_ledger.unwrap_or_else(|| (memory_bytes() / LEDGER_MEMORY_PART).min(LEDGER_BYTES_DEFAULT_MAX));
    choose_by(places, free_bytes, wanted)
}

fn choose_by(places: impl Iterator<Item = PathBuf>, free: impl Fn(&Path) -> u64, wanted: u64) -> Option<PathBuf> {
    let mut roomiest: Option<(u64, PathBuf)> = None;
    for place in places {
        let free = free(&place);
        if free >= wanted {
            return Some(place);
        }
        if roomiest.as_ref().is_none_or(|(most, _)| free > *most) {
            roomiest = Some((free, place));
        }
    }
    roomiest.map(|(_, place)| place)
}

/// What can be written there; a tmpfs without a limit says nothing.
fn free_bytes(place: &Path) -> u64 {
    match statvfs(place) {
        Ok(found) if found.blocks() == 0 => u64::MAX,
        Ok(found) => found.blocks_available().saturating_mul(found.fragment_size()),
        Err(_) => 0,
    }
}

/// The machine's memory, or the container's if that is less.
fn memory_bytes() -> u64 {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        Some(total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
    });
    let group = number("/sys/fs/cgroup/memory.max").or_else(|| number("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
    machine.unwrap_or(u64::MAX).min(group.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(places: &[(&str, u64)]) -> Option<PathBuf> {
        let free = |path: &Path| places.iter().find(|(name, _)| Path::new(name) == path).map_or(0, |(_, free)| *free);
        choose_by(places.iter().map(|(name, _)| PathBuf::from(name)), free, 1000)
    }

    #[test]
    fn the_first_with_room_for_all_else_the_roomiest() {
        assert_eq!(chosen(&[("/run", 100), ("/dev/shm", 2000), ("/tmp", 9000)]), Some("/dev/shm".into()));
        assert_eq!(chosen(&[("/run", 1000), ("/dev/shm", 2000)]), Some("/run".into()));
        assert_eq!(chosen(&[("/run", 10), ("/dev/shm", 64), ("/tmp", 900)]), Some("/tmp".into()));
        assert_eq!(chosen(&[("/dev/shm", 64), ("/tmp", 64)]), Some("/dev/shm".into()));
        assert_eq!(chosen(&[("/dev/shm", 0)]), Some("/dev/shm".into()));
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn there_is_memory_and_room() {
        assert!(memory_bytes() > 1 << 24 && memory_bytes() < 1 << 60);
        assert!(free_bytes(Path::new("/")) > 0);
        assert_eq!(free_bytes(Path::new("/no/such/place")), 0);
    }
}
