use clio_core::units::BLOCK_SIZE;

/// Bytes by which an arena grows, and the unit in which its pages are made present: one huge page.
pub const CHUNK_BYTES: usize = 2 << 20;

/// Blocks of 4 KiB in a chunk.
pub(crate) const CHUNK_BLOCKS: usize = CHUNK_BYTES / BLOCK_SIZE as usize;

/// A size in which page memory is given out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum SizeClass {
    /// 4 KiB: one block.
    K4,
    /// 16 KiB.
    K16,
    /// 64 KiB.
    K64,
    /// 1 MiB: the largest folio.
    M1,
}

impl SizeClass {
    /// All, smallest first.
    pub const ALL: [SizeClass; 4] = [SizeClass::K4, SizeClass::K16, SizeClass::K64, SizeClass::M1];

    /// The class whose size is exactly `bytes`.
    #[inline]
    pub fn of(bytes: usize) -> Option<SizeClass> {
        match bytes {
            0x1000 => Some(SizeClass::K4),
            0x4000 => Some(SizeClass::K16),
            0x1_0000 => Some(SizeClass::K64),
            0x10_0000 => Some(SizeClass::M1),
            _ => None,
        }
    }

    /// Its size in bytes.
    #[inline]
    pub fn bytes(self) -> usize {
        self.blocks() * BLOCK_SIZE as usize
    }

    /// Its size in blocks of 4 KiB.
    #[inline]
    pub fn blocks(self) -> usize {
        1 << self.blocks_log2()
    }

    #[inline]
    pub(crate) fn blocks_log2(self) -> u32 {
        [0, 2, 4, 8][self as usize]
    }

    /// The next larger class, into which free neighbours of this one are joined.
    pub(crate) fn parent(self) -> Option<SizeClass> {
        Self::ALL.get(self as usize + 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_classes_agree() {
        for class in SizeClass::ALL {
            assert_eq!(SizeClass::of(class.bytes()), Some(class));
            assert_eq!(CHUNK_BLOCKS % class.blocks(), 0);
        }
        assert_eq!(SizeClass::ALL.map(SizeClass::bytes), [4 << 10, 16 << 10, 64 << 10, 1 << 20]);
        assert_eq!([0, 1, 4095, 8192, 2 << 20].map(SizeClass::of), [None; 5]);
    }
}
