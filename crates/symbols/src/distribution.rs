//! Where a distribution has the debug information of its files: what may be told to somebody who has none.
//!
//! Read from files alone, those of the machine that ran: `/etc/os-release`, and dpkg's lists of what belongs to which package.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::symbolizer::under;

/// Distributions and their debuginfod servers, by `ID` of `/etc/os-release`.
const SERVERS: &[(&str, &str)] = &[
    ("debian", "https://debuginfod.debian.net"),
    ("ubuntu", "https://debuginfod.ubuntu.com"),
    ("fedora", "https://debuginfod.fedoraproject.org"),
    ("centos", "https://debuginfod.centos.org"),
    ("arch", "https://debuginfod.archlinux.org"),
    ("opensuse", "https://debuginfod.opensuse.org"),
    ("suse", "https://debuginfod.opensuse.org"),
    ("void", "https://debuginfod.s.voidlinux.org"),
];
/// Distributions whose package managers keep what belongs to which package in databases of their own, and what is typed for
/// debug information before the paths of files and behind.
const MANAGERS: &[(&str, &str, &str)] = &[
    ("fedora", "dnf debuginfo-install $(rpm -qf", ")"),
    ("rhel", "dnf debuginfo-install $(rpm -qf", ")"),
    ("centos", "dnf debuginfo-install $(rpm -qf", ")"),
    ("opensuse", "zypper install $(rpm -qf --qf '%{name}-debuginfo '", ")"),
    ("suse", "zypper install $(rpm -qf --qf '%{name}-debuginfo '", ")"),
    ("arch", "pacman -S $(pacman -Qqo", "| sed s/$/-debug/)"),
];
/// Asks those of many distributions in turn.
const SERVER_OF_MANY: &str = "https://debuginfod.elfutils.org";
/// Bytes of lists that are read at most. A large installation has some twenty million.
const LISTS_BYTES_MAX: u64 = 64 << 20;
/// Bytes of `/etc/os-release` that are read.
const RELEASE_BYTES_MAX: u64 = 64 << 10;
/// Where dpkg keeps its lists.
const DPKG_LISTS: &str = "/var/lib/dpkg/info";

/// A distribution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    root: Option<PathBuf>,
    settings: HashMap<String, String>,
}

impl Distribution {
    /// The one that is installed below `root`, or here.
    pub fn installed(root: Option<&Path>) -> Distribution {
        let text = ["/etc/os-release", "/usr/lib/os-release"]
            .iter()
            .find_map(|path| read(&under(root, Path::new(path)), RELEASE_BYTES_MAX))
            .unwrap_or_default();
        let settings = text.lines().filter_map(|line| line.split_once('='));
        let settings = settings.map(|(key, value)| (key.to_owned(), value.trim_matches(['"', '\'']).to_owned()));
        Distribution { root: root.map(Path::to_owned), settings: settings.collect() }
    }

    fn setting(&self, key: &str) -> &str {
        self.settings.get(key).map_or("", String::as_str)
    }

    /// A server that has debug information of this distribution.
    pub fn server(&self) -> &'static str {
        let names = [self.setting("ID")].into_iter().chain(self.setting("ID_LIKE").split_whitespace());
        let known = |name: &str| SERVERS.iter().find(|(id, _)| name == *id || name.starts_with(&format!("{id}-")));
        names.into_iter().find_map(known).map_or(SERVER_OF_MANY, |(_, server)| server)
    }

    /// The archive that has packages with debug information, where that is not the usual one: `bookworm-debug`.
    pub fn archive(&self) -> Option<String> {
        let codename = self.setting("VERSION_CODENAME");
        (self.setting("ID") == "debian" && !codename.is_empty()).then(|| format!("{codename}-debug"))
    }

    /// How the package manager is asked for the debug information of files, where it alone knows whose these are: what is typed
    /// before their paths and behind.
    pub fn manager(&self) -> Option<[&'static str; 2]> {
        let names = [self.setting("ID")].into_iter().chain(self.setting("ID_LIKE").split_whitespace());
        let known = |name: &str| MANAGERS.iter().find(|(id, ..)| name == *id || name.starts_with(&format!("{id}-")));
        names.into_iter().find_map(known).map(|(_, before, behind)| [*before, *behind])
    }

    /// Whether a file is of the distribution, by where it lies.
    pub fn has(&self, file: &Path) -> bool {
        let places =
            ["/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/usr/libexec", "/lib", "/lib64", "/bin", "/sbin"];
        places.iter().any(|place| file.starts_with(place))
    }

    /// The packages with the debug information of `files`, as far as dpkg knows whose these are; those that belong to
    /// none or are not known are not among them.
    pub fn debug_packages(&self, files: &[PathBuf]) -> HashMap<PathBuf, String> {
        let mut wanted: HashMap<PathBuf, &PathBuf> = HashMap::new();
        for file in files {
            wanted.extend(self.spellings(file).into_iter().map(|spelling| (spelling, file)));
        }
        let lengths: Vec<usize> = wanted.keys().map(|path| path.as_os_str().len()).collect();
        let mut found: HashMap<PathBuf, String> = HashMap::new();
        let mut open: BTreeSet<&PathBuf> = wanted.values().copied().collect();
        let mut budget = LISTS_BYTES_MAX;
        let directory = under(self.root.as_deref(), Path::new(DPKG_LISTS));
        for list in lists(&directory, &open) {
            if open.is_empty() || budget == 0 {
                break;
            }
            let mut lines = Vec::new();
            let Ok(_) =
                File::open(directory.join(&list)).and_then(|opened| opened.take(budget).read_to_end(&mut lines))
            else {
                continue;
            };
            budget = budget.saturating_sub(lines.len() as u64);
            // Nearly all lines are as long as none that is looked for.
            let lines = lines.split(|byte| *byte == b'\n').filter(|line| lengths.contains(&line.len()));
            for line in lines {
                if let Some(file) = wanted.get(Path::new(OsStr::from_bytes(line)))
                    && open.remove(file)
                {
                    found.insert((*file).clone(), debug_package(package_of(&list)));
                }
            }
        }
        found
    }

    /// How dpkg may spell the path of a file: `/lib` is `/usr/lib` on most systems, and packages use either. Nothing for
    /// what no package has.
    fn spellings(&self, file: &Path) -> Vec<PathBuf> {
        // A file that is not here is no package's.
        let Ok(real) = under(self.root.as_deref(), file).canonicalize() else { return Vec::new() };
        let inside = |root: &PathBuf| Some(Path::new("/").join(real.strip_prefix(root.canonicalize().ok()?).ok()?));
        let real = self.root.as_ref().map_or_else(|| Some(real.clone()), inside);
        let mut all = Vec::new();
        for path in [Some(file.to_owned()), real].into_iter().flatten() {
            if !path.is_absolute() || ["/usr/local", "/home", "/tmp", "/root"].iter().any(|own| path.starts_with(own)) {
                continue;
            }
            match path.strip_prefix("/usr") {
                Ok(rest) => all.push(Path::new("/").join(rest)),
                Err(_) => all.push(Path::new("/usr").join(path.strip_prefix("/").unwrap_or(&path))),
            }
            all.push(path);
        }
        all
    }
}

/// How the lists of packages are called.
const LIST: &str = ".list";

/// The names of dpkg's lists; first those that begin like that of a file that is looked for. There are thousands of them on some
/// machines, of which hardly any is opened.
fn lists(directory: &Path, files: &BTreeSet<&PathBuf>) -> impl Iterator<Item = String> + use<> {
    let names: Vec<&str> = files.iter().filter_map(|file| file.file_name()?.to_str()).collect();
    let items = if files.is_empty() { None } else { fs::read_dir(directory).ok() };
    let mut lists: Vec<(usize, Reverse<String>)> = Vec::new();
    for list in items.into_iter().flatten().filter_map(|item| Some(item.ok()?.file_name())) {
        let Some(list) = Some(list).filter(|list| list.as_bytes().ends_with(LIST.as_bytes())) else { continue };
        let Ok(list) = list.into_string() else { continue };
        let package = package_of(&list);
        let alike = |name: &&str| package.bytes().zip(name.bytes()).take_while(|(one, other)| one == other).count();
        lists.push((names.iter().map(alike).max().unwrap_or(0), Reverse(list)));
    }
    // Mostly the first is all that is asked for: none of the others need be put in order.
    let mut lists = BinaryHeap::from(lists);
    std::iter::from_fn(move || lists.pop().map(|(_, Reverse(list))| list))
}

/// The package of a list of that name: `libc6:amd64.list`.
fn package_of(list: &str) -> &str {
    let package = list.strip_suffix(LIST).unwrap_or(list);
    package.split_once(':').map_or(package, |(package, _)| package)
}

/// What the package with the debug information of a package is called. That of the C library is older than the rule.
fn debug_package(package: &str) -> String {
    match package {
        "libc6" => "libc6-dbg".to_owned(),
        _ => format!("{package}-dbgsym"),
    }
}

fn read(path: &Path, bytes_max: u64) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(bytes_max).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_and_servers_of_a_distribution() {
        let root = std::env::temp_dir().join(format!("heapledger-distribution-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("etc/os-release", "PRETTY_NAME=\"X\"\nID=debian\nVERSION_CODENAME=bookworm\n");
        write("var/lib/dpkg/info/libstdc++6:amd64.list", "/.\n/usr\n/usr/lib/x/libstdc++.so.6.0.30\n");
        write("var/lib/dpkg/info/libc6:amd64.list", "/.\n/lib/x/libc.so.6\n");
        write("var/lib/dpkg/info/jq.list", "/usr/bin/jq\n/usr/bin/jq2\n");
        for file in ["usr/lib/x/libstdc++.so.6.0.30", "usr/lib/x/libc.so.6", "usr/bin/jq", "usr/bin/none", "tmp/jq"] {
            write(file, "");
        }
        std::os::unix::fs::symlink("libstdc++.so.6.0.30", root.join("usr/lib/x/libstdc++.so.6")).expect("a link");
        let here = Distribution::installed(Some(&root));
        assert_eq!((here.server(), here.archive().as_deref()), (SERVERS[0].1, Some("bookworm-debug")));
        let files = ["/usr/lib/x/libstdc++.so.6", "/usr/lib/x/libc.so.6", "/usr/bin/jq", "/usr/bin/none", "/tmp/jq"];
        let found = here.debug_packages(&files.map(PathBuf::from));
        let package = |file: &str| found.get(Path::new(file)).map(String::as_str);
        let expected = [Some("libstdc++6-dbgsym"), Some("libc6-dbg"), Some("jq-dbgsym"), None, None];
        assert_eq!(files.map(package), expected);
        write("etc/os-release", "ID=\"opensuse-leap\"\nID_LIKE=\"suse\"\n");
        assert_eq!(Distribution::installed(Some(&root)).server(), "https://debuginfod.opensuse.org");
        assert_eq!(here.manager(), None);
        let leap = Distribution::installed(Some(&root)).manager().expect("rpm");
        assert_eq!(leap, ["zypper install $(rpm -qf --qf '%{name}-debuginfo '", ")"]);
        write("etc/os-release", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n");
        let rocky = Distribution::installed(Some(&root));
        assert_eq!(rocky.manager(), Some(["dnf debuginfo-install $(rpm -qf", ")"]));
        assert_eq!(rocky.server(), "https://debuginfod.centos.org");
        assert!(rocky.has(Path::new("/usr/lib64/libjq.so.1")) && !rocky.has(Path::new("/opt/jq")));
        write("etc/os-release", "ID=mint\nID_LIKE='ubuntu debian'\n");
        assert_eq!(Distribution::installed(Some(&root)).server(), "https://debuginfod.ubuntu.com");
        fs::remove_dir_all(&root).expect("removed");
        let nowhere = Distribution::installed(Some(&root));
        assert_eq!((nowhere.server(), nowhere.archive()), (SERVER_OF_MANY, None));
        assert!(nowhere.debug_packages(&files.map(PathBuf::from)).is_empty());
    }
}
