//! Inputs that are read as a row of operations.

use clio_core::units::{BLOCK_SIZE, MAX_FILE_SIZE};

/// Reads numbers and strings; at the end of the input there are no more.
pub(super) struct Script<'a>(&'a [u8]);

/// A string of this length byte is the next one, [`REPEATS`] times: short inputs can have long paths.
pub(super) const REPEATED: u8 = u8::MAX;
/// More than enough for a path beyond the longest.
pub(super) const REPEATS: usize = 40;

impl<'a> Script<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Self(input)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A length byte and as many bytes, or what there is of them.
    pub(super) fn string(&mut self) -> Option<Vec<u8>> {
        match self.byte()? {
            REPEATED => {
                let len = self.byte()?;
                Some(self.bytes(len).repeat(REPEATS))
            }
            len => Some(self.bytes(len).to_vec()),
        }
    }

    /// A number in two bytes: which place it is near, and how far from it. Small ones, ends of blocks and chunks, the
    /// largest offset there is, and what lies beyond are all near.
    pub(super) fn number(&mut self) -> Option<u64> {
        let (place, delta) = (self.byte()?, self.byte()?);
        let near = |base: u64| base.wrapping_add_signed(i64::from(delta as i8));
        Some(match place % 8 {
            0 => u64::from(delta),
            1 => u64::from(delta) * BLOCK_SIZE,
            2 => near(BLOCK_SIZE),
            3 => near(64 << 10),
            4 => near(1 << 20),
            5 => near(1 << 40),
            6 => near(MAX_FILE_SIZE),
            _ => near(u64::MAX),
        })
    }

    fn bytes(&mut self, len: u8) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(usize::from(len).min(self.0.len()));
        self.0 = rest;
        taken
    }
}
