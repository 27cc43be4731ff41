//! The arguments, and the way from them to a command and an exit code.

use crate::app::App;
use crate::commands::*;
use crate::report::Stop;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Reads, writes and looks after a Clio store.
#[derive(Parser, Debug)]
#[command(name = "clio", version, propagate_version = true, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes: 0 all done, 1 something failed (each failure has its line on stderr), 2 bad usage."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options that every command takes.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// The store: node:/path (shared through its daemon), dir:/path?targets=4 or a bare path (this process alone), or mem:
    /// (which is empty, and gone at the end of the command)
    #[arg(long, value_name = "URI", env = "CLIO_STORE", global = true)]
    pub(crate) store: Option<String>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The settings file (clio.toml)
    #[arg(long, value_name = "FILE", env = "CLIO_CONFIG", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// Override a setting for this command; `clio params get` lists them
    #[arg(long = "set", value_name = "NAME=VALUE", global = true)]
    pub(crate) set: Vec<String>,
    /// Print this command's statistics to stderr at its end: RPC sizes, cache, locks, grants
    #[arg(long = "print-stats", global = true)]
    pub(crate) print_stats: bool,
}

#[derive(Subcommand, Debug)]
enum Command {
    Put(put::Put),
    Get(get::Get),
    Cat(cat::Cat),
    Ls(ls::Ls),
    Mkdir(mkdir::Mkdir),
    Rm(rm::Rm),
    Mv(mv::Mv),
    Cp(cp::Cp),
    Ln(ln::Ln),
    Stat(stat::Stat),
    Df(df::Df),
    Du(du::Du),
    Setstripe(setstripe::Setstripe),
    Getstripe(getstripe::Getstripe),
    Stats(stats::Stats),
    Top(top::Top),
    Params(params::Params),
    Check(check::Check),
    Config(config::Config),
    Bench(bench::Bench),
    Status(status::Status),
    Serve(serve::Serve),
    Shutdown(shutdown::Shutdown),
    Format(format::Format),
    Completions(completions::Completions),
}

impl Command {
    fn name(&self) -> &'static str {
        match self {
            Command::Put(_) => "put",
            Command::Get(_) => "get",
            Command::Cat(_) => "cat",
            Command::Ls(_) => "ls",
            Command::Mkdir(_) => "mkdir",
            Command::Rm(_) => "rm",
            Command::Mv(_) => "mv",
            Command::Cp(_) => "cp",
            Command::Ln(_) => "ln",
            Command::Stat(_) => "stat",
            Command::Df(_) => "df",
            Command::Du(_) => "du",
            Command::Setstripe(_) => "setstripe",
            Command::Getstripe(_) => "getstripe",
            Command::Stats(_) => "stats",
            Command::Top(_) => "top",
            Command::Params(_) => "params",
            Command::Check(_) => "check",
            Command::Config(_) => "config",
            Command::Bench(_) => "bench",
            Command::Status(_) => "status",
            Command::Serve(_) => "serve",
            Command::Shutdown(_) => "shutdown",
            Command::Format(_) => "format",
            Command::Completions(_) => "completions",
        }
    }

    fn run(self, app: &App) -> Result<(), Stop> {
        match self {
            Command::Put(c) => c.run(app),
            Command::Get(c) => c.run(app),
            Command::Cat(c) => c.run(app),
            Command::Ls(c) => c.run(app),
            Command::Mkdir(c) => c.run(app),
            Command::Rm(c) => c.run(app),
            Command::Mv(c) => c.run(app),
            Command::Cp(c) => c.run(app),
            Command::Ln(c) => c.run(app),
            Command::Stat(c) => c.run(app),
            Command::Df(c) => c.run(app),
            Command::Du(c) => c.run(app),
            Command::Setstripe(c) => c.run(app),
            Command::Getstripe(c) => c.run(app),
            Command::Stats(c) => c.run(app),
            Command::Top(c) => c.run(app),
            Command::Params(c) => c.run(app),
            Command::Check(c) => c.run(app),
            Command::Config(c) => c.run(app),
            Command::Bench(c) => c.run(app),
            Command::Status(c) => c.run(app),
            Command::Serve(c) => c.run(app),
            Command::Shutdown(c) => c.run(app),
            Command::Format(c) => c.run(app),
            Command::Completions(c) => c.run(app),
        }
    }
}

/// Parses the arguments, runs the command and says how it went. Bad usage ends the process in `parse`, with code 2.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    // Errors are logged in any case.
    crate::log::to_stderr("error");
    let app = App::new(cli.command.name(), cli.global);
    let outcome = cli.command.run(&app);
    app.end(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    /// Arguments that each command needs, besides its own name.
    const NEEDS: &[(&str, &[&str])] = &[
        ("bench", &[]),
        ("cat", &["/f"]),
        ("check", &[]),
        ("completions", &["bash"]),
        ("config", &[]),
        ("cp", &["/f", "/g"]),
        ("df", &[]),
        ("du", &[]),
        ("format", &[]),
        ("get", &["/f", "f"]),
        ("getstripe", &["/f"]),
        ("ln", &["-s", "/f", "/g"]),
        ("ls", &[]),
        ("mkdir", &["/d"]),
        ("mv", &["/f", "/g"]),
        ("params", &["get"]),
        ("put", &["f", "/f"]),
        ("rm", &["/f"]),
        ("serve", &[]),
        ("setstripe", &["-c", "1", "/f"]),
        ("shutdown", &[]),
        ("stat", &["/f"]),
        ("stats", &[]),
        ("status", &[]),
        ("top", &[]),
    ];

    #[test]
    fn commands_are_called_what_their_messages_say() {
        let mut commands: Vec<_> = Cli::command().get_subcommands().map(|c| c.get_name().to_owned()).collect();
        commands.sort();
        assert_eq!(commands, NEEDS.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "each command is tried here");
        for (name, needs) in NEEDS {
            let parsed = Cli::try_parse_from(["clio", name].iter().chain(*needs));
            let cli = parsed.unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(cli.command.name(), *name);
        }
    }
}
