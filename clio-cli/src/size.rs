//! Sizes as arguments: `65536`, `64K`, `1M`, `4GiB`.

/// Reads a size in bytes with an optional suffix K, M, G, T, P or E, powers of 1024, in either case.
///
/// # Errors
/// A sentence that says what would do.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let bad = || format!("'{text}' is no size; give bytes, or a number with K, M, G, T, P or E");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| bad())?;
    let suffix = suffix.to_ascii_uppercase();
    let letter = suffix.strip_suffix("IB").or_else(|| suffix.strip_suffix('B')).unwrap_or(&suffix);
    let shift = match letter {
        "" if suffix != "IB" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        "P" => 50,
        "E" => 60,
        _ => return Err(bad()),
    };
    let bytes = number.checked_shl(shift).filter(|n| n >> shift == number);
    bytes.ok_or_else(|| format!("'{text}' is too large; the limit is 2^64 - 1 bytes"))
}

/// Reads the end of a component: a size, or -1 or `eof` for the end of file, which is `None`.
///
/// # Errors
/// As [`parse`].
pub(crate) fn parse_end(text: &str) -> Result<Option<u64>, String> {
    match text {
        "-1" => Ok(None),
        t if t.eq_ignore_ascii_case("eof") => Ok(None),
        t => parse(t).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn suffixes() {
        let ok = [("0", 0), ("65536", 65536), ("64K", 65536), ("64k", 65536), ("1M", 1 << 20), ("3g", 3 << 30)];
        for (text, bytes) in ok.into_iter().chain([("2T", 2 << 40), ("1MiB", 1 << 20), ("1MB", 1 << 20), ("7B", 7)]) {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for bad in ["", "K", "-1", "1.5M", "1X", "1 M", "iB", "1iB", "0x10", "99999999999999999999", "1KK"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse("16E").unwrap_err().contains("too large"));
    }

    #[test]
    fn ends() {
        assert_eq!(parse_end("-1"), Ok(None));
        assert_eq!(parse_end("EOF"), Ok(None));
        assert_eq!(parse_end("64M"), Ok(Some(64 << 20)));
        assert!(parse_end("-2").is_err());
    }

    proptest! {
        #[test]
        fn what_parses_is_what_was_written(n in 0u64..1 << 34, unit in 0usize..4) {
            let (letter, shift) = [("", 0), ("K", 10), ("M", 20), ("G", 30)][unit];
            prop_assert_eq!(parse(&format!("{n}{letter}")), Ok(n << shift));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = (parse(&text), parse_end(&text));
        }
    }
}
