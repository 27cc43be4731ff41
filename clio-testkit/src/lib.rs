//! What tests share.
//!
//! [`fuzz`] holds the targets that `fuzz/` runs for long and the tests of this crate run over their corpus.

#![forbid(unsafe_code)]

pub mod fuzz;
