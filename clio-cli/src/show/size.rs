//! Sizes for people.

use clap::Args;

/// The choice of sizes for people, which takes -h from the help.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct Human {
    /// Sizes with K, M, G… (powers of 1024)
    #[arg(short = 'h', long = "human-readable")]
    pub(crate) human: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// A size with at most three digits and a letter, rounded up as coreutils do.
pub(crate) fn human(bytes: u64) -> String {
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut unit = 1u128 << 10;
    let mut letters = "KMGTPE".chars();
    let mut letter = letters.next().unwrap_or('K');
    for next in letters {
        if u128::from(bytes).div_ceil(unit) < 1024 {
            break;
        }
        (unit, letter) = (unit << 10, next);
    }
    let tenths = (u128::from(bytes) * 10).div_ceil(unit);
    match tenths < 100 {
        true => format!("{}.{}{letter}", tenths / 10, tenths % 10),
        false => format!("{}{letter}", u128::from(bytes).div_ceil(unit)),
    }
}

/// A size without rounding: with the largest letter that leaves a whole number.
pub(crate) fn exact(bytes: u64) -> String {
    let units = [(60, "E"), (50, "P"), (40, "T"), (30, "G"), (20, "M"), (10, "K")];
    match units.iter().find(|(shift, _)| bytes != 0 && bytes.is_multiple_of(1 << shift)) {
        Some((shift, letter)) => format!("{}{letter}", bytes >> shift),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{exact, human};

    #[test]
    fn exact_sizes_can_be_given_back() {
        for (bytes, text) in [(0, "0"), (65536, "64K"), (1 << 20, "1M"), (1000, "1000"), ((1 << 30) + 1024, "1048577K")]
        {
            assert_eq!(exact(bytes), text);
            assert_eq!(crate::size::parse(text), Ok(bytes));
        }
    }

    #[test]
    fn as_coreutils_show_them() {
        let cases = [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0K"),
            (1025, "1.1K"),
            (10 << 10, "10K"),
            ((1 << 20) - 1, "1.0M"),
            (256 << 20, "256M"),
            (u64::MAX, "16E"),
        ];
        for (bytes, text) in cases {
            assert_eq!(human(bytes), text);
        }
    }
}
