//! Elements as values: one list of fields gives the type, its places, how it is read and how it is written.

use crate::bytes::{Codec, WordSize};
use crate::ids::{Site, ThreadRowPlus1, Ticks};

/// A part of an element.
pub(crate) trait Value: Copy + Default {
    /// Bytes that it takes.
    fn bytes(word: WordSize) -> usize;
    /// Reads it; what lies beyond the end of `element` is 0.
    fn get(codec: Codec, element: &[u8], at: usize) -> Self;
    /// Writes it; false if there is no room for all of it.
    fn put(self, codec: Codec, element: &mut [u8], at: usize) -> bool;
}

macro_rules! number {
    ($type:ty, $bytes:literal) => {
        impl Value for $type {
            fn bytes(_: WordSize) -> usize {
                $bytes
            }
            fn get(codec: Codec, element: &[u8], at: usize) -> Self {
                codec.number(element, at, $bytes) as $type
            }
            fn put(self, codec: Codec, element: &mut [u8], at: usize) -> bool {
                codec.put(element, at, $bytes, u64::from(self))
            }
        }
    };
}

number!(u8, 1);
number!(u16, 2);
number!(u32, 4);
number!(u64, 8);

macro_rules! number_of_its_own {
    ($type:ident, $number:ty) => {
        impl Value for $type {
            fn bytes(word: WordSize) -> usize {
                <$number>::bytes(word)
            }
            fn get(codec: Codec, element: &[u8], at: usize) -> Self {
                $type(<$number>::get(codec, element, at))
            }
            fn put(self, codec: Codec, element: &mut [u8], at: usize) -> bool {
                self.0.put(codec, element, at)
            }
        }
    };
}

number_of_its_own!(ThreadRowPlus1, u32);
number_of_its_own!(Site, u32);
number_of_its_own!(Ticks, u64);

/// A number of the ledger's word size; written, it stays at the highest one that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Word(pub u64);

impl Value for Word {
    fn bytes(word: WordSize) -> usize {
        word.bytes()
    }
    fn get(codec: Codec, element: &[u8], at: usize) -> Self {
        Word(codec.word(element, at))
    }
    fn put(self, codec: Codec, element: &mut [u8], at: usize) -> bool {
        let most = u64::MAX >> 64usize.saturating_sub(codec.word.bits());
        codec.put(element, at, codec.word.bytes(), self.0.min(most))
    }
}

impl<V: Value, const N: usize> Value for [V; N]
where
    [V; N]: Default,
{
    fn bytes(word: WordSize) -> usize {
        V::bytes(word).saturating_mul(N)
    }
    fn get(codec: Codec, element: &[u8], at: usize) -> Self {
        let step = V::bytes(codec.word);
        core::array::from_fn(|index| V::get(codec, element, at.saturating_add(index.saturating_mul(step))))
    }
    fn put(self, codec: Codec, element: &mut [u8], at: usize) -> bool {
        let step = V::bytes(codec.word);
        (0usize..).zip(self).fold(true, |whole, (index, value)| {
            value.put(codec, element, at.saturating_add(index.saturating_mul(step))) && whole
        })
    }
}

/// A part of elements with fields, one behind the other.
macro_rules! parts {
    ($(#[$doc:meta])* $name:ident { $( $(#[$field_doc:meta])* $field:ident: $type:ty, )* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
        pub struct $name { $( $(#[$field_doc])* pub $field: $type, )* }

        impl $crate::element::Value for $name {
            fn bytes(word: $crate::WordSize) -> usize {
                let bytes = 0usize;
                $( let bytes = bytes.saturating_add(<$type as $crate::element::Value>::bytes(word)); )*
                bytes
            }
            fn get(codec: $crate::bytes::Codec, element: &[u8], at: usize) -> Self {
                let mut next = at;
                $(
                    let $field = <$type as $crate::element::Value>::get(codec, element, next);
                    next = next.saturating_add(<$type as $crate::element::Value>::bytes(codec.word));
                )*
                let _ = next;
                $name { $( $field, )* }
            }
            fn put(self, codec: $crate::bytes::Codec, element: &mut [u8], at: usize) -> bool {
                let mut whole = true;
                let mut next = at;
                $(
                    whole &= $crate::element::Value::put(self.$field, codec, element, next);
                    next = next.saturating_add(<$type as $crate::element::Value>::bytes(codec.word));
                )*
                let _ = next;
                whole
            }
        }
    };
}

/// An element of a section: [`parts!`] with a commit word, which is 0 while the element is vacant or being written.
macro_rules! published {
    ($(#[$doc:meta])* $name:ident by $commit:ident { $( $(#[$field_doc:meta])* $field:ident: $type:ty, )* }) => {
        $crate::element::parts! { $(#[$doc])* $name { $( $(#[$field_doc])* $field: $type, )* } }

        impl $name {
            /// Bytes of an element.
            pub fn bytes(word: $crate::WordSize) -> usize {
                <$name as $crate::element::Value>::bytes(word)
            }

            /// Where its commit word lies.
            pub fn commit_at(word: $crate::WordSize) -> usize {
                let at = 0usize;
                $(
                    if stringify!($field) == stringify!($commit) {
                        return at;
                    }
                    let at = at.saturating_add(<$type as $crate::element::Value>::bytes(word));
                )*
                at
            }

            /// Reads an element; `None` if it is vacant or being written. What lies beyond its end is 0.
            pub fn read(codec: $crate::bytes::Codec, element: &[u8]) -> Option<$name> {
                let value = <$name as $crate::element::Value>::get(codec, element, 0);
                (value.$commit != Default::default()).then_some(value)
            }

            /// Writes an element, its commit word first to 0 and last to its value. Returns whether there was room for all
            /// of it; what there is no room for is left out.
            pub fn write(&self, codec: $crate::bytes::Codec, element: &mut [u8]) -> bool {
                use $crate::element::Value;
                let hidden = $name { $commit: Default::default(), ..*self };
                let whole = hidden.put(codec, element, 0);
                self.$commit.put(codec, element, $name::commit_at(codec.word)) && whole
            }
        }
    };
}

/// Numbers with names: unknown ones stay numbers.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident: $type:ident { $( $(#[$item_doc:meta])* $id:ident = $number:literal, $text:literal; )* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr($type)]
        pub enum $name { $( $(#[$item_doc])* $id = $number ),* }
        impl $name {
            /// All that this version knows.
            pub const ALL: &'static [$name] = &[$($name::$id),*];
            /// That of this number.
            pub const fn from_number(number: $type) -> Option<$name> {
                match number { $($number => Some($name::$id),)* _ => None }
            }
            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $($name::$id => $text),* }
            }
        }
    };
}

pub(crate) use {named, parts, published};

#[cfg(test)]
mod tests;
