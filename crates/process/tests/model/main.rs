//! Random sequences of calls on both backends, against a model that is a plain map; read back by the
//! ordinary reader.
#![cfg(not(feature = "loom"))]

mod accounts;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod anew;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod calls;
mod chip;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod labels;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod left;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod linux;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod marks;
mod model;
mod sequence;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod switch;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod windows;
