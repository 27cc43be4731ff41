//! Settings, from a file and from variables.

use super::{Verdict, refused};
use clio::Config;
use clio::config::Source;
use clio_core::Errno;
use std::path::Path;

const FILE: &str = "clio.toml";

/// The text of a `clio.toml`. Its lines are also taken as variables, `NAME=value`.
pub fn configuration(input: &[u8]) -> Verdict {
    let Ok(text) = std::str::from_utf8(input) else { return Verdict::Refused };
    let mut config = Config::default();
    let from_file = match config.merge_toml(text, Path::new(FILE)) {
        Ok(()) => Verdict::Accepted,
        Err(e) => {
            assert!(e.to_string().contains(FILE), "the error names the file: {e}");
            refused(&e, &[Errno::EINVAL])
        }
    };
    laws(&config);
    let variable = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut config = Config::default();
    if let Err(e) = config.merge_environment(text.lines().filter_map(variable)) {
        refused(&e, &[Errno::EINVAL]);
    }
    laws(&config);
    from_file
}

/// Whatever was merged, and however far: values are in their ranges, and can be written down and read again.
fn laws(config: &Config) {
    let mut text = String::new();
    for (key, value, source) in config.entries() {
        assert!((key.range.0..=key.range.1).contains(&value), "{} = {value} ({source})", key.name);
        assert!(*source != Source::Default || value == key.default);
        assert_eq!(config.get(key.name), value);
        text += &format!("{} = {value}\n", key.name);
    }
    assert!(config.get("stripe_kb").is_multiple_of(64));
    assert!(config.get("max_pages_per_rpc").is_power_of_two());
    let mut again = Config::default();
    again.merge_toml(&text, Path::new(FILE)).expect("a valid configuration can be read again");
    let values = |c: &Config| c.entries().map(|(_, value, _)| value).collect::<Vec<_>>();
    assert_eq!(values(&again), values(config));
}
