//! `clio`: the command line of Clio.

#![forbid(unsafe_code)]
// They panic where nobody reads: see `output`, and `log::say`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod app;
mod cli;
mod commands;
mod log;
mod output;
mod paths;
mod report;
mod show;
mod size;
mod transfer;
mod umask;

fn main() -> std::process::ExitCode {
    cli::main()
}
