//! `clio completions`.

use crate::app::App;
use crate::cli::Cli;
use crate::report::Stop;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::io::Write;

/// Print a completion script for a shell
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        // Through memory: the generator takes a closed pipe for a reason to panic.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "clio", &mut script);
        let mut out = app.out();
        out.write_all(&script)?;
        out.finish()
    }
}
