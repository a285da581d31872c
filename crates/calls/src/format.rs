//! Formats of the `printf` family: which of the arguments are texts that are read, and which are places that are written.
#![forbid(unsafe_code)]

/// Arguments of a call, one after the other.
pub(crate) trait Values {
    /// The next one that is a number or an address.
    fn word(&mut self) -> usize;
    /// The next one is a `double`.
    fn double(&mut self);
    /// The next one is a `long double`.
    fn long_double(&mut self);
}

/// What a conversion does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Reads a text, of at most so many bytes that are printed.
    Text { address: usize, most: Option<usize> },
    /// The same of characters of 32 bits.
    WideText { address: usize, most: Option<usize> },
    /// Stores how much was printed so far.
    Count { address: usize, bytes: usize },
}

impl Told {
    /// Where.
    pub(crate) fn address(&self) -> usize {
        match *self {
            Told::Text { address, .. } | Told::WideText { address, .. } | Told::Count { address, .. } => address,
        }
    }
}

/// What an argument is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Nothing,
    Word,
    Double,
    LongDouble,
}

/// A width, or a precision.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Amount {
    None,
    Number(usize),
    /// The next argument says it.
    Next,
    /// The argument of this number does.
    At(usize),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Nothing,
    Text,
    WideText,
    Count(usize),
}

/// A part of a format that begins with `%`.
#[derive(Clone, Copy)]
struct Conversion {
    /// The number of its argument; 0: the next one.
    position: usize,
    width: Amount,
    precision: Amount,
    class: Class,
    does: Does,
}

const PERCENT: u32 = b'%' as u32;

/// A format, of which `unit` gives each character; what follows its end is 0.
struct Format<'f, F: Fn(usize) -> u32> {
    unit: &'f F,
    at: usize,
}

impl<F: Fn(usize) -> u32> Format<'_, F> {
    /// The character here, if it is one of 7 bits.
    #[inline(always)]
    fn here(&self) -> u8 {
        u8::try_from((self.unit)(self.at)).unwrap_or(u8::MAX)
    }

    #[inline(always)]
    fn step(&mut self) {
        self.at = self.at.saturating_add(1);
    }

    #[inline(always)]
    fn takes(&mut self, wanted: u8) -> bool {
        let is_it = self.here() == wanted;
        if is_it {
            self.step();
        }
        is_it
    }

    fn number(&mut self) -> Option<usize> {
        let mut number = None;
        while self.here().is_ascii_digit() {
            let digit = usize::from(self.here().wrapping_sub(b'0'));
            number = Some(number.unwrap_or(0usize).saturating_mul(10).saturating_add(digit));
            self.step();
        }
        number
    }

    /// A number, if a `$` follows it. Else nothing was read.
    fn position(&mut self) -> Option<usize> {
        let before = self.at;
        let number = self.number();
        if number.is_some_and(|number| number != 0) && self.takes(b'$') {
            return number;
        }
        self.at = before;
        None
    }

    /// A width, or what follows the dot.
    fn amount(&mut self, otherwise: Amount) -> Amount {
        if self.takes(b'*') {
            return self.position().map_or(Amount::Next, Amount::At);
        }
        self.number().map_or(otherwise, Amount::Number)
    }

    /// The next conversion. `None`: there is none, or one that nobody knows, so that it is not known what follows.
    fn next(&mut self) -> Option<Conversion> {
        loop {
            match (self.unit)(self.at) {
                0 => return None,
                PERCENT => break,
                _ => self.step(),
            }
        }
        self.step();
        let position = self.position().unwrap_or(0);
        while matches!(self.here(), b'-' | b'+' | b' ' | b'#' | b'0' | b'\'' | b'I') {
            self.step();
        }
        let width = self.amount(Amount::None);
        let precision = if self.takes(b'.') { self.amount(Amount::Number(0)) } else { Amount::None };
        let (mut halves, mut longs, mut is_largest, mut is_long_double) = (0u8, 0u8, false, false);
        loop {
            match self.here() {
                b'h' => halves = halves.saturating_add(1),
                b'l' => longs = longs.saturating_add(1),
                b'L' | b'q' => (longs, is_long_double) = (2, true),
                b'j' | b'z' | b'Z' | b't' => is_largest = true,
                _ => break,
            }
            self.step();
        }
        let counted = match (halves, longs) {
            _ if is_largest => 8,
            (0, 0) => 4,
            (0, _) => 8,
            (1, _) => 2,
            _ => 1,
        };
        let letter = self.here();
        self.step();
        let (class, does) = match letter {
            b'%' | b'm' => (Class::Nothing, Does::Nothing),
            b'd' | b'i' | b'o' | b'u' | b'x' | b'X' | b'b' | b'B' | b'c' | b'C' | b'p' => (Class::Word, Does::Nothing),
            b's' if longs == 0 => (Class::Word, Does::Text),
            b's' | b'S' => (Class::Word, Does::WideText),
            b'n' => (Class::Word, Does::Count(counted)),
            b'a' | b'A' | b'e' | b'E' | b'f' | b'F' | b'g' | b'G' if is_long_double || longs > 1 => {
                (Class::LongDouble, Does::Nothing)
            }
            b'a' | b'A' | b'e' | b'E' | b'f' | b'F' | b'g' | b'G' => (Class::Double, Does::Nothing),
            _ => return None,
        };
        Some(Conversion { position, width, precision, class, does })
    }
}

/// Tells of all that a format reads and writes, given its arguments. Of a format with a conversion that nobody knows, what comes
/// before that.
pub(crate) fn each<F: Fn(usize) -> u32>(unit: &F, values: &mut impl Values, tell: &mut impl FnMut(Told)) {
    let mut format = Format { unit, at: 0 };
    while let Some(conversion) = format.next() {
        if conversion.position != 0 || matches!(conversion.width, Amount::At(_)) {
            return each_by_number(unit, values, tell);
        }
        if conversion.width == Amount::Next {
            values.word();
        }
        let precision = match conversion.precision {
            Amount::Next => limit(values.word()),
            Amount::Number(number) => Some(number),
            _ => None,
        };
        match conversion.class {
            Class::Nothing => {}
            Class::Word => told(&conversion, values.word(), precision, tell),
            Class::Double => values.double(),
            Class::LongDouble => values.long_double(),
        }
    }
}

/// The precision that an argument says: none if it is below 0.
fn limit(word: usize) -> Option<usize> {
    usize::try_from(word as i32).ok()
}

fn told(conversion: &Conversion, address: usize, most: Option<usize>, tell: &mut impl FnMut(Told)) {
    match conversion.does {
        Does::Nothing => {}
        Does::Text => tell(Told::Text { address, most }),
        Does::WideText => tell(Told::WideText { address, most }),
        Does::Count(bytes) => tell(Told::Count { address, bytes }),
    }
}

/// The same where arguments are chosen by their numbers. They can only be read one after the other, each as what it is.
fn each_by_number<F: Fn(usize) -> u32>(unit: &F, values: &mut impl Values, tell: &mut impl FnMut(Told)) {
    const NUMBERS: usize = 32;
    let mut classes = [Class::Nothing; NUMBERS];
    let mut note = |number: usize, class: Class| {
        let place = number.checked_sub(1).and_then(|index| classes.get_mut(index));
        place.map(|place| *place = class).is_some()
    };
    let mut format = Format { unit, at: 0 };
    while let Some(conversion) = format.next() {
        let amounts = [conversion.width, conversion.precision].iter().all(|amount| match *amount {
            Amount::At(number) => note(number, Class::Word),
            Amount::Next => false,
            _ => true,
        });
        let is_noted = conversion.class == Class::Nothing || note(conversion.position, conversion.class);
        if !amounts || !is_noted {
            return; // too many, or some by number and some not
        }
    }
    let used = classes.iter().rposition(|class| *class != Class::Nothing).map_or(0, |last| last.saturating_add(1));
    let mut all = [0; NUMBERS];
    for (place, class) in all.iter_mut().zip(classes).take(used) {
        match class {
            // One that nobody uses is taken for an `int`.
            Class::Word | Class::Nothing => *place = values.word(),
            Class::Double => values.double(),
            Class::LongDouble => values.long_double(),
        }
    }
    let value = |number: usize| number.checked_sub(1).and_then(|index| all.get(index)).copied().unwrap_or(0);
    let mut format = Format { unit, at: 0 };
    while let Some(conversion) = format.next() {
        let precision = match conversion.precision {
            Amount::At(number) => limit(value(number)),
            Amount::Number(number) => Some(number),
            _ => None,
        };
        told(&conversion, value(conversion.position), precision, tell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    /// Words from 1000 on; vectors and stack are counted.
    #[derive(Default)]
    struct Counted {
        words: usize,
        doubles: usize,
        long_doubles: usize,
        /// What a word is in place of its number.
        instead: Vec<(usize, usize)>,
    }

    impl Values for Counted {
        fn word(&mut self) -> usize {
            let number = 1000 + self.words;
            self.words += 1;
            self.instead.iter().find(|(which, _)| *which == number).map_or(number, |(_, other)| *other)
        }

        fn double(&mut self) {
            self.doubles += 1;
        }

        fn long_double(&mut self) {
            self.long_doubles += 1;
        }
    }

    fn told_with(format: &str, mut values: Counted) -> (Vec<Told>, [usize; 3]) {
        let units: Vec<u32> = format.chars().map(u32::from).collect();
        let mut all = Vec::new();
        each(&|index| units.get(index).copied().unwrap_or(0), &mut values, &mut |told| all.push(told));
        (all, [values.words, values.doubles, values.long_doubles])
    }

    fn told_of(format: &str) -> (Vec<Told>, [usize; 3]) {
        told_with(format, Counted::default())
    }

    fn text(address: usize) -> Told {
        Told::Text { address, most: None }
    }

    #[test]
    fn texts_are_told_with_what_is_printed_of_them() {
        assert_eq!(told_of("nothing %% %m"), (vec![], [0, 0, 0]));
        assert_eq!(told_of("%s"), (vec![text(1000)], [1, 0, 0]));
        assert_eq!(told_of("%-20s|%s"), (vec![text(1000), text(1001)], [2, 0, 0]));
        assert_eq!(told_of("%.5s"), (vec![Told::Text { address: 1000, most: Some(5) }], [1, 0, 0]));
        assert_eq!(told_of("%.s").0, [Told::Text { address: 1000, most: Some(0) }]);
        let starred = Counted { instead: vec![(1000, 7)], ..Counted::default() };
        assert_eq!(told_with("%.*s", starred).0, [Told::Text { address: 1001, most: Some(7) }]);
        let below = Counted { instead: vec![(1001, -3i32 as u32 as usize)], ..Counted::default() };
        assert_eq!(told_with("%*.*s", below).0, [text(1002)]);
        assert_eq!(told_of("%ls").0, [Told::WideText { address: 1000, most: None }]);
        assert_eq!(told_of("%.3S").0, [Told::WideText { address: 1000, most: Some(3) }]);
        assert_eq!(told_of("%hs").0, [text(1000)]);
    }

    #[test]
    fn arguments_are_counted_as_what_they_are() {
        assert_eq!(told_of("%d %5.2f %Lf %c %p %zu %s"), (vec![text(1004)], [5, 1, 1]));
        assert_eq!(told_of("%lld %llf %e %g %a %hhx %jd %td").1, [4, 3, 1]);
        assert_eq!(told_of("%*d %-0*x %s").0, [text(1004)]);
        assert_eq!(told_of("%'d %I64d").1[0], 2);
    }

    #[test]
    fn places_are_told_with_their_bytes() {
        for (format, bytes) in [("%n", 4), ("%hn", 2), ("%hhn", 1), ("%ln", 8), ("%lln", 8), ("%jn", 8), ("%zn", 8)] {
            assert_eq!(told_of(format).0, [Told::Count { address: 1000, bytes }], "{format}");
        }
        assert_eq!(told_of("%d%s%n").0, [text(1001), Told::Count { address: 1002, bytes: 4 }]);
    }

    #[test]
    fn arguments_are_chosen_by_number() {
        assert_eq!(told_of("%2$s %1$s").0, [text(1001), text(1000)]);
        assert_eq!(told_of("%3$s %1$d"), (vec![text(1002)], [3, 0, 0]));
        assert_eq!(told_of("%2$s %1$f"), (vec![text(1000)], [1, 1, 0]));
        assert_eq!(told_of("%1$s %1$s").0, [text(1000), text(1000)]);
        let starred = Counted { instead: vec![(1001, 9)], ..Counted::default() };
        assert_eq!(told_with("%1$.*2$s", starred).0, [Told::Text { address: 1000, most: Some(9) }]);
        assert_eq!(told_of("%2$*1$s %% %m").0, [text(1001)]);
        // Some by number and some not, or more than anybody uses.
        assert_eq!(told_of("%1$s %s").0, []);
        assert_eq!(told_of("%40$s").0, []);
        assert_eq!(told_of("%0$s").0, []);
    }

    #[test]
    fn what_follows_an_unknown_conversion_is_not_told() {
        assert_eq!(told_of("%s %k %s").0, [text(1000)]);
        assert_eq!(told_of("%w32d %s").0, []);
        for cut in ["%", "%l", "%.", "%*", "%1$", "%-", "abc%5.2"] {
            assert_eq!(told_of(cut).0, [], "{cut}");
        }
        assert_eq!(told_of("%99999999999999999999999s").0, [text(1000)]);
    }
}
