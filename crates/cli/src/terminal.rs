//! What is known of the terminal and the locale, and the way that text takes to them.
//!
//! Text goes to standard output; in ASCII if the locale demands it, and through a pager if it is longer than the
//! screen. Data (JSON, CSV) is for programs and goes out as it is.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::thread;
use std::time::Duration;

use heapledger_report::{AsciiWriter, Net, Paint, clean};
use terminal_size::{Height, Width, terminal_size_of};

use self::out::Out;
pub(crate) use self::out::stdout;
use self::pager::Pager;
pub(crate) use self::progress::Progress;
pub(crate) use self::told::Told;
pub(crate) use self::transfer::Transfers;

mod out;
mod pager;
mod progress;
mod told;
mod transfer;

/// Columns where nobody says how many there are: files and pipes.
const WIDTH: usize = 100;
/// Narrower terminals are written to as if they were so wide.
const WIDTH_MIN: usize = 20;
/// Bytes that are written at a time.
const BUFFER: usize = 1 << 16;

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Color {
    /// Whether escape sequences may be written to standard output.
    pub(crate) fn is_on(self) -> bool {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        match self {
            Color::Always => true,
            Color::Never => false,
            Color::Auto if set("NO_COLOR").is_some() => false,
            Color::Auto if set("CLICOLOR_FORCE").is_some_and(|value| value != "0") => true,
            Color::Auto if set("CLICOLOR").is_some_and(|value| value == "0") => false,
            Color::Auto => io::stdout().is_terminal() && !is_dumb(),
        }
    }

    /// How text is emphasized and what it may be drawn with, and whether bytes are written without units.
    pub(crate) fn paint(self, exact_bytes: bool) -> Paint {
        Paint {
            on: self.is_on(),
            ascii: !is_utf8(),
            columns: size().map_or(0, |(columns, _)| columns),
            exact_bytes,
            full_names: false,
        }
    }
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Columns and lines of the terminal that standard output is, if it is one and tells.
pub(crate) fn size() -> Option<(usize, usize)> {
    let (Width(width), Height(height)) = terminal_size_of(io::stdout())?;
    // A terminal that nobody has given a size says zero.
    (width != 0 && height != 0).then_some((usize::from(width), usize::from(height)))
}

/// Columns that text may take: the terminal's, else what `COLUMNS` says, else 100.
pub(crate) fn width() -> usize {
    let told = || std::env::var("COLUMNS").ok()?.trim().parse().ok().filter(|width| *width != 0);
    size().map(|(width, _)| width).or_else(told).unwrap_or(WIDTH).max(WIDTH_MIN)
}

/// Columns of the terminal that standard error is, if it is one.
pub(crate) fn stderr_width() -> usize {
    terminal_size_of(io::stderr()).map_or(WIDTH, |(Width(width), _)| usize::from(width)).max(WIDTH_MIN)
}

/// Whether text may hold more than ASCII, by `LC_ALL`, `LC_CTYPE` and `LANG`. Where none is set, the locale is C.
pub(crate) fn is_utf8() -> bool {
    locale_is_utf8(|name| std::env::var_os(name))
}

fn locale_is_utf8(get: impl Fn(&str) -> Option<OsString>) -> bool {
    // The first that is set decides; an empty one counts as not set.
    let locale =
        ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| get(name).filter(|value| !value.is_empty()));
    let locale = locale.map(|locale| locale.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    // `de_DE.UTF-8@euro`: language, character set, modifier.
    let set =
        locale.split('@').next().and_then(|locale| locale.split_once('.')).map_or(locale.as_str(), |(_, set)| set);
    matches!(set, "utf-8" | "utf8")
}

/// A text of ours as the locale can show it.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if is_utf8() { Cow::Borrowed(text) } else { heapledger_report::ascii(text) }
}

/// Says something on standard error, whatever is in it. One write, so that it is not torn apart by what a program prints; where it cannot be
/// said there is nowhere to say that. (A program may have made it a file that does not wait: node does.)
pub(crate) fn tell(text: &str) {
    const TRIES: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(50);
    let mut through = Vec::with_capacity(text.len() + 16);
    let mut net = Net::new(&mut through, false);
    let _ = net.write_all(plain(text).as_bytes()).and_then(|()| net.end());
    let (mut rest, mut tries) = (through.as_slice(), 0);
    while !rest.is_empty() && tries < TRIES {
        match io::stderr().write(rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(problem) if problem.kind() == io::ErrorKind::WouldBlock => thread::sleep(PAUSE),
            // Once more: what was only for a moment is over.
            Err(_) => tries += TRIES / 2 - 1,
        }
        tries += 1;
    }
}

/// Writes over the last line of standard error, which is a terminal; without text it is emptied.
pub(crate) fn renew(text: &str) {
    let _ = io::stderr().write_all(format!("\r\x1b[K{}", clean(&plain(text))).as_bytes());
}

/// What may be written to standard error; it has columns if that is a terminal.
pub(crate) fn stderr_paint(exact_bytes: bool) -> Paint {
    let columns = terminal_size_of(io::stderr()).map_or(0, |(Width(width), _)| usize::from(width));
    Paint { ascii: !is_utf8(), columns, exact_bytes, ..Paint::default() }
}

/// Sentences for standard error, broken between words where a terminal would break them anywhere. Lines that begin with
/// a space belong together with others and stay.
pub(crate) fn broken(text: &str, paint: Paint) -> String {
    let line = |line: &str| if line.starts_with(' ') { line.to_owned() } else { paint.lines(line, 0, 2) };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Writes a sentence to standard output, whatever is in it. That nobody reads it is no failure.
pub(crate) fn line(text: &str) -> io::Result<()> {
    print(&format!("{}\n", broken(&clean(text), Color::Never.paint(false))))
}

/// Writes text of our own to standard output, likewise.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = stdout();
    match out.write_all(plain(text).as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Standard output, as a report wants it. When dropped, a pager is waited for.
pub(crate) struct Output(Encoding);

enum Encoding {
    AsIs(Stream),
    Ascii(Net<AsciiWriter<Stream>>),
    Text(Net<Stream>),
}

enum Stream {
    /// Standard output.
    Direct(BufWriter<Out>),
    /// To a terminal: it goes through the pager if it gets longer than the screen.
    Paged(Box<Pager>),
}

/// Whether a pager may come between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paging {
    Allowed,
    Never,
}

impl Output {
    /// For people: as the locale demands, and through `pager` if there is a terminal. Nothing
    /// that steers a terminal goes through, but for emphasis if `colour` is on.
    pub(crate) fn text(pager: Paging, colour: bool) -> Output {
        let terminal = io::stdout().is_terminal() && !is_dumb();
        let stream = match Pager::new().filter(|_| pager == Paging::Allowed && terminal) {
            Some(pager) => Stream::Paged(Box::new(pager)),
            None => Stream::direct(),
        };
        Output(match is_utf8() {
            true => Encoding::Text(Net::new(stream, colour)),
            false => Encoding::Ascii(Net::new(AsciiWriter::new(stream), colour)),
        })
    }

    /// For programs: the bytes as they are.
    pub(crate) fn data() -> Output {
        Output(Encoding::AsIs(Stream::direct()))
    }

    /// For records as somebody wants them: what steers in a template of a person's own was asked for. What comes from
    /// outside is clean before.
    pub(crate) fn open(mut self) -> Output {
        match &mut self.0 {
            Encoding::AsIs(_) => {}
            Encoding::Ascii(net) => net.open(),
            Encoding::Text(net) => net.open(),
        }
        self
    }

    fn writer(&mut self) -> &mut dyn Write {
        match &mut self.0 {
            Encoding::AsIs(stream) => stream,
            Encoding::Ascii(writer) => writer,
            Encoding::Text(writer) => writer,
        }
    }
}

impl Stream {
    fn direct() -> Stream {
        Stream::Direct(BufWriter::with_capacity(BUFFER, stdout()))
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Direct(out) => out.write(bytes),
            Stream::Paged(pager) => pager.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Direct(out) => out.flush(),
            Stream::Paged(pager) => pager.flush(),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf8(variables: &[(&str, &str)]) -> bool {
        let get = |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| OsString::from(value));
        locale_is_utf8(get)
    }

    #[test]
    fn the_locale_decides() {
        for locale in ["C.UTF-8", "en_US.UTF-8", "de_DE.utf8@euro", "UTF-8", "C.utf8"] {
            assert!(utf8(&[("LANG", locale)]), "{locale}");
        }
        for locale in ["", "C", "POSIX", "de_DE", "de_DE@euro", "de_DE.ISO-8859-15@euro", "zh_CN.GB18030"] {
            assert!(!utf8(&[("LANG", locale)]), "{locale}");
        }
        assert!(!utf8(&[]));
        assert!(!utf8(&[("LC_ALL", "C"), ("LC_CTYPE", "C.UTF-8"), ("LANG", "C.UTF-8")]));
        assert!(utf8(&[("LC_ALL", ""), ("LC_CTYPE", "C.UTF-8"), ("LANG", "C")]));
        assert!(!utf8(&[("LC_CTYPE", "C"), ("LANG", "C.UTF-8")]));
    }
}
