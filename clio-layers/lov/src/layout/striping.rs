//! How one component is striped, as its owner wants it.

use super::{DEFAULT_STRIPE_SIZE, MAX_POOL_NAME, MAX_STRIPE_SIZE, MAX_STRIPES, STRIPE_SIZE_UNIT, invalid};
use clio_core::Result;
use clio_core::units::TargetIndex;

/// How many stripes are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StripeCount {
    /// One on each target of the store or pool, at the time when the component is instantiated.
    All,
    /// This many, at least 1.
    Exactly(u16),
}

impl StripeCount {
    /// 0 and `u16::MAX` mean [`StripeCount::All`].
    pub fn from_raw(n: u16) -> Self {
        match n {
            0 | u16::MAX => StripeCount::All,
            n => StripeCount::Exactly(n),
        }
    }

    /// The inverse of [`StripeCount::from_raw`], with 0 for all.
    pub fn raw(self) -> u16 {
        match self {
            StripeCount::All => 0,
            StripeCount::Exactly(n) => n,
        }
    }
}

/// How a component is striped.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Striping {
    /// Bytes that go to one stripe before the next stripe's turn.
    pub stripe_size: u64,
    /// Number of stripes.
    pub stripe_count: StripeCount,
    /// The target of stripe 0; `None` leaves it to the allocator.
    pub first_target: Option<TargetIndex>,
    /// Whether a target may hold more than one stripe.
    pub overstriping: bool,
    /// The pool that targets are taken from; `None` for all targets of the store.
    pub pool: Option<String>,
}

impl Default for Striping {
    fn default() -> Self {
        Self {
            stripe_size: DEFAULT_STRIPE_SIZE,
            stripe_count: StripeCount::Exactly(1),
            first_target: None,
            overstriping: false,
            pool: None,
        }
    }
}

impl Striping {
    /// Checks what can be checked without knowing the store's targets; see `Targets::check` for the rest.
    pub(super) fn check(&self) -> Result<()> {
        check_stripe_size(self.stripe_size)?;
        match self.stripe_count {
            StripeCount::Exactly(n) if n == 0 || n > MAX_STRIPES => {
                return Err(invalid(format!("stripe count {n} is out of range; use 1 to {MAX_STRIPES}, or 0 for all")));
            }
            _ => {}
        }
        self.pool.as_deref().map_or(Ok(()), check_pool_name)
    }
}

fn check_stripe_size(size: u64) -> Result<()> {
    if size == 0 || size > MAX_STRIPE_SIZE {
        return Err(invalid(format!(
            "stripe size {size} is out of range; use {STRIPE_SIZE_UNIT} to {MAX_STRIPE_SIZE} bytes"
        )));
    }
    if !size.is_multiple_of(STRIPE_SIZE_UNIT) {
        let below = size / STRIPE_SIZE_UNIT * STRIPE_SIZE_UNIT;
        let above = below + STRIPE_SIZE_UNIT;
        let nearest = if below == 0 { above.to_string() } else { format!("{below} or {above}") };
        return Err(invalid(format!(
            "stripe size {size} is not a multiple of {STRIPE_SIZE_UNIT} bytes; the nearest that would do: {nearest}"
        )));
    }
    Ok(())
}

/// Pool names go into paths, command lines and listings: letters, digits, `_`, `-` and `.` only.
pub(super) fn check_pool_name(name: &str) -> Result<()> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    if name.is_empty() || name.len() > MAX_POOL_NAME || !name.bytes().all(plain) {
        return Err(invalid(format!(
            "pool name {name:?} is not valid; use 1 to {MAX_POOL_NAME} letters, digits, '_', '-' or '.'"
        )));
    }
    Ok(())
}
