//! What is measured and measured with, built or found once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::packages::library_path;
use crate::step::{Ledgers, Result, cargo, output, root, run, target};

/// Builds of the synthetic programs, and places of tools.
pub(super) struct Kit {
    /// The command, with the preload library inside.
    pub(super) heapledger: PathBuf,
    /// The preload library by itself, for what `run` has no option for.
    pub(super) preload: PathBuf,
    /// Runs something and says what it took.
    pub(super) timer: PathBuf,
    /// `bench_paths`, without frame pointers as compilers build by default.
    pub(super) paths: PathBuf,
    /// `bench_paths` with frame pointers.
    pub(super) paths_fp: PathBuf,
    /// `bench_paths` under the address sanitizer, with frame pointers, which its fast unwinder needs.
    pub(super) paths_asan: Result<PathBuf>,
    /// `bench_paths` with the leak sanitizer alone.
    pub(super) paths_lsan: Result<PathBuf>,
    /// `bench_threads`.
    pub(super) threads: PathBuf,
    /// heaptrack's library.
    pub(super) heaptrack_library: Option<PathBuf>,
    /// gperftools' library.
    pub(super) tcmalloc: Option<PathBuf>,
    /// Inputs.
    pub(super) inputs: PathBuf,
    /// Emptied after each run.
    pub(super) scratch: PathBuf,
    /// Where ledgers lie while programs run.
    pub(super) ledgers: Ledgers,
}

/// Where heaptrack's library is, seen from the directory that its command is in.
const HEAPTRACK_LIBRARY: &[&str] = &["lib/heaptrack", "lib/x86_64-linux-gnu/heaptrack", "lib64/heaptrack"];

impl Kit {
    /// Builds all that is ours.
    pub(super) fn build() -> Result<Kit> {
        println!("building heapledger and the synthetic programs …");
        run(&mut cargo(&["build", "--release", "--package", "heapledger-cli"]))?;
        run(&mut cargo(&["build", "--release", "--package", "heapledger-preload"]))?;
        let place = target().join("bench");
        let [inputs, scratch, programs] = ["inputs", "scratch", "programs"].map(|name| place.join(name));
        for directory in [&inputs, &scratch, &programs] {
            fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        }
        let paths = |name: &str, flags: &[&str]| compile("bench_paths.c", &programs.join(name), flags);
        Ok(Kit {
            heapledger: target().join("release/heapledger"),
            preload: target().join("release/libheapledger_preload.so"),
            timer: compile("bench_time.c", &programs.join("bench_time"), &[])?,
            paths: paths("bench_paths", &["-fomit-frame-pointer"])?,
            paths_fp: paths("bench_paths_fp", &["-fno-omit-frame-pointer"])?,
            paths_asan: paths("bench_paths_asan", &["-fno-omit-frame-pointer", "-fsanitize=address"]),
            paths_lsan: paths("bench_paths_lsan", &["-fno-omit-frame-pointer", "-fsanitize=leak"]),
            threads: compile("bench_threads.c", &programs.join("bench_threads"), &["-pthread"])?,
            heaptrack_library: heaptrack_library(),
            tcmalloc: library_path("libtcmalloc.so.4"),
            inputs,
            scratch,
            ledgers: Ledgers::new("bench")?,
        })
    }

    /// Removes what a run has left behind.
    pub(super) fn clean(&self) -> Result {
        let problem = |error| format!("{}: {error}", self.scratch.display());
        fs::remove_dir_all(&self.scratch).map_err(problem)?;
        fs::create_dir_all(&self.scratch).map_err(problem)
    }

    /// Writes an input, and returns its path.
    pub(super) fn input(&self, name: &str, text: &str) -> Result<String> {
        let path = self.inputs.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path.to_string_lossy().into_owned())
    }
}

fn compile(source: &str, product: &Path, flags: &[&str]) -> Result<PathBuf> {
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-g", "-Wall"]).args(flags).arg("-o").arg(product).arg(root().join("victims").join(source));
    output(&mut gcc)?;
    Ok(product.to_owned())
}

fn heaptrack_library() -> Option<PathBuf> {
    let command = find(&["heaptrack"])?;
    let prefix = fs::canonicalize(command).ok()?.parent()?.parent()?.to_owned();
    let candidates = HEAPTRACK_LIBRARY.iter().map(|place| prefix.join(place).join("libheaptrack_preload.so"));
    candidates.into_iter().find(|path| path.exists())
}

/// The first of these programs that there is.
pub(super) fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = |name: &&str| {
        let directories = std::env::split_paths(&path);
        directories.map(|directory| directory.join(name)).find(|path| path.is_file())
    };
    names.iter().find_map(in_path)
}
