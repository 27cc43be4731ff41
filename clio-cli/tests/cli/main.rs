//! The real `clio` binary on `dir:` stores in temporary folders.

mod bad_input;
mod full_disk;
mod harness;
mod layouts;
mod listings;
mod names;
mod read_only;
mod readme;
mod settings;
mod transfers;
