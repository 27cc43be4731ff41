//! `cliod`: serves a store to all processes of a machine.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[path = "../log.rs"]
mod log;

use clap::Parser;
use clio::config::Source;
use clio::node::{Service, ServiceOptions, Stop};
use clio::{Config, Errno, Error};
use log::say;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Serves a store in a folder to the processes of this machine, until SIGTERM, or 'clio shutdown'.
#[derive(Parser, Debug)]
#[command(name = "cliod", version)]
struct Cliod {
    /// The store: a folder, or dir:/path?targets=4; it is made if it doesn't exist
    #[arg(long, value_name = "URI", env = "CLIO_STORE")]
    store: String,
    /// Listen here, instead of in the runtime folder
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// End once there has been no client for this many seconds
    #[arg(long, value_name = "SECONDS")]
    idle_exit: Option<u64>,
    /// The settings file (clio.toml)
    #[arg(long, value_name = "FILE", env = "CLIO_CONFIG")]
    config: Option<PathBuf>,
    /// Override a setting
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Started by a client: tells on standard output whether it serves, and then lets go of it
    #[arg(long, hide = true)]
    on_demand: bool,
}

fn main() -> ExitCode {
    let args = Cliod::parse();
    log::to_stderr("warn");
    match open(&args) {
        Ok(service) => serve(&args, service),
        Err(e) => {
            if args.on_demand {
                // Whoever started it may be gone.
                let _ = writeln!(std::io::stdout(), "{} {}", e.errno().raw(), e.detail());
            }
            say(format_args!("cliod: {e}"));
            ExitCode::FAILURE
        }
    }
}

fn open(args: &Cliod) -> Result<Service, Error> {
    let mut config = Config::load(args.config.as_deref())?;
    for pair in &args.set {
        let no_pair = || Error::new(Errno::EINVAL, "cliod", format!("--set {pair}: give NAME=VALUE"));
        let (name, value) = pair.split_once('=').ok_or_else(no_pair)?;
        config.set(name, value, Source::Given)?;
    }
    let idle_exit = args.idle_exit.or(Some(config.get("idle_exit_s")).filter(|s| *s > 0));
    let options = ServiceOptions { socket: args.socket.clone(), idle_exit: idle_exit.map(Duration::from_secs) };
    Service::open(&args.store, &config, &options)
}

fn serve(args: &Cliod, service: Service) -> ExitCode {
    if let Err(e) = end_on_signals(service.stop()) {
        say(format_args!("cliod: signals can't be caught: {e}"));
        return ExitCode::FAILURE;
    }
    match args.on_demand {
        true => say_ready(),
        false => {
            let _ = writeln!(std::io::stdout(), "serving {} at {}", args.store, service.socket().display());
        }
    }
    // Without a service manager, nobody is told.
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
    match service.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            say(format_args!("cliod: {e}"));
            ExitCode::FAILURE
        }
    }
}

/// Tells the client that started the daemon; then standard output is nobody's.
fn say_ready() {
    let _ = writeln!(std::io::stdout(), "ready");
    let _ = std::io::stdout().flush();
    if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}

fn end_on_signals(stop: Stop) -> std::io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT])?;
    let thread = std::thread::Builder::new().name("cliod-signals".into());
    thread.spawn(move || {
        for _ in signals.forever() {
            let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Stopping]);
            stop.stop();
        }
    })?;
    Ok(())
}
