//! Inputs that are read as a row of operations.

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

    fn bytes(&mut self, len: u8) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(usize::from(len).min(self.0.len()));
        self.0 = rest;
        taken
    }
}
