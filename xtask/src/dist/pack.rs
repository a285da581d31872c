//! The staged tree as a tarball, a `.deb` and an `.rpm`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::stage::{fresh, plain_modes, remove};
use super::{Release, packer};
use crate::step::{Result, output, run as run_command};

/// Who answers for a package, where its form wants that said. There is no address yet.
const MAINTAINER: &str = "The Heapledger developers <maintainers@heapledger.invalid>";
const SUMMARY: &str = "heap profiler for unmodified programs";
/// Lines of at most 80 letters, as both forms want them.
const DESCRIPTION: &[&str] = &[
    "Runs an unmodified program with a small preloaded library, which enters every",
    "block of its heap in a file: address, size, call stack, thread, time, and for",
    "freed blocks who freed them. The file can be read while the program runs, and",
    "after any end, even SIGKILL. It finds leaks, peaks, growth, hot and temporary",
    "allocations, and damaged blocks; it compares runs and builds, reads core dumps,",
    "and writes files for pprof, speedscope, heaptrack, DHAT and other viewers.",
];

/// `heapledger-VERSION-x86_64-linux.tar.gz`, of which the directory inside is unpacked anywhere.
pub(super) fn tarball(release: &Release, staged: &Path, place: &Path) -> Result<PathBuf> {
    let name = format!("heapledger-{}-x86_64-linux", release.version);
    let path = place.join(format!("{name}.tar.gz"));
    let plain = place.join(format!("{name}.tar"));
    let mut tar = packer(release, "tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    tar.arg(format!("--mtime=@{}", release.epoch)).arg(format!("--transform=s,^\\.,{name},S"));
    run_command(tar.arg("-cf").arg(&plain).arg("-C").arg(staged).arg("."))?;
    run_command(packer(release, "gzip").args(["-9n", "--force"]).arg(&plain))?;
    Ok(path)
}

/// `heapledger_VERSION-1_amd64.deb`.
pub(super) fn deb(release: &Release, staged: &Path, place: &Path) -> Result<PathBuf> {
    let tree = place.join("deb");
    fresh(&tree)?;
    copy_tree(staged, &tree.join("usr"))?;
    // What Debian's shells and Debian's policy do not look for.
    remove(&tree.join("usr/share/zsh/site-functions"))?;
    let (doc, apache) = (tree.join("usr/share/doc/heapledger"), "LICENSE-APACHE");
    run_command(packer(release, "gzip").arg("-9n").args([doc.join("CHANGELOG.md"), doc.join("FORMAT.md")]))?;
    rename(&doc.join("CHANGELOG.md.gz"), &doc.join("changelog.gz"))?;
    remove_file(&doc.join("LICENSE-MIT"))?;
    debug_assert!(doc.join(apache).exists());
    let control = tree.join("DEBIAN");
    fresh(&control)?;
    let size = output(Command::new("du").args(["-sk", "--apparent-size"]).arg(tree.join("usr")))?;
    let size = size.split_ascii_whitespace().next().unwrap_or_default().to_owned();
    let description: String = DESCRIPTION.iter().map(|line| format!(" {line}\n")).collect();
    let text = format!(
        "Package: heapledger\nVersion: {}-1\nSection: devel\nPriority: optional\nArchitecture: amd64\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {size}\nDepends: {}\nRecommends: gdb, less\nSuggests: debuginfod, chromium\n\
         Description: {SUMMARY}\n{description}",
        release.version,
        depends(&tree.join("usr/bin/heapledger"), &place.join("shlibs"))?,
    );
    write(&control.join("control"), &text)?;
    write(&control.join("md5sums"), &sums(&tree)?)?;
    plain_modes(&tree)?;
    set_times(release, &tree)?;
    let path = place.join(format!("heapledger_{}-1_amd64.deb", release.version));
    // With one thread: what several make of it depends on how many there are.
    run_command(
        packer(release, "dpkg-deb")
            .args(["--root-owner-group", "-Zxz", "--threads-max=1", "--build"])
            .arg(&tree)
            .arg(&path),
    )?;
    remove(&tree)?;
    Ok(path)
}

/// What the command needs of Debian, as Debian's own tool reckons it from the symbols that it takes.
fn depends(binary: &Path, scratch: &Path) -> Result<String> {
    fresh(&scratch.join("debian"))?;
    write(&scratch.join("debian/control"), "Source: heapledger\n\nPackage: heapledger\nArchitecture: amd64\n")?;
    let mut tool = Command::new("dpkg-shlibdeps");
    let said = output(tool.arg("-O").arg(binary).current_dir(scratch))?;
    remove(scratch)?;
    let depends = said.trim().strip_prefix("shlibs:Depends=").unwrap_or_default().to_owned();
    if depends.contains("libc6 (>= ") { Ok(depends) } else { Err(format!("dpkg-shlibdeps knows no libc6: {said}")) }
}

/// `md5sums` of all files, sorted.
fn sums(tree: &Path) -> Result<String> {
    let script = "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum";
    output(Command::new("sh").args(["-c", script]).current_dir(tree))
}

/// `heapledger-VERSION-1.x86_64.rpm`.
pub(super) fn rpm(release: &Release, staged: &Path, place: &Path) -> Result<PathBuf> {
    let top = place.join("rpm");
    fresh(&top)?;
    let tree = top.join("tree");
    copy_tree(staged, &tree.join("usr"))?;
    remove(&tree.join("usr/share/zsh/vendor-completions"))?;
    let (doc, licenses) = (tree.join("usr/share/doc/heapledger"), tree.join("usr/share/licenses/heapledger"));
    fresh(&licenses)?;
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        rename(&doc.join(name), &licenses.join(name))?;
    }
    remove_file(&doc.join("copyright"))?;
    plain_modes(&tree)?;
    set_times(release, &tree)?;
    let spec = top.join("heapledger.spec");
    write(&spec, &spec_of(release, &tree))?;
    let mut build = packer(release, "rpmbuild");
    build.args(["--quiet", "-bb", "--target", "x86_64-linux", "--define"]);
    build
        .arg(format!("_topdir {}", top.join("build").display()))
        .arg("--define")
        .arg(format!("_rpmdir {}", top.display()));
    run_command(build.arg(&spec))?;
    let name = format!("heapledger-{}-1.x86_64.rpm", release.version);
    rename(&top.join("x86_64").join(&name), &place.join(&name))?;
    remove(&top)?;
    Ok(place.join(name))
}

/// Requirements are found by rpm. What is there is taken as it is: not stripped, not compressed anew, not linked by build id.
fn spec_of(release: &Release, tree: &Path) -> String {
    format!(
        "%global debug_package %{{nil}}\n%global _build_id_links none\n%global __os_install_post %{{nil}}\n\
         %global _buildhost reproducible\n%global use_source_date_epoch_as_buildtime 1\n\
         %global clamp_mtime_to_source_date_epoch 1\n%global source_date_epoch_from_changelog 0\n\
         %global _binary_payload w9.gzdio\n%global __provides_exclude_from ^/usr/lib/heapledger/.*$\n\
         Name: heapledger\nVersion: {version}\nRelease: 1\nSummary: Heap profiler for unmodified programs\n\
         License: MIT OR Apache-2.0\nPackager: {MAINTAINER}\n\n%description\n{description}\n\n\
         %install\nmkdir -p %{{buildroot}}\ncp -a '{tree}/.' %{{buildroot}}/\n\n\
         %files\n%defattr(-,root,root,-)\n/usr/bin/heapledger\n/usr/lib/heapledger\n/usr/share/heapledger\n\
         /usr/share/bash-completion/completions/heapledger\n/usr/share/zsh/site-functions/_heapledger\n\
         /usr/share/fish/vendor_completions.d/heapledger.fish\n%doc /usr/share/doc/heapledger\n\
         %license /usr/share/licenses/heapledger\n/usr/share/man/man1/heapledger*.1.gz\n",
        version = release.version,
        description = DESCRIPTION.join("\n"),
        tree = tree.display(),
    )
}

/// The time of the commit for all files: packers make later times that one, and leave earlier ones as they are, which is what they are
/// where the commit has a date that is yet to come.
fn set_times(release: &Release, tree: &Path) -> Result {
    let mut find = Command::new("find");
    find.arg(tree).args(["-exec", "touch", "--no-dereference"]).arg(format!("--date=@{}", release.epoch));
    run_command(find.args(["{}", "+"]))
}

/// With links as links.
fn copy_tree(from: &Path, to: &Path) -> Result {
    let directory = to.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    run_command(Command::new("cp").args(["-a", "--no-preserve=ownership"]).arg(from).arg(to))
}

fn rename(from: &Path, to: &Path) -> Result {
    fs::rename(from, to).map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}

fn remove_file(path: &Path) -> Result {
    fs::remove_file(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
