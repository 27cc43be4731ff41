//! Seeds that people could have written.

use super::Seed;
use clio::config::KEYS;

pub(super) fn configuration() -> Vec<Seed> {
    const TARGET: &str = "configuration";
    let defaults: String = KEYS.iter().map(|k| format!("{} = {}\n", k.name, k.default)).collect();
    let variables: String = KEYS.iter().map(|k| format!("CLIO_{}={}\n", k.name.to_uppercase(), k.range.1)).collect();
    vec![
        Seed::accepted(TARGET, "defaults", defaults),
        Seed::accepted(
            TARGET,
            "forms",
            "# switches\nchecksums = \"off\"\ncache_mb = 0x40\nmax_pages_per_rpc = \"256\"\n",
        ),
        Seed::refused(TARGET, "variables", variables),
        Seed::refused(TARGET, "unknown", "cache_md = 64\n"),
        Seed::refused(TARGET, "out-of-range", "cache_mb = 64\nstripe_kb = 100\n"),
        Seed::refused(TARGET, "no-power", "max_pages_per_rpc = 100\n"),
        Seed::refused(TARGET, "table", "[cache]\nmb = [1, { a = 1979-05-27 }]\n"),
        Seed::refused(TARGET, "syntax", "cache_mb = ["),
    ]
}

pub(super) fn store_uris() -> Vec<Seed> {
    const TARGET: &str = "store_uris";
    vec![
        Seed::accepted(TARGET, "mem", "mem:"),
        Seed::accepted(TARGET, "mem-named", "mem:scratch?targets=4"),
        Seed::accepted(TARGET, "dir", "dir:/data/store?targets=4&targets=8"),
        Seed::accepted(TARGET, "path", "./a/b:c"),
        Seed::refused(TARGET, "rados", "rados://pool/name"),
        Seed::refused(TARGET, "unknown", "ftp:/x"),
        Seed::refused(TARGET, "parameter", "dir:/x?stripes=2"),
        Seed::refused(TARGET, "no-targets", "mem:x?targets=0"),
        Seed::refused(TARGET, "too-many-targets", "mem:x?targets=1025"),
        Seed::refused(TARGET, "no-folder", "dir:"),
    ]
}
