//! Which fields stand in objects of JSON, and in which order.

use std::sync::LazyLock;

use super::{Field, JsonUse, place, placed};

/// What an object of JSON tells of a block or an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonObject {
    /// A block: all that is told of it.
    Block,
    /// An event: all that is told of it and of its block.
    Event,
    /// The block of a life, without what its allocation and its free have of their own.
    Life,
    /// What the allocation or the free of a block has of its own.
    End,
    /// The same, and how long ago that was.
    AgedEnd,
}

static JSON: LazyLock<[Vec<(Field, &'static str)>; 5]> = LazyLock::new(|| {
    let of = |which: usize, wanted: fn(bool) -> bool| {
        placed(|_, row| {
            let JsonUse { places: [block, event], key, .. } = *row.json.as_ref()?;
            let is_there = wanted(row.is_own) && (which == 0 || event != 0) && (which == 1 || block != 0);
            place(if which == 1 { event } else { block }, key).filter(|_| is_there)
        })
    };
    [of(0, |_| true), of(1, |_| true), of(0, |own| !own), of(2, |own| own), of(0, |own| own)]
});

impl Field {
    /// The fields of an object of JSON with their keys, in its order.
    pub fn of_json(object: JsonObject) -> &'static [(Field, &'static str)] {
        &JSON[object as usize]
    }
}
