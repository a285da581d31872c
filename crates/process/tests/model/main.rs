//! Random sequences of calls on both backends, against a model that is a plain map; read back by the
//! ordinary reader.

#[cfg(all(target_os = "linux", target_arch = "x86_64", not(feature = "loom")))]
mod anew;
mod chip;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(feature = "loom")))]
mod left;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(feature = "loom")))]
mod linux;
mod model;
mod sequence;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(feature = "loom")))]
mod switch;
