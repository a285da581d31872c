//! Core dumps, `whereis`, and the commands in gdb.
//!
//! | module | what |
//! |---|---|
//! | `tools` | the program that is looked at, and gdb |
//! | `cores` | core dumps in place of a ledger; `whereis` |
//! | `dumps` | `mdd_dump` and all other commands in gdb, on a process and on a remote target |
//! | `sessions` | copies in several sessions of gdb: numbers, and what each shows of the history |
//! | `own` | a program with the crate inside, which gdb runs |
//! | `memory` | guards that are watched, and a ledger that lies in memory, as firmware's does |

mod tools;

mod cores;
mod dumps;
mod memory;
mod own;
mod sessions;
