//! Settings: built-in values, overridden by `clio.toml`, overridden by `CLIO_*` variables, overridden by the caller.

mod keys;
mod tables;

pub use keys::{KEYS, Key};

use clio_core::{Errno, Error, Result};
use clio_lov::layout::Layout;
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

/// The merged settings.
#[derive(Clone, Debug)]
pub struct Config {
    values: Vec<(u64, Source)>,
    tables: tables::Tables,
}

impl Default for Config {
    fn default() -> Self {
        let values = KEYS.iter().map(|k| (k.default, Source::Default)).collect();
        Self { values, tables: tables::Tables::default() }
    }
}

impl Config {
    /// Built-in values, then those of a file, then those of the `CLIO_*` variables. The file is `file`, or the one that
    /// `CLIO_CONFIG` names, which must exist; else [`Config::default_file`], if it exists.
    ///
    /// # Errors
    /// `EINVAL` for an unknown key or a value out of range, with the nearest key or the range; the file's own error.
    pub fn load(file: Option<&Path>) -> Result<Self> {
        let named = file.map(Path::to_path_buf).or_else(|| std::env::var_os("CLIO_CONFIG").map(PathBuf::from));
        let must_exist = named.is_some();
        let mut config = Self::default();
        if let Some(path) = named.or_else(Self::default_file) {
            match std::fs::read_to_string(&path) {
                Ok(text) => config.merge_toml(&text, &path)?,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound && !must_exist => {}
                Err(e) => return Err(Error::from_io("config", e).at(path.display().to_string())),
            }
        }
        config.merge_environment(
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))),
        )?;
        Ok(config)
    }

    /// Where settings are looked for if no file is named: `clio/clio.toml` in the user's configuration folder
    /// (`XDG_CONFIG_HOME`, or `.config` in the home folder).
    pub fn default_file() -> Option<PathBuf> {
        let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        // As the XDG rules have it: a relative path there is to be ignored.
        let folder = set("XDG_CONFIG_HOME").filter(|p| p.is_absolute());
        let folder = folder.or_else(|| set("HOME").map(|home| home.join(".config")));
        folder.map(|f| f.join("clio").join("clio.toml"))
    }

    /// Overrides by the text of a `clio.toml`: settings, and the tables `[pools]` and `[layouts."/prefix"]`.
    ///
    /// # Errors
    /// `EINVAL`, naming the file and what is wrong.
    pub fn merge_toml(&mut self, text: &str, path: &Path) -> Result<()> {
        let at = |e: Error| e.at(path.display().to_string());
        let table: toml::Table = text
            .parse()
            .map_err(|e: toml::de::Error| at(Error::new(Errno::EINVAL, "config", e.message().to_string())))?;
        for (name, value) in &table {
            if let toml::Value::Table(entries) = value {
                self.tables.merge(name, entries, &Source::File(path.to_path_buf())).map_err(at)?;
                continue;
            }
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
        const OTHERS: &[&str] =
            &["CLIO_CONFIG", "CLIO_STORE", "CLIO_PREFIX", "CLIO_FD_BASE", "CLIO_LOG", "CLIO_RUNTIME_DIR", "CLIO_CLIOD"];
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
            Some(n) if name == "max_pages_per_rpc" && !n.is_power_of_two() => {
                let (below, above) = (1 << n.ilog2(), n.next_power_of_two());
                bad(format!("{name} = {value} ({source}): give a power of two, as {below} or {above}"))
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

    /// The value of a setting that somebody has set, and where; `None` if it is the built-in one.
    pub(crate) fn asked(&self, name: &str) -> Option<(u64, &Source)> {
        self.entries()
            .find(|(key, ..)| key.name == name)
            .map(|(_, value, source)| (value, source))
            .filter(|(_, s)| **s != Source::Default)
    }

    /// Makes or replaces a pool of targets, for layouts to name.
    pub fn set_pool(&mut self, name: &str, members: impl IntoIterator<Item = u16>) {
        self.tables.pools.insert(name.to_string(), (members.into_iter().collect(), Source::Given));
    }

    /// The pools, by name: their targets, and where they came from.
    pub fn pools(&self) -> impl Iterator<Item = (&str, &[u16], &Source)> {
        self.tables.pools.iter().map(|(name, (members, source))| (name.as_str(), members.as_slice(), source))
    }

    /// New files under `prefix` get `layout`, unless they or their directory ask for another. The longest prefix counts.
    ///
    /// # Errors
    /// `EINVAL` if the prefix doesn't start with a slash, or for a layout that can't be.
    pub fn set_layout_rule(&mut self, prefix: &str, layout: Layout) -> Result<()> {
        layout.check().map_err(|e| e.at(prefix))?;
        self.tables.layouts.insert(prefix.as_bytes(), (layout, Source::Given))?;
        Ok(())
    }

    /// The rules for layouts: each prefix, its layout, and where they came from.
    pub fn layout_rules(&self) -> impl Iterator<Item = (String, &Layout, &Source)> {
        let rules = self.tables.layouts.iter();
        rules.map(|(prefix, (layout, source))| (String::from_utf8_lossy(prefix).into_owned(), layout, source))
    }

    /// The layout of a new file at `path` that nobody asked another for.
    pub fn layout_for(&self, path: &Path) -> Layout {
        use std::os::unix::ffi::OsStrExt;
        // Paths in a store start at its root, with a slash or without.
        let path = [b"/", path.as_os_str().as_bytes()].concat();
        match self.tables.layouts.find(&path) {
            Some(rule) => rule.value.0.clone(),
            None => {
                let count = self.get("stripe_count") as u16;
                Layout::raid0().stripe_count(count).stripe_size(self.get("stripe_kb") << 10)
            }
        }
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
        c.merge_toml("cache_mb = 64\nchecksums = false\nmax_pages_per_rpc = 32\n", Path::new("clio.toml")).unwrap();
        c.merge_environment([("CLIO_MAX_PAGES_PER_RPC".into(), "64".into()), ("PATH".into(), "x".into())].into_iter())
            .unwrap();
        c.set("max_dirty_mb", "8", Source::Given).unwrap();
        assert_eq!(
            ["cache_mb", "checksums", "max_pages_per_rpc", "max_dirty_mb", "max_rpcs_in_flight"].map(|k| c.get(k)),
            [64, 0, 64, 8, 8]
        );
        let from = |name| c.entries().find(|e| e.0.name == name).map(|e| e.2.to_string());
        assert_eq!(from("cache_mb").as_deref(), Some("clio.toml"));
        assert_eq!(from("max_pages_per_rpc").as_deref(), Some("CLIO_MAX_PAGES_PER_RPC"));
        assert_eq!(from("lock_lru").as_deref(), Some("default"));
    }

    #[test]
    fn the_longest_prefix_decides_the_layout() {
        let text = "stripe_count = 1\n[pools]\nfast = [0, 2]\n\
                    [layouts.\"/run\"]\nstripe_count = 4\nstripe_kb = 4096\npool = \"fast\"\n\
                    [layouts.\"/run/logs\"]\nstripe_kb = 64\n";
        let mut c = Config::default();
        c.merge_toml(text, Path::new("clio.toml")).unwrap();
        let file = Source::File("clio.toml".into());
        assert_eq!(c.pools().collect::<Vec<_>>(), [("fast", &[0u16, 2][..], &file)]);
        let fast = Layout::raid0().stripe_count(4).stripe_size(4 << 20).pool("fast");
        assert_eq!(c.layout_for(Path::new("/run/ckpt")), fast);
        assert_eq!(c.layout_for(Path::new("run/a/b")), fast);
        assert_eq!(c.layout_for(Path::new("/run/logs/1")), Layout::raid0().stripe_size(64 << 10));
        c.set_layout_rule("/run/logs", Layout::raid0().stripe_count(2)).unwrap();
        let rules: Vec<_> = c.layout_rules().map(|(prefix, _, source)| (prefix, source.clone())).collect();
        assert_eq!(rules, [("/run".to_string(), file), ("/run/logs".to_string(), Source::Given)]);
        assert_eq!(c.layout_for(Path::new("/runs")), Layout::raid0().stripe_count(1).stripe_size(1 << 20));
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
        says(c.set("max_pages_per_rpc", "1000", Source::Given), "(given): give a power of two, as 512 or 1024");
        says(c.set("max_pages_per_rpc", "17", Source::Given), "as 16 or 32");
        says(c.set("max_pages_per_rpc", "16385", Source::Given), "from 16 to 16384");
        says(c.merge_toml("cache_mb = [", Path::new("x.toml")), "x.toml");
        says(c.merge_toml("[pool]\na = [1]", Path::new("x.toml")), "did you mean 'pools'?");
        says(c.merge_toml("[pools]\na = 1", Path::new("x.toml")), "give a list of target numbers");
        says(c.merge_toml("[layouts]\n\"/a\" = 1", Path::new("x.toml")), "give a table");
        says(c.merge_toml("[layouts.\"/a\"]\nstripes = 1", Path::new("x.toml")), "did you mean 'stripe_");
        says(c.merge_toml("[layouts.\"/a\"]\nstripe_kb = 100", Path::new("x.toml")), "multiple of");
        says(c.merge_toml("[layouts.a]\nstripe_kb = 64", Path::new("x.toml")), "must start with '/'");
        says(c.merge_environment([("CLIO_CACHE".into(), "1".into())].into_iter()), "did you mean 'cache_mb'?");
    }
}
