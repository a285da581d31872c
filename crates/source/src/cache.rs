//! A bounded memory of unpacked pieces and blocks of elements.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Keeps up to `room` bytes; forgets what was not asked for longest.
#[derive(Debug)]
pub(crate) struct Cache<K> {
    held: HashMap<K, (u64, Arc<[u8]>)>,
    bytes: usize,
    room: usize,
    clock: u64,
}

impl<K: Copy + Eq + Hash> Cache<K> {
    pub(crate) fn new(room: usize) -> Cache<K> {
        Cache { held: HashMap::new(), bytes: 0, room, clock: 0 }
    }

    pub(crate) fn get(&mut self, key: K) -> Option<Arc<[u8]>> {
        self.clock += 1;
        let (used, bytes) = self.held.get_mut(&key)?;
        *used = self.clock;
        Some(Arc::clone(bytes))
    }

    pub(crate) fn put(&mut self, key: K, bytes: Arc<[u8]>) {
        self.clock += 1;
        self.bytes += bytes.len();
        if let Some((_, old)) = self.held.insert(key, (self.clock, bytes)) {
            self.bytes -= old.len();
        }
        while self.bytes > self.room && self.held.len() > 1 {
            // A few hundred entries at most: a search is cheaper than a list to keep in order.
            let Some(oldest) = self.held.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| *key) else { break };
            if let Some((_, old)) = self.held.remove(&oldest) {
                self.bytes -= old.len();
            }
        }
    }

    pub(crate) fn forget(&mut self, key: K) {
        if let Some((_, old)) = self.held.remove(&key) {
            self.bytes -= old.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_within_its_room_and_keeps_what_is_used() {
        let mut cache = Cache::new(100);
        for key in 0..50 {
            cache.put(key, vec![0u8; 10].into());
            assert!(cache.get(0).is_some(), "asked for each time, so kept");
            assert!(cache.bytes <= 100);
        }
        assert!(cache.get(30).is_none());
        cache.put(99, vec![0u8; 1000].into());
        assert_eq!(cache.held.len(), 1, "one that is too large is still handed out");
        cache.forget(99);
        assert_eq!(cache.bytes, 0);
    }
}
