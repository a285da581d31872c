//! What the C and the C++ library keep by design until the process ends, in every program that uses them so.
//!
//! Only the innermost frames of a stack count, as far as they lie in glibc without a break: what code of the program's allocates that
//! glibc has called (constructors in `dlopen`, callbacks) is the program's. Among them must be a function that hands no block to its
//! caller, whatever it allocates. That holds for functions that programs call (`setlocale`), whose names a stripped library has as
//! well, and for inner ones, whose names only debug information has, where what the program called gives blocks besides (`getaddrinfo`).

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use crate::{NamedFrame, NamedStack};

/// Functions that keep what they allocate, wherever they are linked to: buffers of streams, and what the loader holds for threads.
const EVERYWHERE: &[&str] = &["_IO_file_doallocate", "_IO_wfile_doallocate", "_dl_allocate_tls", "allocate_dtv"];
/// Modules that allocate when they are loaded and keep it: the emergency pool for exceptions.
const KEEPING_MODULES: &[&str] = &["libstdc++.so"];
/// What runs code of modules: constructors, destructors.
const LOADERS: &[&str] = &["_dl_init", "call_init", "_dl_fini", "_dl_call_fini", "call_destructors"];

/// Functions of glibc, inner ones and exported ones, of which no caller is given a block. Without underscores in front, and by subject;
/// it is what `__libc_freeres` frees for memory checkers, and tables of the same kind that it forgets.
const KEEPERS: &[&str] = &[
    // Locales: what `setlocale` and the first conversion load, and names of it. (The locale of `newlocale` is the caller's: see `INSIDE`.)
    "setlocale new_composite_name nl_find_locale nl_load_locale nl_load_locale_from_archive nl_intern_locale_data",
    "nl_make_l10nflist nl_expand_alias read_alias_file extend_alias_table nl_init_era_entries nl_init_alt_digit",
    "nl_get_era_entry nl_get_alt_digit nl_get_walt_digit nl_parse_alt_digit wcsmbs_load_conv",
    "btowc mblen mbrlen mbrtowc mbsnrtowcs mbsrtowcs mbstowcs mbtowc wcrtomb wcsnrtombs wcsrtombs wcstombs wctob wctomb",
    "mbrtoc8 mbrtoc16 mbrtoc32 c8rtomb c16rtomb c32rtomb",
    // Messages, and texts of errors and signals: one of each thread.
    "gettext dgettext dcgettext dcigettext ngettext dngettext dcngettext textdomain bindtextdomain",
    "bind_textdomain_codeset set_binding_values nl_find_domain nl_load_domain nl_find_msg strerror strerror_l strsignal",
    // Conversions: which there are, and their modules. (What `iconv_open` gives is the caller's: see `INSIDE`.)
    "gconv_find_shlib gconv_load_cache gconv_read_conf gconv_load_conf gconv_get_path read_conf_file find_derivation",
    // Name services: configuration, modules, and the buffer of each function that gives a pointer into it.
    "nss_database_get nss_module_allocate nss_module_load nss_module_get_function nss_action_allocate nss_action_parse",
    "nss_configure_lookup nss_lookup_function nss_files_data_open nss_getent global_state_allocate",
    "getpwnam getpwnam_r getpwuid getpwuid_r getpwent getpwent_r fgetpwent getgrnam getgrnam_r getgrgid getgrgid_r",
    "getgrent getgrent_r fgetgrent getspnam getspnam_r getspent getspent_r sgetspent fgetspent getsgnam getsgent",
    "sgetsgent fgetsgent gethostbyname gethostbyname_r gethostbyname2 gethostbyname2_r gethostbyaddr gethostbyaddr_r",
    "gethostent gethostent_r getnetbyname getnetbyname_r getnetbyaddr getnetbyaddr_r getnetent getnetent_r",
    "getprotobyname getprotobyname_r getprotobynumber getprotobynumber_r getprotoent getprotoent_r getservbyname",
    "getservbyname_r getservbyport getservbyport_r getservent getservent_r getrpcbyname getrpcbyname_r getrpcbynumber",
    "getrpcbynumber_r getrpcent getrpcent_r getaliasbyname getaliasent getnetgrent setnetgrent innetgr",
    "resolv_context_get resolv_conf_allocate resolv_conf_attach resolv_conf_get_current resolv_conf_load gaiconf_init check_pf",
    // Time zones.
    "tzset tzset_internal tz_convert tzfile_read tzfile_default tzfile_compute tzset_parse_tz tzstring tzstring_len",
    "localtime localtime_r localtime64 localtime64_r ctime ctime_r mktime timelocal strftime strftime_l wcsftime wcsftime_l",
    // Environment; functions for the end and for forks; keys of threads.
    "setenv putenv add_to_environ new_exitfn internal_atexit cxa_atexit on_exit cxa_at_quick_exit",
    "cxa_thread_atexit_impl register_atfork pthread_atfork pthread_setspecific",
    // Buffers of functions that read tables of the system, and what else is static.
    "getmntent getttyent getttynam getusershell getfsent getfsspec getfsfile getutent getutid getutline getutxent",
    "getutxid getutxline ttyname re_comp addseverity register_printf_specifier register_printf_function",
    "register_printf_modifier register_printf_type",
    // The loader, as the C library calls it; all that the loader allocates itself is its own.
    "dlerror dlerror_run dlerror_result dlopen dlmopen dlsym dlvsym dlclose",
];

/// Functions of glibc that give their callers blocks, and below how many frames of glibc's within them there are none of these any more.
const INSIDE: &[(&str, usize)] = &[
    // The locale is allocated in `newlocale` itself, data of it below.
    ("newlocale", 1),
    // The descriptor: `__gconv_open`; its steps: `__gconv_find_transform`, `__gconv_lookup_cache`; below are the modules.
    ("iconv_open", 5),
];

static KEEPER_NAMES: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| KEEPERS.iter().flat_map(|line| line.split(' ')).collect());

/// The part of glibc that code lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GlibcPart {
    Library,
    Loader,
}

impl GlibcPart {
    fn of(frame: &NamedFrame) -> Option<GlibcPart> {
        let name = file_name(frame)?;
        let is_one_of = |beginnings: &[&str]| beginnings.iter().any(|beginning| name.starts_with(beginning));
        match () {
            () if is_one_of(&["libc.so.6", "libc-2."]) => Some(GlibcPart::Library),
            () if is_one_of(&["ld-linux", "ld-2."]) => Some(GlibcPart::Loader),
            () => None,
        }
    }
}

/// Whether the C or the C++ library keeps blocks of this stack by design, in every program that uses it so. `called` is asked for the
/// function that a frame has called ([`crate::Names::called`]).
pub fn is_kept_by_design(stack: &NamedStack, called: impl FnOnce(&NamedFrame) -> Option<Arc<str>>) -> bool {
    is_kept_everywhere(stack) || is_kept_by_glibc(stack, called)
}

fn is_kept_everywhere(stack: &NamedStack) -> bool {
    let module = |frame: &NamedFrame| {
        file_name(frame).is_some_and(|name| KEEPING_MODULES.iter().any(|keeper| name.starts_with(keeper)))
    };
    stack.frames.iter().any(|frame| is_one_of(frame, EVERYWHERE))
        || stack.frames.first().is_some_and(module) && stack.frames.iter().any(|frame| is_one_of(frame, LOADERS))
}

fn is_kept_by_glibc(stack: &NamedStack, called: impl FnOnce(&NamedFrame) -> Option<Arc<str>>) -> bool {
    // A constructor that ends with an allocation has no frame of its own.
    let part = |frame: &NamedFrame| GlibcPart::of(frame).filter(|_| !is_one_of(frame, LOADERS));
    let inside = stack.frames.iter().take_while(|frame| part(frame).is_some()).count();
    let Some((innermost, callers)) = stack.frames.split_at_checked(inside) else { return false };
    let keeps = |(depth, frame): (usize, &NamedFrame)| {
        let Some(name) = frame.function.as_deref().map(plain) else { return false };
        KEEPER_NAMES.contains(name) || INSIDE.iter().any(|(function, below)| *function == name && depth >= *below)
    };
    let is_loaders_own = |frame: &NamedFrame| part(frame) == Some(GlibcPart::Loader);
    if innermost.first().is_some_and(is_loaders_own) || innermost.iter().enumerate().any(keeps) {
        return true;
    }
    // `setenv` and `localtime` pass on to inner functions and leave no frame: the outermost one has no name, unless debug information is there.
    let is_nameless = innermost.last().is_some_and(|frame| frame.function.is_none());
    let caller = callers.first().filter(|frame| is_nameless && !frame.guessed && GlibcPart::of(frame).is_none());
    caller.and_then(called).is_some_and(|name| KEEPER_NAMES.contains(plain(&name)))
}

fn file_name(frame: &NamedFrame) -> Option<&str> {
    frame.module.as_deref().map(|path| path.rsplit('/').next().unwrap_or(path))
}

fn is_one_of(frame: &NamedFrame, names: &[&str]) -> bool {
    // glibc's debug information has its inner names, which differ in their beginning.
    frame.function.as_deref().is_some_and(|function| names.contains(&function.trim_start_matches("__GI_")))
}

/// A function's name without what glibc and the compiler put around it: `__GI___tzset`, `find_derivation.constprop.0`.
fn plain(function: &str) -> &str {
    let name = function.split('.').next().unwrap_or(function);
    name.trim_start_matches("__GI_").trim_start_matches('_')
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIBC: &str = "/lib/libc.so.6";
    const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
    const PROGRAM: &str = "/usr/bin/x";

    /// Functions, `""` for one without a name, and modules.
    fn stack(functions: &[(&str, &str)]) -> NamedStack {
        let frame = |(function, module): &(&str, &str)| NamedFrame {
            function: (!function.is_empty()).then(|| (*function).into()),
            module: Some((*module).into()),
            ..NamedFrame::default()
        };
        NamedStack { frames: functions.iter().map(frame).collect(), damaged: false }
    }

    fn kept(functions: &[(&str, &str)]) -> bool {
        is_kept_by_design(&stack(functions), |_| None)
    }

    #[test]
    fn only_the_libraries_own_keeping_is_excused() {
        assert!(kept(&[("malloc", LIBC), ("_IO_file_doallocate", LIBC), ("puts", LIBC)]));
        assert!(kept(&[("__GI__IO_file_doallocate", LIBC), ("puts", LIBC)]));
        let libstdcxx = "/lib/libstdc++.so.6";
        assert!(kept(&[("pool::pool", libstdcxx), ("call_init", "/lib/ld.so")]));
        assert!(!kept(&[("operator new", libstdcxx), ("main", "/x")]));
        assert!(!kept(&[("leaky", "/x"), ("call_init", "/lib/ld.so")]));
    }

    #[test]
    fn static_tables_of_glibc_are_its_own() {
        let main = ("main", PROGRAM);
        // With debug information, and in a library that has only the names that it exports.
        assert!(kept(&[("_nl_intern_locale_data", LIBC), ("_nl_load_locale", LIBC), ("__GI_setlocale", LIBC), main]));
        assert!(kept(&[("", LIBC), ("", LIBC), ("setlocale", LIBC), main]));
        assert!(kept(&[("getpwnam", LIBC), main]));
        assert!(kept(&[("__nss_module_allocate", LIBC), ("getaddrinfo", LIBC), main]));
        assert!(kept(&[("", LIBC), ("__nss_database_get", LIBC), ("", LIBC), ("getaddrinfo", LIBC), main]));
        assert!(kept(&[("__GI___tsearch", LIBC), ("__add_to_environ", LIBC), main]));
        assert!(kept(&[("tzset_internal", LIBC), ("__tz_convert", LIBC), main]));
        assert!(kept(&[("gen_steps", LIBC), ("find_derivation.constprop.0", LIBC), ("iconv_open", LIBC), main]));
        assert!(kept(&[("", LOADER), ("_dl_catch_exception", LOADER), ("dlopen", LIBC), main]));
        assert!(kept(&[("_dl_new_object", LOADER), main]));
    }

    #[test]
    fn what_passes_on_to_inner_functions_is_known_by_its_call() {
        let calls =
            |functions: &[(&str, &str)], name: &str| is_kept_by_design(&stack(functions), |_| Some(name.into()));
        let main = ("main", PROGRAM);
        assert!(calls(&[("", LIBC), ("", LIBC), main], "setenv"));
        assert!(!calls(&[("", LIBC), ("", LIBC), main], "getline"));
        assert!(!calls(&[("", LIBC), ("getline", LIBC), main], "setenv"));
        assert!(!calls(&[main], "setenv"));
    }

    #[test]
    fn what_glibc_gives_the_program_is_the_programs() {
        let main = ("main", PROGRAM);
        for function in
            ["getdelim", "vasprintf", "opendir", "_IO_fopen", "getaddrinfo", "newlocale", "hcreate_r", "", "scandir"]
        {
            assert!(!kept(&[(function, LIBC), main]), "{function}");
            assert!(!kept(&[("", LIBC), (function, LIBC), main]) || function == "newlocale", "{function}");
        }
        assert!(kept(&[("_nl_load_locale", LIBC), ("newlocale", LIBC), main]));
        // The descriptor of `iconv_open` and its steps, and the modules that it has loaded.
        let opened = [("", LIBC); 5];
        for inside in 0..=5 {
            let frames = [&opened[..inside], &[("iconv_open", LIBC), main]].concat();
            assert_eq!(kept(&frames), inside == 5, "{inside}");
        }
        // A function of the program of such a name, a constructor within `dlopen`, and a callback.
        assert!(!kept(&[("setlocale", PROGRAM), main]));
        let constructor = [("init", "/x/libp.so"), ("call_init", LOADER), ("dlopen", LIBC), main];
        assert!(!kept(&constructor) && !kept(&constructor[1..]));
        assert!(!kept(&[("getdelim", LIBC), ("conversion", "/x/libp.so"), ("setlocale", LIBC), main]));
        assert!(!kept(&[("", "/lib/ld-musl-x86_64.so.1"), main]));
    }
}
