//! The side file of an object: a header, then checksums of its data's 4 KiB blocks.
//!
//! After the header's page come pages of 4 KiB, each for 992 blocks (3.9 MiB) of the object: 992 crc32c of four bytes,
//! then 992 bits that mark blocks written since the object was last made durable, then four bytes unused. A checksum
//! of 0 stands for a block never written, which must read as zeros; where a block's crc32c is 0, 1 is stored. The end
//! of the object counts as followed by zeros.
//!
//! Marks and new checksums are written before the data they are for. What a kill of the process leaves unfinished is
//! thereby marked, and taken as it is (`recover`).

use super::format::{HEADER_SIZE, SideHeader};
use crate::sys;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::units::BLOCK_SIZE;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Blocks that one page has checksums for.
pub(super) const PAGE_BLOCKS: u64 = 992;
const PAGE: usize = 4096;
const MARKS: usize = PAGE_BLOCKS as usize * 4;
/// Pages kept in memory for each open object; any can be dropped, since all changes are written at once.
const CACHED_PAGES: usize = 32;

/// crc32c of a block of zeros, and as much of zeros as anything here needs.
pub(super) static ZEROS: [u8; BLOCK_SIZE as usize] = [0; BLOCK_SIZE as usize];

/// A checksum as stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sum(u32);

impl Sum {
    /// Of a block never written, or freed.
    pub(super) const HOLE: Sum = Sum(0);

    /// From the crc32c of a block's `len` bytes up to the end of the object; the rest counts as zeros.
    pub(super) fn from_crc(crc: u32, len: usize) -> Sum {
        Sum(crc32c::crc32c_append(crc, &ZEROS[len.min(ZEROS.len())..]).max(1))
    }

    pub(super) fn of(block: &[u8]) -> Sum {
        Self::from_crc(crc32c::crc32c(block), block.len())
    }

    /// Whether a block with the sum `found` is what was stored.
    pub(super) fn allows(self, found: Sum) -> bool {
        self == found || (self == Self::HOLE && found == Self::of(&ZEROS))
    }
}

/// One page of checksums and marks.
#[derive(Clone)]
struct Page(Box<[u8; PAGE]>);

impl Page {
    fn sum(&self, i: usize) -> Sum {
        let b = &self.0[i * 4..i * 4 + 4];
        Sum(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    fn set(&mut self, i: usize, sum: Sum) {
        self.0[i * 4..i * 4 + 4].copy_from_slice(&sum.0.to_le_bytes());
    }

    fn marked(&self, i: usize) -> bool {
        self.0[MARKS + i / 8] >> (i % 8) & 1 == 1
    }

    fn mark(&mut self, i: usize) {
        self.0[MARKS + i / 8] |= 1 << (i % 8);
    }

    fn clear_marks(&mut self) {
        self.0[MARKS..].fill(0);
    }

    fn has_marks(&self) -> bool {
        self.0[MARKS..].iter().any(|b| *b != 0)
    }
}

/// A block's checksum and whether it is marked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) block: u64,
    pub(super) sum: Sum,
    pub(super) marked: bool,
}

/// An open side file. Reads may come from several threads; changes are ordered by the object's lock.
pub(super) struct SideFile {
    file: Arc<File>,
    pages: RankedMutex<HashMap<u64, Page>>,
    /// Pages that may have marks.
    marked: BTreeSet<u64>,
}

impl std::fmt::Debug for SideFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SideFile({:?})", self.file)
    }
}

fn page_offset(page: u64) -> u64 {
    (page + 1) * PAGE as u64
}

/// Fills `buf` from `offset`, with zeros from the file's end on.
pub(super) fn read_padded(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut got = 0;
    while got < buf.len() {
        match file.read_at(&mut buf[got..], offset + got as u64) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    buf[got..].fill(0);
    Ok(got)
}

impl SideFile {
    pub(super) fn new(file: File) -> Self {
        let pages = RankedMutex::new(LockRank::Leaf, HashMap::new());
        Self { file: Arc::new(file), pages, marked: BTreeSet::new() }
    }

    /// The file, to make it durable without holding the object's lock.
    pub(super) fn file(&self) -> Arc<File> {
        self.file.clone()
    }

    /// The bytes of the header.
    pub(super) fn read_header(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; HEADER_SIZE];
        let got = read_padded(&self.file, &mut bytes, 0)?;
        bytes.truncate(got);
        Ok(bytes)
    }

    pub(super) fn write_header(&self, header: &SideHeader) -> io::Result<()> {
        self.file.write_all_at(&header.encode(), 0)
    }

    /// Whether the checksum of `block` can be had without waiting for the disk: its page is loaded if that takes no
    /// waiting, or in spite of that if not `nowait`.
    pub(super) fn is_at_hand(&self, block: u64, nowait: bool) -> bool {
        self.load(&mut self.pages.lock(), block / PAGE_BLOCKS, nowait).is_ok()
    }

    /// Drops a page if there are too many, whichever comes first.
    fn make_room(pages: &mut HashMap<u64, Page>) {
        if pages.len() >= CACHED_PAGES
            && let Some(any) = pages.keys().next().copied()
        {
            pages.remove(&any);
        }
    }

    pub(super) fn sum(&self, block: u64) -> io::Result<Sum> {
        let mut pages = self.pages.lock();
        Ok(self.load(&mut pages, block / PAGE_BLOCKS, false)?.sum((block % PAGE_BLOCKS) as usize))
    }

    /// All entries of one page.
    pub(super) fn entries(&self, page: u64) -> io::Result<Vec<Entry>> {
        let mut pages = self.pages.lock();
        let page_ref = self.load(&mut pages, page, false)?;
        let entry = |i: u64| {
            let (sum, marked) = (page_ref.sum(i as usize), page_ref.marked(i as usize));
            Entry { block: page * PAGE_BLOCKS + i, sum, marked }
        };
        Ok((0..PAGE_BLOCKS).map(entry).collect())
    }

    /// The page, from the disk if need be; with `nowait`, an error where that would be waited for.
    fn load<'a>(&self, pages: &'a mut HashMap<u64, Page>, page: u64, nowait: bool) -> io::Result<&'a mut Page> {
        if !pages.contains_key(&page) {
            Self::make_room(pages);
        }
        match pages.entry(page) {
            std::collections::hash_map::Entry::Occupied(o) => Ok(o.into_mut()),
            std::collections::hash_map::Entry::Vacant(v) => {
                let mut bytes = Box::new([0; PAGE]);
                match nowait {
                    // It is one page of the system's cache: all of it is there, or nothing, or the file ends.
                    true => sys::read_now_at(self.file.as_fd(), &mut bytes[..], page_offset(page))?,
                    false => read_padded(&self.file, &mut bytes[..], page_offset(page))?,
                };
                Ok(v.insert(Page(bytes)))
            }
        }
    }

    /// Sets checksums and marks their blocks; `sums` in ascending order.
    pub(super) fn update(&mut self, sums: &[(u64, Sum)]) -> io::Result<()> {
        for group in sums.chunk_by(|a, b| a.0 / PAGE_BLOCKS == b.0 / PAGE_BLOCKS) {
            let page = group[0].0 / PAGE_BLOCKS;
            self.change_marked(page, |p| {
                for (block, sum) in group {
                    p.set((block % PAGE_BLOCKS) as usize, *sum);
                    p.mark((block % PAGE_BLOCKS) as usize);
                }
            })?;
        }
        Ok(())
    }

    /// Changes a page that marks come to.
    fn change_marked(&mut self, page: u64, f: impl FnOnce(&mut Page)) -> io::Result<()> {
        let changed = self.change(page, f);
        // A page that the disk refused has the marks that it had: if it is beyond what a file can hold, none, and nobody
        // could ever take one off.
        if changed.is_ok() || self.load(&mut self.pages.lock(), page, false).map_or(true, |p| p.has_marks()) {
            self.marked.insert(page);
        }
        changed
    }

    /// Changes a page in memory and on disk; if the disk refuses, in neither.
    fn change(&self, page: u64, f: impl FnOnce(&mut Page)) -> io::Result<()> {
        let mut pages = self.pages.lock();
        let p = self.load(&mut pages, page, false)?;
        f(p);
        let written = self.file.write_all_at(&p.0[..], page_offset(page));
        if written.is_err() {
            pages.remove(&page);
        }
        written
    }

    /// Frees the checksums of the blocks `[first, end)`, and marks them. Touches only pages that are on disk.
    pub(super) fn clear(&mut self, first: u64, end: u64) -> io::Result<()> {
        for page in self.pages_on_disk(first / PAGE_BLOCKS, end.div_ceil(PAGE_BLOCKS))? {
            let base = page * PAGE_BLOCKS;
            let range = first.max(base) - base..end.min(base + PAGE_BLOCKS) - base;
            self.change_marked(page, |p| {
                for i in range {
                    if p.sum(i as usize) != Sum::HOLE {
                        p.set(i as usize, Sum::HOLE);
                        p.mark(i as usize);
                    }
                }
            })?;
        }
        Ok(())
    }

    /// Drops the checksums and marks of `first` and all blocks after it.
    pub(super) fn cut(&mut self, first: u64) -> io::Result<()> {
        let keep = first.div_ceil(PAGE_BLOCKS);
        if self.file.metadata()?.len() > page_offset(keep) {
            self.file.set_len(page_offset(keep))?;
        }
        self.pages.lock().retain(|page, _| *page < keep);
        self.marked.split_off(&keep);
        if first.is_multiple_of(PAGE_BLOCKS) || self.file.metadata()?.len() <= page_offset(keep - 1) {
            return Ok(());
        }
        self.change(keep - 1, |p| {
            for i in (first % PAGE_BLOCKS)..PAGE_BLOCKS {
                p.set(i as usize, Sum::HOLE);
            }
        })
    }

    /// Pages from `first` to before `end` that may hold something.
    pub(super) fn pages_on_disk(&self, first: u64, end: u64) -> io::Result<Vec<u64>> {
        let mut found = Vec::new();
        let mut at = page_offset(first);
        loop {
            match sys::seek(self.file.as_fd(), at, false) {
                Ok(data) => {
                    let page = data / PAGE as u64 - 1;
                    if page >= end {
                        return Ok(found);
                    }
                    found.push(page);
                    at = page_offset(page + 1);
                }
                Err(e) if e.raw_os_error() == Some(libc::ENXIO) => return Ok(found),
                Err(e) => return Err(e),
            }
        }
    }

    /// The blocks from `first` to before `end` that are marked, ascending.
    pub(super) fn marked_blocks(&self, first: u64, end: u64) -> io::Result<Vec<u64>> {
        let mut found = Vec::new();
        for page in self.pages_on_disk(first / PAGE_BLOCKS, end.div_ceil(PAGE_BLOCKS))? {
            let entries = self.entries(page)?;
            let marked = entries.iter().filter(|e| e.marked && (first..end).contains(&e.block));
            found.extend(marked.map(|e| e.block));
        }
        Ok(found)
    }

    /// After opening: finds the pages with marks.
    pub(super) fn find_marks(&mut self) -> io::Result<()> {
        for page in self.pages_on_disk(0, u64::MAX)? {
            let has = self.load(&mut self.pages.lock(), page, false)?.has_marks();
            if has {
                self.marked.insert(page);
            }
        }
        Ok(())
    }

    /// Takes all marks off.
    pub(super) fn clear_marks(&mut self) -> io::Result<()> {
        while let Some(&page) = self.marked.first() {
            self.change(page, Page::clear_marks)?;
            self.marked.remove(&page);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_brought_into_memory_and_few_pages_stay() {
        let mut side = SideFile::new(tempfile::tempfile().unwrap());
        let pages = 3 * CACHED_PAGES as u64;
        let sum = |page: u64| Sum(page as u32 + 1);
        for page in 0..pages {
            side.update(&[(page * PAGE_BLOCKS + 7, sum(page))]).unwrap();
        }
        for page in (0..pages).rev() {
            let block = page * PAGE_BLOCKS + 7;
            assert!(side.is_at_hand(block, false), "page {page}");
            assert!(side.pages.lock().contains_key(&page));
            assert_eq!(side.sum(block).unwrap(), sum(page));
            assert!(side.pages.lock().len() <= CACHED_PAGES);
        }
        // Beyond the end of the file nothing was ever written.
        assert!(side.is_at_hand(pages * PAGE_BLOCKS, false));
        assert_eq!(side.sum(pages * PAGE_BLOCKS).unwrap(), Sum::HOLE);
    }
}
