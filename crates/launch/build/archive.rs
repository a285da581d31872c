//! Archives of object files (`ar`), as the compiler writes them and linkers read them.
//!
//! The compiler puts its own support library beside our object file, eight times its size. Nothing of ours needs it, and it could
//! clash with that of a Rust program. So ours alone is taken, and beside it stands a small one for each function that `--wrap` may be
//! asked for: see [`wrap`](crate::wrap).

use std::error::Error;
use std::ops::Range;

use crate::wrap;

const MAGIC: &[u8] = b"!<arch>\n";
const HEADER_BYTES: usize = 60;
/// A symbol that is ours.
const OURS: &[u8] = b"heapledger_version";

/// A name in the index, and where the header of the member lies that defines it.
type Symbol<'a> = (&'a [u8], usize);

/// A member: its name, its bytes, what it defines.
struct Member {
    name: String,
    bytes: Vec<u8>,
    defines: Vec<Vec<u8>>,
}

impl Member {
    fn new(name: &str, bytes: Vec<u8>, defines: Vec<Vec<u8>>) -> Member {
        Member { name: name.to_owned(), bytes, defines }
    }
}

/// What programs are linked with.
pub(crate) struct Linked {
    pub(crate) archive: Vec<u8>,
    /// The functions that it wraps, a line for each.
    pub(crate) wrapped: String,
}

/// An archive of the one object file that defines a symbol, of the archive that the compiler wrote.
pub(crate) fn alone(archive: &[u8], symbol: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let (object, defines) = object(archive, symbol)?;
    written(&[Member { name: "heapledger.o".to_owned(), bytes: object.to_vec(), defines: owned(&defines) }])
}

/// Bytes of an object file, and the names that it defines.
type Object<'a> = (&'a [u8], Vec<&'a [u8]>);

/// The object file that defines a symbol, and all that it defines.
fn object<'a>(archive: &'a [u8], symbol: &[u8]) -> Result<Object<'a>, Box<dyn Error>> {
    let symbols = index(archive).ok_or("the archive that the compiler wrote has no index")?;
    let (_, at) =
        symbols.iter().find(|(name, _)| *name == symbol).ok_or("the archive does not define what it should")?;
    let object = archive.get(member(archive, *at).ok_or("the archive is cut")?).ok_or("the archive is cut")?;
    Ok((object, symbols.iter().filter(|(_, of)| of == at).map(|(name, _)| *name).collect()))
}

/// The archive that programs are linked with, made of the one that the compiler wrote.
pub(crate) fn linked(archive: &[u8]) -> Result<Linked, Box<dyn Error>> {
    let (object, defines) = object(archive, OURS)?;
    let functions = defines.iter().filter_map(|name| Some(str::from_utf8(name.strip_prefix(wrap::OWN.as_bytes())?)));
    let mut functions = functions.collect::<Result<Vec<_>, _>>()?;
    functions.sort_unstable();
    let (cxx, c): (Vec<_>, Vec<_>) = functions.iter().partition(|function| function.starts_with("_Z"));
    if cxx.is_empty() || !c.contains(&"malloc") {
        return Err("the archive has no functions for the linker to wrap".into());
    }
    // Where glibc's `malloc` is, all others of C are.
    let real =
        |functions: &[&str]| functions.iter().map(|function| [wrap::REAL, function].concat()).collect::<Vec<_>>();
    let mut needed_by_cxx = real(&cxx);
    needed_by_cxx.push([wrap::CALLED, "malloc"].concat());
    let mut members = vec![
        Member::new("c.o", wrap::family(&c, &real(&["malloc"])), names(wrap::CALLED, &c)),
        Member::new("cxx.o", wrap::family(&cxx, &needed_by_cxx), names(wrap::CALLED, &cxx)),
        Member { name: "heapledger.o".to_owned(), bytes: object.to_vec(), defines: owned(&defines) },
    ];
    for (row, function) in cxx.iter().chain(&["malloc"]).enumerate() {
        members.push(Member::new(&format!("no{row}.o"), wrap::nothing(function), names(wrap::REAL, &[*function])));
    }
    Ok(Linked { archive: written(&members)?, wrapped: [c, cxx].concat().join("\n") })
}

fn names(prefix: &str, functions: &[&str]) -> Vec<Vec<u8>> {
    functions.iter().map(|function| [prefix, function].concat().into_bytes()).collect()
}

fn owned(names: &[&[u8]]) -> Vec<Vec<u8>> {
    names.iter().map(|name| name.to_vec()).collect()
}

/// An archive of these members, with an index.
fn written(members: &[Member]) -> Result<Vec<u8>, Box<dyn Error>> {
    let names = || members.iter().flat_map(|member| &member.defines);
    let strings: usize = names().map(|name| name.len() + 1).sum();
    let index_bytes = (4 + 4 * names().count() + strings).next_multiple_of(2);
    let mut table = u32::try_from(names().count())?.to_be_bytes().to_vec();
    let mut at = MAGIC.len() + HEADER_BYTES + index_bytes;
    for member in members {
        for _ in &member.defines {
            table.extend(u32::try_from(at)?.to_be_bytes());
        }
        at += HEADER_BYTES + member.bytes.len().next_multiple_of(2);
    }
    for name in names() {
        table.extend(name);
        table.push(0);
    }
    table.resize(index_bytes, 0);

    let mut out = MAGIC.to_vec();
    out.extend(header("/", table.len()).into_bytes());
    out.extend(table);
    for member in members {
        out.extend(header(&format!("{}/", member.name), member.bytes.len()).into_bytes());
        out.extend(&member.bytes);
        out.resize(out.len().next_multiple_of(2), b'\n');
    }
    Ok(out)
}

fn header(name: &str, bytes: usize) -> String {
    format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{bytes:<10}`\n", 0, 0, 0, 644)
}

/// Where the bytes of the member lie whose header is there.
fn member(archive: &[u8], at: usize) -> Option<Range<usize>> {
    let header = archive.get(at..at + HEADER_BYTES)?;
    let bytes: usize = str::from_utf8(header.get(48..58)?).ok()?.trim_end().parse().ok()?;
    Some(at + HEADER_BYTES..at + HEADER_BYTES + bytes)
}

/// The first member: how many, where each, names.
fn index(archive: &[u8]) -> Option<Vec<Symbol<'_>>> {
    let rest = archive.strip_prefix(MAGIC)?;
    rest.starts_with(b"/ ").then_some(())?;
    let table = archive.get(member(archive, MAGIC.len())?)?;
    let word = |at: usize| Some(u32::from_be_bytes(*table.get(at..)?.first_chunk()?) as usize);
    let count = word(0)?;
    let names = table.get(4 + 4 * count..)?.split(|byte| *byte == 0);
    names.take(count).enumerate().map(|(row, name)| Some((name, word(4 + 4 * row)?))).collect()
}
