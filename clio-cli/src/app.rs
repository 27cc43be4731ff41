//! What every command works with: the store, the settings, and the way to report failures.

use crate::cli::Global;
use crate::log::say;
use crate::output::Output;
use crate::report::{Stop, message};
use crate::show;
use clio::config::Source;
use clio::{Client, Config, Errno, Error, StoreUri};
use serde::Serialize;
use std::cell::OnceCell;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// One run of one command.
#[derive(Debug)]
pub(crate) struct App {
    global: Global,
    client: OnceCell<Client>,
    failures: Failures,
}

/// Where failures of single items are reported; shared by the threads of a transfer.
#[derive(Debug)]
pub(crate) struct Failures {
    command: &'static str,
    any: AtomicBool,
}

impl Failures {
    /// None yet, of this command.
    pub(crate) fn new(command: &'static str) -> Self {
        Self { command, any: AtomicBool::new(false) }
    }

    /// Whether something failed.
    pub(crate) fn are_any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Says that something about `item` failed. The command goes on, and will exit with code 1.
    pub(crate) fn add(&self, item: impl AsRef<OsStr>, error: &Error) {
        self.any.store(true, Ordering::Relaxed);
        say(message(self.command, &show::escaped(item.as_ref()), error));
    }
}

impl App {
    pub(crate) fn new(command: &'static str, global: Global) -> Self {
        Self { global, client: OnceCell::new(), failures: Failures::new(command) }
    }

    /// Whether JSON is wanted.
    pub(crate) fn json(&self) -> bool {
        self.global.json
    }

    /// The settings file: the one that is named, or the user's.
    pub(crate) fn config_file(&self) -> Option<PathBuf> {
        self.global.config.clone().or_else(Config::default_file)
    }

    /// Whether the settings file is the user's, which nobody has named.
    pub(crate) fn config_file_is_implied(&self) -> bool {
        self.global.config.is_none()
    }

    /// Where failures are reported.
    pub(crate) fn failures(&self) -> &Failures {
        &self.failures
    }

    /// Standard output.
    pub(crate) fn out(&self) -> Output {
        Output::stdout()
    }

    /// Prints one JSON document.
    pub(crate) fn print_json(&self, value: &impl Serialize) -> Result<(), Stop> {
        let mut out = self.out();
        serde_json::to_writer_pretty(&mut out, value).map_err(std::io::Error::from)?;
        out.line("")?;
        out.finish()
    }

    /// The store's URI as it was given.
    pub(crate) fn store_text(&self) -> Result<&str, Stop> {
        let none = || Stop::Usage("no store is named; give --store dir:/path, or set CLIO_STORE".into());
        self.global.store.as_deref().filter(|s| !s.is_empty()).ok_or_else(none)
    }

    /// The store's URI.
    pub(crate) fn store(&self) -> Result<StoreUri, Stop> {
        let text = self.store_text()?;
        text.parse().map_err(|e| Stop::on(text, e))
    }

    /// The merged settings: built in, of the file, of the environment, of `--set`.
    pub(crate) fn config(&self) -> Result<Config, Stop> {
        let shown = self.global.config.as_deref().map_or(OsStr::new("settings"), Path::as_os_str);
        let mut config = Config::load(self.global.config.as_deref()).map_err(|e| Stop::on(shown, e))?;
        for pair in &self.global.set {
            let Some((name, value)) = pair.split_once('=') else {
                return Err(Stop::Usage(format!("--set {pair}: give NAME=VALUE")));
            };
            config.set(name, value, Source::Given).map_err(|e| Stop::on(format!("--set {pair}"), e))?;
        }
        Ok(config)
    }

    /// The arguments that give these settings to another program.
    pub(crate) fn settings_arguments(&self) -> Vec<std::ffi::OsString> {
        let file = self.global.config.iter().flat_map(|file| ["--config".into(), file.into()]);
        file.chain(self.global.set.iter().flat_map(|pair| ["--set".into(), pair.into()])).collect()
    }

    /// A client of a store that exists.
    pub(crate) fn client(&self) -> Result<Client, Stop> {
        self.must_exist()?;
        self.client_of_new()
    }

    /// A client of the store, which is made if it doesn't exist.
    pub(crate) fn client_of_new(&self) -> Result<Client, Stop> {
        if let StoreUri::Mem { .. } = self.store()? {
            say("clio: note: a mem: store is empty at the start of every command, and gone at its end");
        }
        self.connect(self.store_text()?)
    }

    /// A client of the store `uri`.
    pub(crate) fn connect(&self, uri: &str) -> Result<Client, Stop> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let config = self.config()?;
        let client = Client::builder().store(uri).config(config).connect();
        let client = client.map_err(|e| Stop::on(self.global.store.as_deref().unwrap_or(uri), e))?;
        Ok(self.client.get_or_init(|| client).clone())
    }

    /// Commands that only look don't make a store where none is: a typing error would be told by an empty listing.
    pub(crate) fn must_exist(&self) -> Result<(), Stop> {
        match self.store()? {
            StoreUri::Dir { path, .. } | StoreUri::Node { path, .. } if is_missing(&path) => {
                let why = "there is no store in this folder; check --store, or make a store with 'clio format'";
                Err(Stop::on(self.store_text()?, Error::new(Errno::ENOENT, "open", why)))
            }
            _ => Ok(()),
        }
    }

    /// Says how the command ended, closes the store, and gives the exit code.
    pub(crate) fn end(self, outcome: Result<(), Stop>) -> ExitCode {
        let failed = match outcome {
            Ok(()) | Err(Stop::Pipe) => false,
            Err(Stop::Said) => true,
            Err(Stop::Usage(why)) => {
                say(format_args!("clio: {}: {why}", self.failures.command));
                return ExitCode::from(2);
            }
            Err(Stop::Failed { item, error }) => {
                say(message(self.failures.command, &item, &error));
                true
            }
        };
        if let Some(client) = self.client.get().filter(|_| self.global.print_stats) {
            say(client.stats());
        }
        ExitCode::from(u8::from(failed || self.failures.are_any()))
    }
}

/// Whether there is nothing at `path` that could be a store: no folder, an empty one, or one that holds no more than the
/// lock of who once began to make a store there.
pub(crate) fn is_missing(path: &Path) -> bool {
    match std::fs::read_dir(path) {
        Ok(mut entries) => entries.all(|e| e.is_ok_and(|e| e.file_name() == "lock")),
        Err(e) => e.kind() == std::io::ErrorKind::NotFound,
    }
}
