//! The book in `docs`, as its readers use it: each page is typed from top to bottom.
//!
//! The first word of a fenced block says what it is, what follows how it is tried:
//! - `console`: lines that begin with `$ ` are commands (`> ` goes on), what follows is what they print. They are typed into one shell for the
//!   whole page, in an empty directory. Every command must succeed, unless the next one is `echo $?`. Lines that are shown must be printed,
//!   in that order; figures, times and addresses may be others ([`compare`]). `console exact` wants every line as it is.
//! - `c file=leak.c`: is written to that file.
//! - `console not-run=docker`: needs what is not here; the shell only reads it. So with `yaml`, `dockerfile`, `ini` and `groovy`, which
//!   something else reads, and which [`syntax`] looks at.

pub mod compare;
pub mod pages;
pub mod shell;
pub mod syntax;
pub mod typed;
