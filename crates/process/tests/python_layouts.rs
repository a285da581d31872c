//! Where CPython's structures have their parts, against the headers of those versions that are installed.

#![cfg(not(feature = "loom"))]

use heapledger_process::python::LAYOUTS;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

/// What a program that includes the headers prints: as in [`heapledger_process::python::Layout`], in its order.
const PROGRAM: &str = r#"
#define Py_BUILD_CORE 1
#include <Python.h>
#include <internal/pycore_frame.h>
#include <stddef.h>
#include <stdio.h>
#define AT(type, field) (int)offsetof(type, field)
int main(void)
{
#if PY_VERSION_HEX < 0x030d0000
    printf("%d %d,%d ", AT(PyThreadState, cframe), AT(_PyCFrame, current_frame), AT(_PyCFrame, previous));
    printf("%d %d %d ", AT(_PyInterpreterFrame, f_code), AT(_PyInterpreterFrame, previous), AT(_PyInterpreterFrame, prev_instr));
#else
    printf("%d - ", AT(PyThreadState, current_frame));
    printf("%d %d %d ", AT(_PyInterpreterFrame, f_executable), AT(_PyInterpreterFrame, previous), AT(_PyInterpreterFrame, instr_ptr));
#endif
#if PY_VERSION_HEX < 0x030c0000
    printf("%d ", AT(_PyInterpreterFrame, is_entry));
#else
    printf("- ");
    if (FRAME_OWNED_BY_CSTACK != 3)
        return 1;
#endif
    printf("%d %d %d ", AT(_PyInterpreterFrame, owner), AT(PyCodeObject, co_firstlineno), AT(PyCodeObject, co_filename));
    printf("%d %d %d ", AT(PyCodeObject, co_qualname), AT(PyCodeObject, co_linetable), AT(PyCodeObject, co_code_adaptive));
    printf("%d,%d ", (int)sizeof(PyASCIIObject), (int)sizeof(PyCompactUnicodeObject));
    printf("%d %d %d ", AT(PyObject, ob_type), AT(PyVarObject, ob_size), AT(PyBytesObject, ob_sval));
    printf("%d %d\n", AT(PyASCIIObject, length), AT(PyASCIIObject, state));
    return 0;
}
"#;

/// Directories with headers of a version.
fn headers(minor: u8) -> Vec<PathBuf> {
    let name = format!("python3.{minor}");
    let own = PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".pyenv/versions");
    let installed = fs::read_dir(own).into_iter().flatten().flatten().map(|entry| entry.path().join("include"));
    let all = [PathBuf::from("/usr/include"), PathBuf::from("/usr/local/include")].into_iter().chain(installed);
    all.map(|directory| directory.join(&name)).filter(|path| path.join("internal/pycore_frame.h").exists()).collect()
}

#[test]
fn layouts_are_those_of_the_headers() {
    let place = env::temp_dir().join(format!("heapledger-layouts-{}", std::process::id()));
    fs::create_dir_all(&place).expect("a directory");
    for layout in &LAYOUTS {
        let expected = layout.to_string();
        let headers = headers(layout.minor());
        if headers.is_empty() {
            eprintln!("SKIPPED: Python 3.{}: its headers are not installed", layout.minor());
        }
        for directory in headers {
            let (source, program) = (place.join("layout.c"), place.join(format!("layout-{}", layout.minor())));
            fs::write(&source, PROGRAM).expect("written");
            let made = Command::new("cc").arg("-I").arg(&directory).arg(&source).arg("-o").arg(&program).output();
            let made = made.expect("a compiler");
            assert!(made.status.success(), "{}: {}", directory.display(), String::from_utf8_lossy(&made.stderr));
            let ran = Command::new(&program).output().expect("it runs");
            assert!(ran.status.success(), "{}", directory.display());
            assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), expected, "{}", directory.display());
        }
    }
    let _ = fs::remove_dir_all(place);
}
