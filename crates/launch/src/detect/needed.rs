//! The libraries that a program needs, found where the loader would find them. Nothing is loaded or run.

use std::collections::{BTreeSet, VecDeque};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_STRTAB, FileHeader64, PT_LOAD};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::read::{ReadCache, ReadRef};

/// The loader's list of libraries.
const CACHE: &str = "/etc/ld.so.cache";
/// Where a loader looks when nothing says otherwise.
const USUAL: &[&str] =
    &["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];
/// Most libraries that are looked at: more are not worth the wait.
const LIBRARIES_MAX: usize = 1000;

/// What a file says of the libraries that it needs.
#[derive(Debug, Default)]
struct Needs {
    names: Vec<OsString>,
    /// Where it wants them to be looked for.
    places: Vec<PathBuf>,
}

/// What `wanted` says of the first library of which it has something to say; directly needed ones come first.
pub(super) fn first_of<T>(program: &Path, wanted: &dyn Fn(&OsStr) -> Option<T>) -> Option<T> {
    let own = needs(program)?;
    // DT_RPATH of the program holds for its libraries' libraries too; looking there too often does no harm.
    let from_program = own.places.clone();
    let mut cache = None;
    let mut seen = BTreeSet::new();
    let mut waiting = VecDeque::from([own]);
    while let Some(needs) = waiting.pop_front() {
        for name in needs.names {
            if let Some(found) = wanted(&name) {
                return Some(found);
            }
            if seen.len() < LIBRARIES_MAX && seen.insert(name.clone()) {
                let places = needs.places.iter().chain(&from_program);
                waiting.extend(find(&name, places, &mut cache).and_then(|path| self::needs(&path)));
            }
        }
    }
    None
}

/// The file of a library.
fn find<'a>(name: &OsStr, places: impl Iterator<Item = &'a PathBuf>, cache: &mut Option<Vec<u8>>) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(name.into());
    }
    let within = |place: &Path| Some(place.join(name)).filter(|path| path.is_file());
    let wished = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    places
        .cloned()
        .chain(env::split_paths(&wished))
        .find_map(|place| within(&place))
        .or_else(|| cached(cache.get_or_insert_with(|| fs::read(CACHE).unwrap_or_default()), name))
        .or_else(|| USUAL.iter().find_map(|place| within(Path::new(place))))
}

/// Reads the dynamic section.
fn needs(path: &Path) -> Option<Needs> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let header = FileHeader64::<Endianness>::parse(&cache).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, &cache).ok()?;
    let entries = segments.iter().find_map(|segment| segment.dynamic(endian, &cache).ok()?)?;
    let value = |tag| entries.iter().find(|entry| entry.d_tag(endian) == tag).map(|entry| entry.d_val(endian));
    // Its address; the file has it somewhere else.
    let strings = value(DT_STRTAB)?;
    let strings = segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD).find_map(|segment| {
        let inside = strings.checked_sub(segment.p_vaddr(endian))?;
        (inside < segment.p_filesz(endian)).then(|| segment.p_offset(endian).checked_add(inside))?
    })?;
    let end = cache.len().ok()?;
    let text = |at: u64| (&cache).read_bytes_at_until(strings.checked_add(at)?..end, 0).ok();
    let all = |tag| {
        let tagged = entries.iter().filter(move |entry| entry.d_tag(endian) == tag);
        tagged.filter_map(|entry| text(entry.d_val(endian)))
    };
    let origin = path.canonicalize().unwrap_or_else(|_| path.to_owned()).parent()?.to_owned();
    let lists = all(DT_RPATH).chain(all(DT_RUNPATH));
    let places = lists.flat_map(|list| list.split(|byte| *byte == b':')).map(|place| with_origin(place, &origin));
    Some(Needs {
        names: all(DT_NEEDED).map(|name| OsStr::from_bytes(name).to_owned()).collect(),
        places: places.collect(),
    })
}

/// A place in which `$ORIGIN` stands for where the file itself lies.
fn with_origin(place: &[u8], origin: &Path) -> PathBuf {
    let behind = [&b"$ORIGIN"[..], b"${ORIGIN}"].iter().find_map(|word| place.strip_prefix(*word));
    let path = match behind {
        Some(behind) => [origin.as_os_str().as_bytes(), behind].concat(),
        None => place.to_owned(),
    };
    PathBuf::from(OsString::from_vec(path))
}

/// The path of a library for x86-64 in the loader's cache: a header, then an entry for each library.
fn cached(cache: &[u8], name: &OsStr) -> Option<PathBuf> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    const HEADER_BYTES: usize = 48;
    const ENTRY_BYTES: usize = 24;
    /// For the C library of today, on x86-64.
    const KIND: u32 = 0x0303;
    let number = |bytes: &[u8], at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let text = |at: u32| cache.get(at as usize..)?.split(|byte| *byte == 0).next();
    let count = number(cache.strip_prefix(MAGIC)?, 0)? as usize;
    let (entries, _) = cache.get(HEADER_BYTES..)?.as_chunks::<ENTRY_BYTES>();
    let entry = entries
        .iter()
        .take(count)
        .find(|entry| number(*entry, 0) == Some(KIND) && number(*entry, 4).and_then(text) == Some(name.as_bytes()))?;
    Some(OsStr::from_bytes(text(number(entry, 8)?)?).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_cache_is_read_as_ldconfig_prints_it() {
        let Ok(cache) = fs::read(CACHE) else { return };
        let Ok(printed) = std::process::Command::new("/sbin/ldconfig").arg("-p").output() else { return };
        let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
        let mut compared = 0;
        for line in printed.lines().filter(|line| line.contains("(libc6,x86-64)")) {
            let Some((left, path)) = line.split_once(" => ") else { continue };
            let name = left.split_whitespace().next().unwrap_or_default();
            let first = printed.lines().find(|line| line.trim_start().starts_with(&format!("{name} (libc6,x86-64)")));
            if first == Some(line) {
                assert_eq!(cached(&cache, OsStr::new(name)), Some(PathBuf::from(path)), "{name}");
                compared += 1;
            }
        }
        assert!(printed.is_empty() || compared > 0, "nothing was compared");
        for cut in (0..cache.len()).step_by(97) {
            let _ = cached(&cache[..cut], OsStr::new("libc.so.6"));
        }
        assert_eq!(cached(&cache, OsStr::new("libnone.so.1")), None);
    }

    #[test]
    fn libraries_of_libraries_are_found() {
        let own = env::current_exe().expect("a path");
        let found = first_of(&own, &|name| name.as_bytes().starts_with(b"ld-linux").then(|| name.to_owned()));
        assert!(found.is_some(), "libc needs the loader");
        assert_eq!(first_of(&own, &|name| (name == "libnone.so").then_some(())), None);
    }
}
