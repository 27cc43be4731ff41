//! The process's umask. Clio has none of its own, and what is made from the command line should be as private as
//! what coreutils make.

/// The umask; 022 where the system doesn't tell.
pub(crate) fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    parse(&status).unwrap_or(0o022)
}

/// Reading it with umask(2) would change it for a moment, so it is taken from the process's status.
fn parse(status: &str) -> Option<u32> {
    let value = status.lines().find_map(|l| l.strip_prefix("Umask:"))?;
    u32::from_str_radix(value.trim(), 8).ok()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn reads_the_line_of_the_status() {
        assert_eq!(parse("Name:\tx\nUmask:\t0077\nState:\tR\n"), Some(0o077));
        assert_eq!(parse("Name:\tx\n"), None);
    }
}
