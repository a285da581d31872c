//! What stands in a module's dynamic section.

/// The value of an entry.
pub(super) fn find_in_dynamic(first: *const [usize; 2], tag: usize) -> Option<usize> {
    dynamic_entries(first).find(|entry| entry[0] == tag).map(|entry| entry[1])
}

/// Its entries, tag and value; none if there is no section.
pub(super) fn dynamic_entries(first: *const [usize; 2]) -> impl Iterator<Item = [usize; 2]> {
    let mut at = first;
    core::iter::from_fn(move || {
        // SAFETY: the dynamic section ends with an entry whose tag is 0.
        let entry = (!at.is_null()).then(|| unsafe { *at }).filter(|entry| entry[0] != 0)?;
        at = at.wrapping_add(1);
        Some(entry)
    })
}
