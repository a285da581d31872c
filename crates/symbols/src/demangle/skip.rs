//! How long the parts of a mangled C++ name are: its grammar, without what anything means.

/// Parts inside each other. As deep as the demangler goes.
const DEPTH_MAX: usize = 96;
/// Steps for each byte of a name, all attempts together: types are skipped once for each `sr` around them.
const STEPS_PER_BYTE: usize = 64;

/// Two-letter operators in expressions, by the number of their operands.
const OPERATORS: [&[&[u8; 2]]; 3] = [
    &[b"ps", b"ng", b"ad", b"de", b"co", b"pp", b"mm", b"nt", b"nx", b"sp", b"tw", b"te", b"az", b"sz"],
    &[
        b"pl", b"mi", b"ml", b"dv", b"rm", b"an", b"or", b"eo", b"aS", b"pL", b"mI", b"mL", b"dV", b"rM", b"aN", b"oR",
        b"eO", b"ls", b"rs", b"lS", b"rS", b"eq", b"ne", b"lt", b"gt", b"le", b"ge", b"ss", b"aa", b"oo", b"cm", b"pm",
        b"pt", b"dt", b"ds", b"ix",
    ],
    &[b"qu"],
];

/// Walks over a mangled name.
pub(super) struct Skipper<'t> {
    pub(super) text: &'t [u8],
    pub(super) at: usize,
    steps: usize,
}

impl<'t> Skipper<'t> {
    pub(super) fn new(mangled: &'t str) -> Self {
        Skipper { text: mangled.as_bytes(), at: 0, steps: mangled.len() * STEPS_PER_BYTE }
    }

    pub(super) fn rest(&self) -> &[u8] {
        self.text.get(self.at..).unwrap_or(&[])
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    pub(super) fn take(&mut self, piece: &[u8]) -> Option<()> {
        self.rest().starts_with(piece).then(|| self.at += piece.len())
    }

    pub(super) fn step(&mut self, depth: usize) -> Option<()> {
        self.steps = self.steps.checked_sub(1)?;
        (depth < DEPTH_MAX).then_some(())
    }

    /// A name behind a scope, perhaps with template arguments.
    pub(super) fn base_name(&mut self, depth: usize) -> Option<()> {
        if self.take(b"on").is_some() {
            self.operator()?;
        } else if self.take(b"dn").is_some() {
            match self.peek()? {
                b'0'..=b'9' => self.source_name()?,
                _ => self.type_(depth)?,
            }
        } else {
            self.source_name()?;
        }
        self.maybe_arguments(depth)
    }

    fn number(&mut self) -> Option<usize> {
        let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = std::str::from_utf8(self.rest().get(..digits)?).ok()?;
        let number = text.parse().ok()?;
        self.at += digits;
        Some(number)
    }

    /// `5value`.
    pub(super) fn source_name(&mut self) -> Option<()> {
        let length = self.number()?;
        let name = self.rest().get(..length)?;
        let is_name = name.first().is_some_and(|first| !first.is_ascii_digit());
        is_name.then(|| self.at += length)
    }

    /// `S_`, `S1Z_`, `T_`, `T12_`; `TL0__`.
    pub(super) fn back_reference(&mut self) -> Option<()> {
        let is_parameter = self.peek() == Some(b'T');
        self.at += 1;
        if is_parameter && self.take(b"L").is_some() {
            self.number()?;
            self.take(b"_")?;
        }
        let is_digit = |byte: &u8| byte.is_ascii_digit() || !is_parameter && byte.is_ascii_uppercase();
        self.at += self.rest().iter().take_while(|byte| is_digit(byte)).count();
        self.take(b"_")
    }

    /// `Li5E`, `LN1a1bE2E`, `LDnE`, `L_Z1fvE`.
    pub(super) fn literal(&mut self, depth: usize) -> Option<()> {
        self.step(depth)?;
        self.take(b"L")?;
        if self.take(b"_Z").is_some() {
            self.encoding(depth + 1)?;
            return self.take(b"E");
        }
        self.type_(depth + 1)?;
        let is_value = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_lowercase() || *byte == b'_';
        self.at += self.rest().iter().take_while(|byte| is_value(byte)).count();
        self.take(b"E")
    }

    fn maybe_arguments(&mut self, depth: usize) -> Option<()> {
        if self.peek() == Some(b'I') { self.arguments(depth) } else { Some(()) }
    }

    /// `I…E`, or a pack `J…E`.
    fn arguments(&mut self, depth: usize) -> Option<()> {
        self.step(depth)?;
        self.at += 1;
        while self.take(b"E").is_none() {
            match self.peek()? {
                b'J' => self.arguments(depth + 1)?,
                _ => self.argument(depth + 1)?,
            }
        }
        Some(())
    }

    fn argument(&mut self, depth: usize) -> Option<()> {
        match self.peek()? {
            b'L' => self.literal(depth),
            b'X' => {
                self.at += 1;
                self.expression(depth)?;
                self.take(b"E")
            }
            _ => self.type_(depth),
        }
    }

    pub(super) fn type_(&mut self, depth: usize) -> Option<()> {
        self.step(depth)?;
        let inner = depth + 1;
        match self.peek()? {
            b'r' | b'V' | b'K' | b'P' | b'R' | b'O' | b'C' | b'G' => {
                self.at += 1;
                self.type_(inner)
            }
            b'0'..=b'9' => {
                self.source_name()?;
                self.maybe_arguments(inner)
            }
            b'N' => self.nested(inner),
            b'Z' => self.local(inner),
            b'S' => {
                self.standard_or_back(inner)?;
                self.maybe_arguments(inner)
            }
            b'T' => {
                if self.take(b"Ts").or_else(|| self.take(b"Tu")).or_else(|| self.take(b"Te")).is_some() {
                    return self.type_(inner);
                }
                self.back_reference()?;
                self.maybe_arguments(inner)
            }
            b'D' => self.longer_type(inner),
            b'F' => self.function(inner),
            b'A' => {
                self.at += 1;
                if self.take(b"_").is_none() {
                    if self.peek()?.is_ascii_digit() {
                        self.number()?;
                    } else {
                        self.expression(inner)?;
                    }
                    self.take(b"_")?;
                }
                self.type_(inner)
            }
            b'M' => {
                self.at += 1;
                self.type_(inner)?;
                self.type_(inner)
            }
            b'U' if self.rest().get(1).is_some_and(u8::is_ascii_digit) => {
                self.at += 1;
                self.source_name()?;
                self.maybe_arguments(inner)?;
                self.type_(inner)
            }
            b'U' => self.unqualified(inner),
            b'u' => {
                self.at += 1;
                self.source_name()?;
                self.maybe_arguments(inner)
            }
            letter if b"vwbcahstijlmxynofdegz".contains(&letter) => {
                self.at += 1;
                Some(())
            }
            _ => None,
        }
    }

    /// Types of two letters and those that begin like them.
    fn longer_type(&mut self, depth: usize) -> Option<()> {
        let [_, second, ..] = *self.rest() else { return None };
        self.at += 2;
        match second {
            b'p' | b'o' | b'x' => self.type_(depth),
            b't' | b'T' => {
                self.expression(depth)?;
                self.take(b"E")?;
                self.maybe_arguments(depth)
            }
            b'v' => {
                if self.peek()?.is_ascii_digit() {
                    self.number()?;
                } else {
                    self.take(b"_")?;
                    self.expression(depth)?;
                }
                self.take(b"_")?;
                self.type_(depth)
            }
            b'F' => {
                self.number()?;
                self.take(b"_").or_else(|| self.take(b"b")).or_else(|| self.take(b"x"))
            }
            b'O' => {
                self.expression(depth)?;
                self.take(b"E")?;
                self.type_(depth)
            }
            b'w' => {
                while self.take(b"E").is_none() {
                    self.type_(depth)?;
                }
                self.type_(depth)
            }
            letter => b"defhisuacn".contains(&letter).then_some(()),
        }
    }

    /// `FvP1xE`.
    fn function(&mut self, depth: usize) -> Option<()> {
        self.take(b"F")?;
        let _ = self.take(b"Y");
        loop {
            if self.take(b"E").or_else(|| self.take(b"RE")).or_else(|| self.take(b"OE")).is_some() {
                return Some(());
            }
            self.type_(depth)?;
        }
    }

    /// `St6vector`, `Sa`, `S0_`.
    fn standard_or_back(&mut self, depth: usize) -> Option<()> {
        match self.rest().get(1)? {
            b't' => {
                self.at += 2;
                self.unqualified(depth)
            }
            b'a' | b'b' | b's' | b'i' | b'o' | b'd' => {
                self.at += 2;
                Some(())
            }
            _ => self.back_reference(),
        }
    }

    /// `N…E`.
    fn nested(&mut self, depth: usize) -> Option<()> {
        self.take(b"N")?;
        while self.peek().is_some_and(|byte| b"rVKROH".contains(&byte)) {
            self.at += 1;
        }
        while self.take(b"E").is_none() {
            self.step(depth)?;
            match self.peek()? {
                b'I' => self.arguments(depth)?,
                b'S' if self.rest().get(1) == Some(&b't') => self.at += 2,
                b'S' => self.standard_or_back(depth)?,
                b'T' => self.back_reference()?,
                b'D' if matches!(self.rest().get(1), Some(b't' | b'T')) => self.type_(depth)?,
                // The name of a member that a closure initializes ends so.
                b'M' => self.at += 1,
                _ => self.unqualified(depth)?,
            }
        }
        Some(())
    }

    /// One name in a scope, without template arguments.
    fn unqualified(&mut self, depth: usize) -> Option<()> {
        let _ = self.take(b"L");
        match self.peek()? {
            b'0'..=b'9' => self.source_name()?,
            b'C' | b'D' if self.rest().get(1).is_some_and(u8::is_ascii_digit) => self.at += 2,
            b'C' if self.rest().get(1) == Some(&b'I') => {
                self.at += 3;
                self.type_(depth)?;
            }
            b'D' if self.take(b"DC").is_some() => {
                while self.take(b"E").is_none() {
                    self.source_name()?;
                }
            }
            b'U' if self.take(b"Ut").is_some() => self.numbered()?,
            b'U' if self.take(b"Ul").is_some() => {
                while self.take(b"E").is_none() {
                    self.type_(depth)?;
                }
                self.numbered()?;
            }
            b'a'..=b'z' => {
                if self.take(b"cv").is_some() {
                    self.type_(depth)?;
                } else if self.take(b"li").is_some() {
                    self.source_name()?;
                } else {
                    self.operator()?;
                }
            }
            _ => return None,
        }
        while self.take(b"B").is_some() {
            self.source_name()?;
        }
        Some(())
    }

    /// `_`, `3_`.
    fn numbered(&mut self) -> Option<()> {
        if self.peek()?.is_ascii_digit() {
            self.number()?;
        }
        self.take(b"_")
    }

    fn operator(&mut self) -> Option<()> {
        let [first, second, ..] = *self.rest() else { return None };
        (first.is_ascii_lowercase() && second.is_ascii_alphabetic()).then(|| self.at += 2)
    }

    /// `Z1fvE1x`, `Z1fvEs`.
    fn local(&mut self, depth: usize) -> Option<()> {
        self.take(b"Z")?;
        self.encoding(depth)?;
        self.take(b"E")?;
        if self.take(b"s").is_none() {
            if self.take(b"d").is_some() {
                self.numbered()?;
            }
            self.name(depth)?;
        }
        // Which of several of that name.
        if self.take(b"__").is_some() {
            self.number()?;
            self.take(b"_")?;
        } else if self.rest().starts_with(b"_") && self.rest().get(1).is_some_and(u8::is_ascii_digit) {
            self.at += 2;
        }
        Some(())
    }

    fn name(&mut self, depth: usize) -> Option<()> {
        match self.peek()? {
            b'N' => self.nested(depth)?,
            b'Z' => self.local(depth)?,
            b'S' => self.standard_or_back(depth)?,
            _ => self.unqualified(depth)?,
        }
        self.maybe_arguments(depth)
    }

    /// A function with its types.
    fn encoding(&mut self, depth: usize) -> Option<()> {
        self.step(depth)?;
        self.name(depth + 1)?;
        while !matches!(self.peek()?, b'E' | b'.') {
            self.type_(depth + 1)?;
        }
        Some(())
    }

    fn expression(&mut self, depth: usize) -> Option<()> {
        self.step(depth)?;
        let inner = depth + 1;
        match self.peek()? {
            b'L' => return self.literal(inner),
            b'T' => return self.back_reference(),
            b'X' => {
                self.at += 1;
                self.expression(inner)?;
                return self.take(b"E");
            }
            b'0'..=b'9' => return self.base_name(inner),
            b'f' if matches!(self.rest().get(1), Some(b'p' | b'L')) => return self.function_parameter(),
            b'f' if matches!(self.rest().get(1), Some(b'l' | b'r' | b'R')) => {
                let operands = if self.rest().get(1) == Some(&b'R') { 2 } else { 1 };
                self.at += 2;
                self.operator()?;
                return (0..operands).try_for_each(|_| self.expression(inner));
            }
            _ => {}
        }
        if self.rest().starts_with(b"sr") {
            return self.member(inner).map(|_| ());
        }
        let _ = self.take(b"gs");
        let two: [u8; 2] = self.rest().get(..2)?.try_into().ok()?;
        match &two {
            b"on" | b"dn" => self.base_name(inner),
            b"st" | b"ti" | b"at" => {
                self.at += 2;
                self.type_(inner)
            }
            b"sZ" => {
                self.at += 2;
                if self.peek()? == b'T' { self.back_reference() } else { self.function_parameter() }
            }
            b"cl" | b"il" | b"cp" => {
                self.at += 2;
                self.expressions(inner)
            }
            b"tl" => {
                self.at += 2;
                self.type_(inner)?;
                self.expressions(inner)
            }
            b"cv" => {
                self.at += 2;
                self.type_(inner)?;
                if self.take(b"_").is_some() { self.expressions(inner) } else { self.expression(inner) }
            }
            b"sc" | b"cc" | b"dc" | b"rc" => {
                self.at += 2;
                self.type_(inner)?;
                self.expression(inner)
            }
            b"sP" => {
                self.at += 2;
                while self.take(b"E").is_none() {
                    self.argument(inner)?;
                }
                Some(())
            }
            b"tr" => {
                self.at += 2;
                Some(())
            }
            _ => {
                let operands = OPERATORS.iter().position(|same| same.contains(&&two))? + 1;
                self.at += 2;
                // `++x` has an underscore, `x++` has none.
                if matches!(&two, b"pp" | b"mm") {
                    let _ = self.take(b"_");
                }
                (0..operands).try_for_each(|_| self.expression(inner))
            }
        }
    }

    /// Up to an `E`.
    fn expressions(&mut self, depth: usize) -> Option<()> {
        while self.take(b"E").is_none() {
            self.expression(depth)?;
        }
        Some(())
    }

    /// `fp_`, `fpK2_`, `fL0p_`, `fpT`.
    fn function_parameter(&mut self) -> Option<()> {
        self.take(b"f")?;
        if self.take(b"pT").is_some() {
            return Some(());
        }
        if self.take(b"L").is_some() {
            self.number()?;
        }
        self.take(b"p")?;
        while self.peek().is_some_and(|byte| b"rVK".contains(&byte)) {
            self.at += 1;
        }
        self.numbered()
    }
}
