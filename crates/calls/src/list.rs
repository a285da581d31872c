//! The one list of functions whose calls are judged, and what their arguments mean. Exports, look-up and judging all follow from it.
//!
//! Only functions that every C library has which the recorder knows (glibc 2.35): one that there is not must not be found by a program
//! that asks for it.

use crate::call::{Call, Direction, Unit};
use crate::measure::ALL;

macro_rules! judged {
    ($($stub:ident $name:ident = $symbol:literal [$($register:ident)*] $judge:expr;)*) => {
        /// The functions.
        #[derive(Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        #[allow(clippy::enum_variant_names, reason = "names of functions")]
        pub(crate) enum Hook { $($name),* }

        /// How many there are.
        pub(crate) const COUNT: usize = [$(Hook::$name),*].len();
        /// Their names, a zero behind each: a table of texts would have to be relocated.
        pub(crate) const NAMES: &str = concat!($($symbol, "\0"),*);

        #[cfg(not(test))]
        mod exports {
            use super::*;
            $(const _: () = { crate::stubs::$stub!($symbol, Hook::$name, [$($register)*], $judge); };)*
        }
    };
}

use Direction::{Read, Write};
use Unit::{Byte, Wide};

/// Bytes of so many characters of 32 bits.
fn wide(units: usize) -> usize {
    units.saturating_mul(4)
}

judged! {
    // Memory.
    before Memcpy = "memcpy" [rdi rsi] |c: &Call| c.copies_apart(0, 1, c.arg(2));
    before Memmove = "memmove" [rdi rsi] |c: &Call| c.copies(0, 1, c.arg(2));
    before Mempcpy = "mempcpy" [rdi rsi] |c: &Call| c.copies_apart(0, 1, c.arg(2));
    before Bcopy = "bcopy" [rdi rsi] |c: &Call| c.copies(1, 0, c.arg(2));
    before Memset = "memset" [rdi] |c: &Call| c.writes(0, c.arg(2));
    before Bzero = "bzero" [rdi] |c: &Call| c.writes(0, c.arg(1));
    before ExplicitBzero = "explicit_bzero" [rdi] |c: &Call| c.writes(0, c.arg(1));
    before Memccpy = "memccpy" [rdi rsi] |c: &Call| c.copies_until(c.arg(3));
    before Memcmp = "memcmp" [rdi rsi] |c: &Call| { c.reads(0, c.arg(2)); c.reads(1, c.arg(2)) };
    before Bcmp = "bcmp" [rdi rsi] |c: &Call| { c.reads(0, c.arg(2)); c.reads(1, c.arg(2)) };
    before Memchr = "memchr" [rdi] |c: &Call| c.finds(c.arg(2), Byte);
    before Rawmemchr = "rawmemchr" [rdi] |c: &Call| c.finds(ALL, Byte);
    before Memrchr = "memrchr" [rdi] |c: &Call| c.reads(0, c.arg(2));
    before Memmem = "memmem" [rdi rdx] |c: &Call| { c.reads(0, c.arg(1)); c.reads(2, c.arg(3)) };
    before Swab = "swab" [rdi rsi] |c: &Call| c.copies(1, 0, usize::try_from(c.arg(2) as isize).unwrap_or(0) & !1);
    before MemcpyChk = "__memcpy_chk" [rdi rsi] |c: &Call| c.copies_apart(0, 1, c.arg(2));
    before MemmoveChk = "__memmove_chk" [rdi rsi] |c: &Call| c.copies(0, 1, c.arg(2));
    before MempcpyChk = "__mempcpy_chk" [rdi rsi] |c: &Call| c.copies_apart(0, 1, c.arg(2));
    before MemsetChk = "__memset_chk" [rdi] |c: &Call| c.writes(0, c.arg(2));
    before ExplicitBzeroChk = "__explicit_bzero_chk" [rdi] |c: &Call| c.writes(0, c.arg(1));

    // Texts.
    before Strlen = "strlen" [rdi] |c: &Call| c.text(0);
    before Strnlen = "strnlen" [rdi] |c: &Call| c.text_up_to(0, c.arg(1), Byte);
    before Strcpy = "strcpy" [rdi rsi] |c: &Call| c.copies_text(0, 1, Byte);
    before Stpcpy = "stpcpy" [rdi rsi] |c: &Call| c.copies_text(0, 1, Byte);
    before Strncpy = "strncpy" [rdi rsi] |c: &Call| c.copies_padded(0, 1, c.arg(2), Byte);
    before Stpncpy = "stpncpy" [rdi rsi] |c: &Call| c.copies_padded(0, 1, c.arg(2), Byte);
    before Strcat = "strcat" [rdi rsi] |c: &Call| c.appends(0, 1, ALL, Byte);
    before Strncat = "strncat" [rdi rsi] |c: &Call| c.appends(0, 1, c.arg(2), Byte);
    before Strdup = "strdup" [rdi] |c: &Call| c.text(0);
    before StrdupOld = "__strdup" [rdi] |c: &Call| c.text(0);
    before Strndup = "strndup" [rdi] |c: &Call| c.text_up_to(0, c.arg(1), Byte);
    before StrndupOld = "__strndup" [rdi] |c: &Call| c.text_up_to(0, c.arg(1), Byte);
    before Strchr = "strchr" [rdi] |c: &Call| c.finds_in_text(Byte);
    before Index = "index" [rdi] |c: &Call| c.finds_in_text(Byte);
    before Strchrnul = "strchrnul" [rdi] |c: &Call| c.finds_in_text(Byte);
    before Strrchr = "strrchr" [rdi] |c: &Call| c.text(0);
    before Rindex = "rindex" [rdi] |c: &Call| c.text(0);
    before Strcmp = "strcmp" [rdi rsi] |c: &Call| c.compares(ALL, Byte, false);
    before Strncmp = "strncmp" [rdi rsi] |c: &Call| c.compares(c.arg(2), Byte, false);
    before Strcasecmp = "strcasecmp" [rdi rsi] |c: &Call| c.compares(ALL, Byte, true);
    before Strncasecmp = "strncasecmp" [rdi rsi] |c: &Call| c.compares(c.arg(2), Byte, true);
    before Strcoll = "strcoll" [rdi rsi] |c: &Call| { c.text(0); c.text(1) };
    before Strstr = "strstr" [rdi rsi] |c: &Call| c.looks_for_text(Byte, false);
    before Strcasestr = "strcasestr" [rdi rsi] |c: &Call| c.looks_for_text(Byte, true);
    before Strspn = "strspn" [rdi rsi] |c: &Call| c.spans_to(false);
    before Strcspn = "strcspn" [rdi rsi] |c: &Call| c.spans_to(true);
    before Strpbrk = "strpbrk" [rdi rsi] |c: &Call| c.spans_to(true);
    before Strtok = "strtok" [rdi rsi] |c: &Call| c.takes_word();
    before StrtokR = "strtok_r" [rdi rsi] |c: &Call| c.takes_word();
    before StrtokROld = "__strtok_r" [rdi rsi] |c: &Call| c.takes_word();
    before Strsep = "strsep" [any] |c: &Call| c.separates();
    before StrcpyChk = "__strcpy_chk" [rdi rsi] |c: &Call| c.copies_text(0, 1, Byte);
    before StpcpyChk = "__stpcpy_chk" [rdi rsi] |c: &Call| c.copies_text(0, 1, Byte);
    before StrncpyChk = "__strncpy_chk" [rdi rsi] |c: &Call| c.copies_padded(0, 1, c.arg(2), Byte);
    before StpncpyChk = "__stpncpy_chk" [rdi rsi] |c: &Call| c.copies_padded(0, 1, c.arg(2), Byte);
    before StrcatChk = "__strcat_chk" [rdi rsi] |c: &Call| c.appends(0, 1, ALL, Byte);
    before StrncatChk = "__strncat_chk" [rdi rsi] |c: &Call| c.appends(0, 1, c.arg(2), Byte);
    does Strtol = "strtol" [rdi rsi] |c: &Call| c.reads_number(Hook::Strtol);
    does Strtoul = "strtoul" [rdi rsi] |c: &Call| c.reads_number(Hook::Strtoul);
    does Strtoll = "strtoll" [rdi rsi] |c: &Call| c.reads_number(Hook::Strtoll);
    does Strtoull = "strtoull" [rdi rsi] |c: &Call| c.reads_number(Hook::Strtoull);
    does Strtoimax = "strtoimax" [rdi rsi] |c: &Call| c.reads_number(Hook::Strtoimax);
    does Strtoumax = "strtoumax" [rdi rsi] |c: &Call| c.reads_number(Hook::Strtoumax);
    does Atoi = "atoi" [rdi] |c: &Call| c.reads_decimal(Hook::Strtol);
    does Atol = "atol" [rdi] |c: &Call| c.reads_decimal(Hook::Strtol);
    does Atoll = "atoll" [rdi] |c: &Call| c.reads_decimal(Hook::Strtoll);

    // Texts of 32 bits.
    before Wcslen = "wcslen" [rdi] |c: &Call| c.wide_text(0);
    before Wcsnlen = "wcsnlen" [rdi] |c: &Call| c.text_up_to(0, c.arg(1), Wide);
    before Wcscpy = "wcscpy" [rdi rsi] |c: &Call| c.copies_text(0, 1, Wide);
    before Wcpcpy = "wcpcpy" [rdi rsi] |c: &Call| c.copies_text(0, 1, Wide);
    before Wcsncpy = "wcsncpy" [rdi rsi] |c: &Call| c.copies_padded(0, 1, c.arg(2), Wide);
    before Wcpncpy = "wcpncpy" [rdi rsi] |c: &Call| c.copies_padded(0, 1, c.arg(2), Wide);
    before Wcscat = "wcscat" [rdi rsi] |c: &Call| c.appends(0, 1, ALL, Wide);
    before Wcsncat = "wcsncat" [rdi rsi] |c: &Call| c.appends(0, 1, c.arg(2), Wide);
    before Wcsdup = "wcsdup" [rdi] |c: &Call| c.wide_text(0);
    before Wcschr = "wcschr" [rdi] |c: &Call| c.finds_in_text(Wide);
    before Wcsrchr = "wcsrchr" [rdi] |c: &Call| c.wide_text(0);
    before Wcscmp = "wcscmp" [rdi rsi] |c: &Call| c.compares(ALL, Wide, false);
    before Wcsncmp = "wcsncmp" [rdi rsi] |c: &Call| c.compares(c.arg(2), Wide, false);
    before Wcsstr = "wcsstr" [rdi rsi] |c: &Call| c.looks_for_text(Wide, false);
    before Wmemset = "wmemset" [rdi] |c: &Call| c.writes(0, wide(c.arg(2)));
    before Wmemcpy = "wmemcpy" [rdi rsi] |c: &Call| c.copies_apart(0, 1, wide(c.arg(2)));
    before Wmempcpy = "wmempcpy" [rdi rsi] |c: &Call| c.copies_apart(0, 1, wide(c.arg(2)));
    before Wmemmove = "wmemmove" [rdi rsi] |c: &Call| c.copies(0, 1, wide(c.arg(2)));
    before Wmemcmp = "wmemcmp" [rdi rsi] |c: &Call| { c.reads(0, wide(c.arg(2))); c.reads(1, wide(c.arg(2))) };
    before Wmemchr = "wmemchr" [rdi] |c: &Call| c.finds(c.arg(2), Wide);
    before WcscpyChk = "__wcscpy_chk" [rdi rsi] |c: &Call| c.copies_text(0, 1, Wide);
    before WcpcpyChk = "__wcpcpy_chk" [rdi rsi] |c: &Call| c.copies_text(0, 1, Wide);
    before WcsncpyChk = "__wcsncpy_chk" [rdi rsi] |c: &Call| c.copies_padded(0, 1, c.arg(2), Wide);
    before WcpncpyChk = "__wcpncpy_chk" [rdi rsi] |c: &Call| c.copies_padded(0, 1, c.arg(2), Wide);
    before WcscatChk = "__wcscat_chk" [rdi rsi] |c: &Call| c.appends(0, 1, ALL, Wide);
    before WcsncatChk = "__wcsncat_chk" [rdi rsi] |c: &Call| c.appends(0, 1, c.arg(2), Wide);
    before WmemsetChk = "__wmemset_chk" [rdi] |c: &Call| c.writes(0, wide(c.arg(2)));
    before WmemcpyChk = "__wmemcpy_chk" [rdi rsi] |c: &Call| c.copies_apart(0, 1, wide(c.arg(2)));
    before WmempcpyChk = "__wmempcpy_chk" [rdi rsi] |c: &Call| c.copies_apart(0, 1, wide(c.arg(2)));
    before WmemmoveChk = "__wmemmove_chk" [rdi rsi] |c: &Call| c.copies(0, 1, wide(c.arg(2)));

    // Files and sockets.
    after Read = "read" [rsi] |c: &Call| c.fills(1, c.arg(2));
    after Pread = "pread" [rsi] |c: &Call| c.fills(1, c.arg(2));
    after Pread64 = "pread64" [rsi] |c: &Call| c.fills(1, c.arg(2));
    after Readv = "readv" [any] |c: &Call| c.parts(c.arg(1), c.arg(2) as u32 as usize, Write);
    after Preadv = "preadv" [any] |c: &Call| c.parts(c.arg(1), c.arg(2) as u32 as usize, Write);
    after Preadv64 = "preadv64" [any] |c: &Call| c.parts(c.arg(1), c.arg(2) as u32 as usize, Write);
    after Recv = "recv" [rsi] |c: &Call| c.fills(1, c.arg(2));
    after Recvfrom = "recvfrom" [rsi] |c: &Call| c.fills(1, c.arg(2));
    after Recvmsg = "recvmsg" [any] |c: &Call| c.message(1, Write);
    after Write = "write" [rsi] |c: &Call| c.empties(1, c.arg(2));
    after Pwrite = "pwrite" [rsi] |c: &Call| c.empties(1, c.arg(2));
    after Pwrite64 = "pwrite64" [rsi] |c: &Call| c.empties(1, c.arg(2));
    after Writev = "writev" [any] |c: &Call| c.parts(c.arg(1), c.arg(2) as u32 as usize, Read);
    after Pwritev = "pwritev" [any] |c: &Call| c.parts(c.arg(1), c.arg(2) as u32 as usize, Read);
    after Pwritev64 = "pwritev64" [any] |c: &Call| c.parts(c.arg(1), c.arg(2) as u32 as usize, Read);
    after Send = "send" [rsi] |c: &Call| c.empties(1, c.arg(2));
    after Sendto = "sendto" [rsi] |c: &Call| c.empties(1, c.arg(2));
    after Sendmsg = "sendmsg" [any] |c: &Call| c.message(1, Read);
    after Readlink = "readlink" [rdi rsi] |c: &Call| { c.text(0); c.fills(1, c.arg(2)) };
    after Readlinkat = "readlinkat" [rsi rdx] |c: &Call| { c.text(1); c.fills(2, c.arg(3)) };
    after Getrandom = "getrandom" [rdi] |c: &Call| c.fills(0, c.arg(1));
    after Getcwd = "getcwd" [rdi] |c: &Call| c.puts_text(0, c.arg(1), Byte);
    after InetNtop = "inet_ntop" [rsi rdx] |c: &Call| c.shows_address();
    after Strftime = "strftime" [rdi rsi rdx] |c: &Call| c.shows_time();
    after ReadChk = "__read_chk" [rsi] |c: &Call| c.fills(1, c.arg(2));
    after PreadChk = "__pread_chk" [rsi] |c: &Call| c.fills(1, c.arg(2));
    after Pread64Chk = "__pread64_chk" [rsi] |c: &Call| c.fills(1, c.arg(2));
    after RecvChk = "__recv_chk" [rsi] |c: &Call| c.fills(1, c.arg(2));
    after RecvfromChk = "__recvfrom_chk" [rsi] |c: &Call| c.fills(1, c.arg(2));
    after ReadlinkChk = "__readlink_chk" [rdi rsi] |c: &Call| { c.text(0); c.fills(1, c.arg(2)) };
    after GetcwdChk = "__getcwd_chk" [rdi] |c: &Call| c.puts_text(0, c.arg(1), Byte);

    // Streams.
    after Fread = "fread" [rdi] |c: &Call| c.fills_items(0, 1, 2);
    after FreadUnlocked = "fread_unlocked" [rdi] |c: &Call| c.fills_items(0, 1, 2);
    after FreadChk = "__fread_chk" [rdi] |c: &Call| c.fills_items(0, 2, 3);
    after FreadUnlockedChk = "__fread_unlocked_chk" [rdi] |c: &Call| c.fills_items(0, 2, 3);
    before Fwrite = "fwrite" [rdi] |c: &Call| c.reads(0, c.arg(1).saturating_mul(c.arg(2)));
    before FwriteUnlocked = "fwrite_unlocked" [rdi] |c: &Call| c.reads(0, c.arg(1).saturating_mul(c.arg(2)));
    after Fgets = "fgets" [rdi] |c: &Call| c.puts_text(0, c.arg(1) as u32 as usize, Byte);
    after FgetsUnlocked = "fgets_unlocked" [rdi] |c: &Call| c.puts_text(0, c.arg(1) as u32 as usize, Byte);
    after FgetsChk = "__fgets_chk" [rdi] |c: &Call| c.puts_text(0, c.arg(2) as u32 as usize, Byte);
    after FgetsUnlockedChk = "__fgets_unlocked_chk" [rdi] |c: &Call| c.puts_text(0, c.arg(2) as u32 as usize, Byte);
    after Fgetws = "fgetws" [rdi] |c: &Call| c.puts_text(0, c.arg(1) as u32 as usize, Wide);
    after FgetwsChk = "__fgetws_chk" [rdi] |c: &Call| c.puts_text(0, c.arg(2) as u32 as usize, Wide);
    after Getline = "getline" [any] |c: &Call| c.line(0, 1);
    after Getdelim = "getdelim" [any] |c: &Call| c.line(0, 1);
    after GetdelimOld = "__getdelim" [any] |c: &Call| c.line(0, 1);
    before Fputs = "fputs" [rdi] |c: &Call| c.text(0);
    before FputsUnlocked = "fputs_unlocked" [rdi] |c: &Call| c.text(0);
    before Puts = "puts" [rdi] |c: &Call| c.text(0);
    before Fputws = "fputws" [rdi] |c: &Call| c.wide_text(0);

    // Formats.
    formats Printf = "printf" [any] |c: &Call| c.formats(c.format(0, Byte));
    formats Fprintf = "fprintf" [any] |c: &Call| c.formats(c.format(1, Byte));
    formats Dprintf = "dprintf" [any] |c: &Call| c.formats(c.format(1, Byte));
    formats Sprintf = "sprintf" [any] |c: &Call| c.formats_into(0, ALL, c.format(1, Byte));
    formats Snprintf = "snprintf" [any] |c: &Call| c.formats_into(0, c.arg(1), c.format(2, Byte));
    formats Asprintf = "asprintf" [any] |c: &Call| { c.writes(0, 8); c.formats(c.format(1, Byte)) };
    formats Syslog = "syslog" [any] |c: &Call| c.formats(c.format(1, Byte));
    before Vprintf = "vprintf" [any] |c: &Call| c.formats(c.format_of_list(0, Byte));
    before Vfprintf = "vfprintf" [any] |c: &Call| c.formats(c.format_of_list(1, Byte));
    before Vdprintf = "vdprintf" [any] |c: &Call| c.formats(c.format_of_list(1, Byte));
    before Vsprintf = "vsprintf" [any] |c: &Call| c.formats_into(0, ALL, c.format_of_list(1, Byte));
    before Vsnprintf = "vsnprintf" [any] |c: &Call| c.formats_into(0, c.arg(1), c.format_of_list(2, Byte));
    before Vasprintf = "vasprintf" [any] |c: &Call| { c.writes(0, 8); c.formats(c.format_of_list(1, Byte)) };
    before Vsyslog = "vsyslog" [any] |c: &Call| c.formats(c.format_of_list(1, Byte));
    formats PrintfChk = "__printf_chk" [any] |c: &Call| c.formats(c.format(1, Byte));
    formats FprintfChk = "__fprintf_chk" [any] |c: &Call| c.formats(c.format(2, Byte));
    formats DprintfChk = "__dprintf_chk" [any] |c: &Call| c.formats(c.format(2, Byte));
    formats SprintfChk = "__sprintf_chk" [any] |c: &Call| c.formats_into(0, ALL, c.format(3, Byte));
    formats SnprintfChk = "__snprintf_chk" [any] |c: &Call| c.formats_into(0, c.arg(1), c.format(4, Byte));
    formats AsprintfChk = "__asprintf_chk" [any] |c: &Call| { c.writes(0, 8); c.formats(c.format(2, Byte)) };
    formats SyslogChk = "__syslog_chk" [any] |c: &Call| c.formats(c.format(2, Byte));
    before VprintfChk = "__vprintf_chk" [any] |c: &Call| c.formats(c.format_of_list(1, Byte));
    before VfprintfChk = "__vfprintf_chk" [any] |c: &Call| c.formats(c.format_of_list(2, Byte));
    before VdprintfChk = "__vdprintf_chk" [any] |c: &Call| c.formats(c.format_of_list(2, Byte));
    before VsprintfChk = "__vsprintf_chk" [any] |c: &Call| c.formats_into(0, ALL, c.format_of_list(3, Byte));
    before VsnprintfChk = "__vsnprintf_chk" [any] |c: &Call| c.formats_into(0, c.arg(1), c.format_of_list(4, Byte));
    before VasprintfChk = "__vasprintf_chk" [any] |c: &Call| { c.writes(0, 8); c.formats(c.format_of_list(2, Byte)) };
    before VsyslogChk = "__vsyslog_chk" [any] |c: &Call| c.formats(c.format_of_list(2, Byte));
    formats Wprintf = "wprintf" [any] |c: &Call| c.formats(c.format(0, Wide));
    formats Fwprintf = "fwprintf" [any] |c: &Call| c.formats(c.format(1, Wide));
    formats WprintfChk = "__wprintf_chk" [any] |c: &Call| c.formats(c.format(1, Wide));
    formats FwprintfChk = "__fwprintf_chk" [any] |c: &Call| c.formats(c.format(2, Wide));
    before Vwprintf = "vwprintf" [any] |c: &Call| c.formats(c.format_of_list(0, Wide));
    before Vfwprintf = "vfwprintf" [any] |c: &Call| c.formats(c.format_of_list(1, Wide));
    before VwprintfChk = "__vwprintf_chk" [any] |c: &Call| c.formats(c.format_of_list(1, Wide));
    before VfwprintfChk = "__vfwprintf_chk" [any] |c: &Call| c.formats(c.format_of_list(2, Wide));
    does_formats Swprintf = "swprintf" [any] |c: &Call| c.makes_wide(2, Hook::Vswprintf, c.format(2, Wide));
    does_formats SwprintfChk = "__swprintf_chk" [any] |c: &Call| c.makes_wide(4, Hook::VswprintfChk, c.format(4, Wide));
    does Vswprintf = "vswprintf" [any] |c: &Call| c.makes_wide_of_list(2, Hook::Vswprintf);
    does VswprintfChk = "__vswprintf_chk" [any] |c: &Call| c.makes_wide_of_list(4, Hook::VswprintfChk);
}
