//! `clio params`.

use super::config::settings;
use crate::app::App;
use crate::log::say;
use crate::report::Stop;
use clap::{Args, Subcommand};
use clio::config::Source;
use clio::{Config, Error};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Read settings, or write them to the settings file
#[derive(Args, Debug)]
pub(crate) struct Params {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Show the values in force, all or those named
    #[command(visible_alias = "list")]
    Get {
        /// Names, as `cache_mb`
        names: Vec<String>,
    },
    /// Write values to the settings file; comments in it are kept
    Set {
        /// As `cache_mb=1024`
        #[arg(required = true, value_name = "NAME=VALUE")]
        pairs: Vec<String>,
    },
}

impl Params {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        match self.action {
            Action::Get { names } => get(app, &names),
            Action::Set { pairs } => set(app, &pairs),
        }
    }
}

fn get(app: &App, names: &[String]) -> Result<(), Stop> {
    for name in names {
        // Says what is nearest, for a name that isn't one.
        let known = settings(&app.config()?).iter().any(|s| s.name() == name);
        if let Err(e) = Config::default().set(name, "", Source::Given)
            && !known
        {
            return Err(Stop::on(name, e));
        }
    }
    let mut chosen = settings(&app.config()?);
    chosen.retain(|s| names.is_empty() || names.iter().any(|n| n == s.name()));
    if app.json() {
        return app.print_json(&chosen);
    }
    let mut out = app.out();
    for s in &chosen {
        out.line(format!("{}={}", s.name(), s.value()))?;
    }
    out.finish()
}

fn set(app: &App, pairs: &[String]) -> Result<(), Stop> {
    let Some(path) = app.config_file() else {
        return Err(Stop::Usage("there is no home folder for settings; give --config FILE, or set CLIO_CONFIG".into()));
    };
    let path = path.as_path();
    let fail = |e| Stop::on(path, e);
    let mut text = match fs::read_to_string(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => String::new(),
        other => other.map_err(|e| fail(Error::from_io("read", e)))?,
    };
    // A file that is wrong already is not made worse.
    Config::default().merge_toml(&text, path).map_err(fail)?;
    for pair in pairs {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(Stop::Usage(format!("{pair}: give NAME=VALUE")));
        };
        let (name, value) = (name.trim(), value.trim());
        let mut check = Config::default();
        check.set(name, value, Source::Given).map_err(|e| Stop::on(pair, e))?;
        text = with_value(&text, name, check.get(name));
    }
    Config::default().merge_toml(&text, path).map_err(fail)?;
    if let Some(folder) = path.parent().filter(|_| app.config_file_is_implied()) {
        fs::create_dir_all(folder).map_err(|e| fail(Error::from_io("write", e)))?;
    }
    replace(path, &text).map_err(|e| fail(Error::from_io("write", e)))?;
    overridden(path, pairs);
    Ok(())
}

/// Says where a variable will hide what was just written.
fn overridden(path: &Path, pairs: &[String]) {
    for name in pairs.iter().filter_map(|p| p.split_once('=')).map(|(n, _)| n.trim()) {
        let variable = format!("CLIO_{}", name.to_ascii_uppercase());
        if std::env::var_os(&variable).is_some() {
            say(format_args!("clio: note: {variable} is set, and overrides {name} of {}", path.display()));
        }
    }
}

/// The text of a settings file with `name` set: on its own line, if it has one, else on a new one.
fn with_value(text: &str, name: &str, value: u64) -> String {
    let line = format!("{name} = {value}");
    let key_of = |l: &str| l.split_once('=').map(|(k, _)| k.trim().trim_matches('"').to_string());
    let mut found = false;
    let mut lines: Vec<String> = Vec::new();
    // What follows the first table's header belongs to tables.
    let mut in_tables = false;
    for old in text.lines() {
        if old.trim_start().starts_with('[') && !in_tables {
            in_tables = true;
            if !found {
                lines.push(line.clone());
                found = true;
            }
        }
        if in_tables || key_of(old).as_deref() != Some(name) {
            lines.push(old.to_string());
            continue;
        }
        found = true;
        // A comment after the value stays; values that hold a '#' are none of ours.
        let comment = old.find('#').map(|at| format!(" {}", &old[at..])).unwrap_or_default();
        lines.push(format!("{line}{comment}"));
    }
    if !found {
        lines.push(line);
    }
    lines.join("\n") + "\n"
}

/// Replaces a file as a whole: a crash leaves the old one or the new one.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    // Through a link, not in place of it.
    let path: PathBuf = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let mut fresh = path.clone().into_os_string();
    fresh.push(".new");
    let mut file = File::create(&fresh)?;
    file.write_all(text.as_bytes())?;
    if let Ok(old) = fs::metadata(&path) {
        file.set_permissions(old.permissions())?;
    }
    file.sync_all()?;
    fs::rename(&fresh, &path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_replaces_its_line_and_keeps_the_rest() {
        let old = "# mine\ncache_mb = 64 # small\n\n max_pages_per_rpc=32\n";
        assert_eq!(with_value(old, "cache_mb", 9), "# mine\ncache_mb = 9 # small\n\n max_pages_per_rpc=32\n");
        assert_eq!(
            with_value(old, "max_pages_per_rpc", 64),
            "# mine\ncache_mb = 64 # small\n\nmax_pages_per_rpc = 64\n"
        );
        assert_eq!(with_value("", "max_pages_per_rpc", 64), "max_pages_per_rpc = 64\n");
        assert_eq!(with_value("# cache_mb = 1\n", "cache_mb", 2), "# cache_mb = 1\ncache_mb = 2\n");
        let tables = "cache_mb = 1\n[layouts.\"/a\"]\nstripe_kb = 64\n";
        assert_eq!(
            with_value(tables, "stripe_kb", 128),
            "cache_mb = 1\nstripe_kb = 128\n[layouts.\"/a\"]\nstripe_kb = 64\n"
        );
        assert_eq!(with_value(tables, "cache_mb", 2), "cache_mb = 2\n[layouts.\"/a\"]\nstripe_kb = 64\n");
    }

    #[test]
    fn what_is_written_is_read() {
        let mut config = Config::default();
        config.merge_toml(&with_value("checksums = true\n", "checksums", 0), Path::new("x")).unwrap();
        assert_eq!(config.get("checksums"), 0);
    }
}
