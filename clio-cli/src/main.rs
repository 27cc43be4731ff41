//! `clio`: the command line of Clio.

#![forbid(unsafe_code)]

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
