//! Settings: built-in values, overridden by `clio.toml`, overridden by `CLIO_*` variables, overridden by the caller.

use clio_core::{Errno, Error, Result};
use std::fmt;
use std::path::{Path, PathBuf};

/// Where a value came from, later ones override earlier ones.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Source {
    /// Built in.
    Default,
    /// A configuration file.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
    /// A flag, or the program's own call.
    Given,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::File(p) => write!(f, "{}", p.display()),
            Source::Environment(v) => f.write_str(v),
            Source::Given => f.write_str("given"),
        }
    }
}

/// A setting that exists.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name in `clio.toml`; the variable is `CLIO_` and the name in capitals.
    pub name: &'static str,
    /// Built-in value.
    pub default: u64,
    /// Smallest and largest value.
    pub range: (u64, u64),
    /// What it means, with its unit.
    pub help: &'static str,
}

/// All settings. Switches are 0 or 1.
pub const KEYS: &[Key] = &[
    key("cache_mb", 512, (4, 1 << 20), "page cache limit in MiB"),
    key("dirty_mb", 256, (1, 1 << 20), "dirty data limit in MiB, for each target"),
    key("rpc_kb", 4096, (64, 65536), "largest transfer in KiB"),
    key("rpcs_in_flight", 8, (1, 256), "transfers in flight, for each target"),
    key("writeback_age_ms", 5000, (10, 3_600_000), "age in ms at which dirty data is written out"),
    key("writeback_lag_ms", 10, (0, 60_000), "time in ms that full transfers wait for the end of a burst of writes"),
    key("readahead_mb", 64, (0, 1 << 20), "read-ahead limit in MiB, for each file; 0 turns it off"),
    key("checksums", 1, (0, 1), "crc32c of all transferred data"),
    key("resends", 10, (0, 1000), "how often a transfer or lock request is sent again after a passing error"),
    key("resend_ms", 20, (1, 60_000), "time in ms before the first resend; doubles with each, up to 2 s"),
    key("lock_lru", 100_000, (16, 10_000_000), "idle locks kept, for each target"),
    key("stripe_count", 0, (0, 2000), "stripes of new files; 0: all targets"),
    key("stripe_kb", 1024, (64, 1 << 22), "stripe size of new files in KiB, a multiple of 64"),
    key(
        "lock_timeout_ms",
        0,
        (0, 3_600_000),
        "time in ms after which a client that keeps a wanted lock is evicted; 0: never",
    ),
];

const fn key(name: &'static str, default: u64, range: (u64, u64), help: &'static str) -> Key {
    Key { name, default, range, help }
}

/// The merged settings.
#[derive(Clone, Debug)]
pub struct Config {
    values: Vec<(u64, Source)>,
}

impl Default for Config {
    fn default() -> Self {
        Self { values: KEYS.iter().map(|k| (k.default, Source::Default)).collect() }
    }
}

impl Config {
    /// Built-in values, then those of `file` (which must exist if named), then those of the `CLIO_*` variables.
    /// Without `file`, `CLIO_CONFIG` names one.
    ///
    /// # Errors
    /// `EINVAL` for an unknown key or a value out of range, with the nearest key or the range; the file's own error.
    pub fn load(file: Option<&Path>) -> Result<Self> {
        let named = file.map(Path::to_path_buf).or_else(|| std::env::var_os("CLIO_CONFIG").map(PathBuf::from));
        let mut config = Self::default();
        if let Some(path) = named {
            let text = std::fs::read_to_string(&path)
                .map_err(|e| Error::from_io("config", e).at(path.display().to_string()))?;
            config.merge_toml(&text, &path)?;
        }
        config.merge_environment(
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))),
        )?;
        Ok(config)
    }

    /// Overrides by the text of a `clio.toml`.
    ///
    /// # Errors
    /// `EINVAL`, naming the file and what is wrong.
    pub fn merge_toml(&mut self, text: &str, path: &Path) -> Result<()> {
        let at = |e: Error| e.at(path.display().to_string());
        let table: toml::Table = text
            .parse()
            .map_err(|e: toml::de::Error| at(Error::new(Errno::EINVAL, "config", e.message().to_string())))?;
        for (name, value) in &table {
            let value = match value {
                toml::Value::Integer(n) => n.to_string(),
                toml::Value::Boolean(b) => u64::from(*b).to_string(),
                other => other.as_str().map_or_else(|| other.to_string(), str::to_string),
            };
            self.set(name, &value, Source::File(path.to_path_buf())).map_err(at)?;
        }
        Ok(())
    }

    /// Overrides by `CLIO_*` variables. Variables that other parts of Clio own are passed over.
    ///
    /// # Errors
    /// As [`Config::set`]; an unknown `CLIO_` variable is an error too, lest a typing error goes unnoticed.
    pub fn merge_environment(&mut self, variables: impl Iterator<Item = (String, String)>) -> Result<()> {
        const OTHERS: &[&str] = &["CLIO_CONFIG", "CLIO_STORE", "CLIO_PREFIX", "CLIO_FD_BASE", "CLIO_LOG"];
        let mut all: Vec<_> =
            variables.filter(|(k, _)| k.starts_with("CLIO_") && !OTHERS.contains(&k.as_str())).collect();
        all.sort();
        for (variable, value) in all {
            let name = variable["CLIO_".len()..].to_ascii_lowercase();
            self.set(&name, &value, Source::Environment(variable))?;
        }
        Ok(())
    }

    /// Sets one value.
    ///
    /// # Errors
    /// `EINVAL` for an unknown key, with the nearest one, or a value out of range, with the range.
    pub fn set(&mut self, name: &str, value: &str, source: Source) -> Result<()> {
        let bad = |why: String| Err(Error::new(Errno::EINVAL, "config", why));
        let Some(at) = KEYS.iter().position(|k| k.name == name) else {
            let nearest = KEYS.iter().min_by_key(|k| strsim::levenshtein(k.name, name)).map_or("", |k| k.name);
            return bad(format!("unknown setting '{name}' ({source}); did you mean '{nearest}'?"));
        };
        let (lo, hi) = KEYS[at].range;
        let parsed = match value {
            "true" | "on" | "yes" => Some(1),
            "false" | "off" | "no" => Some(0),
            n => n.parse::<u64>().ok(),
        };
        match parsed.filter(|n| (lo..=hi).contains(n)) {
            Some(_) if name == "stripe_kb" && parsed.is_some_and(|n| n % 64 != 0) => {
                bad(format!("stripe_kb = {value} ({source}): give a multiple of 64"))
            }
            Some(n) => {
                self.values[at] = (n, source);
                Ok(())
            }
            None => bad(format!("{name} = {value} ({source}): give a number from {lo} to {hi}")),
        }
    }

    /// The value of a setting.
    ///
    /// # Panics
    /// If there is no such setting: a programming error.
    pub fn get(&self, name: &str) -> u64 {
        let at = KEYS.iter().position(|k| k.name == name);
        at.map_or_else(|| panic!("no setting is called {name}"), |at| self.values[at].0)
    }

    /// All settings with their values and where those came from.
    pub fn entries(&self) -> impl Iterator<Item = (&'static Key, u64, &Source)> {
        KEYS.iter().zip(&self.values).map(|(k, (v, s))| (k, *v, s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_sources_override_earlier_ones() {
        let mut c = Config::default();
        c.merge_toml("cache_mb = 64\nchecksums = false\nrpc_kb = 128\n", Path::new("clio.toml")).unwrap();
        c.merge_environment([("CLIO_RPC_KB".into(), "256".into()), ("PATH".into(), "x".into())].into_iter()).unwrap();
        c.set("dirty_mb", "8", Source::Given).unwrap();
        assert_eq!(
            ["cache_mb", "checksums", "rpc_kb", "dirty_mb", "rpcs_in_flight"].map(|k| c.get(k)),
            [64, 0, 256, 8, 8]
        );
        let from = |name| c.entries().find(|e| e.0.name == name).map(|e| e.2.to_string());
        assert_eq!(from("cache_mb").as_deref(), Some("clio.toml"));
        assert_eq!(from("rpc_kb").as_deref(), Some("CLIO_RPC_KB"));
        assert_eq!(from("lock_lru").as_deref(), Some("default"));
    }

    #[test]
    fn errors_say_what_to_do() {
        let mut c = Config::default();
        let says = |e: Result<()>, what: &str| {
            let e = e.unwrap_err().to_string();
            assert!(e.contains(what), "{e}");
        };
        says(c.set("cache_md", "1", Source::Given), "did you mean 'cache_mb'?");
        says(c.set("cache_mb", "0", Source::Given), "from 4 to");
        says(c.set("stripe_kb", "100", Source::Given), "multiple of 64");
        says(c.merge_toml("cache_mb = [", Path::new("x.toml")), "x.toml");
        says(c.merge_environment([("CLIO_CACHE".into(), "1".into())].into_iter()), "did you mean 'cache_mb'?");
    }
}
