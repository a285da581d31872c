//! (in work)
#![no_std]
