//! What both programs have to say on standard error.

use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr};
use tracing_subscriber::EnvFilter;

/// From now on, what is logged goes to standard error. `CLIO_LOG` chooses what that is, in the syntax of
/// tracing-subscriber's filters; otherwise `default` does. Colours are for terminals, where `NO_COLOR` doesn't forbid them.
pub(crate) fn to_stderr(default: &str) {
    let filter = EnvFilter::try_from_env("CLIO_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let colours = stderr().is_terminal() && !forbidden;
    // Without a word about errors of writing: it would go the same way, and panic there.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr).with_ansi(colours);
    log.log_internal_errors(false).init();
}

/// Says something. If nobody reads that, nobody is told, and the work goes on.
pub(crate) fn say(text: impl Display) {
    let _ = writeln!(stderr(), "{text}");
}
