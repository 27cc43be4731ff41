//! Checks a whole object against its checksums.

use super::object::OpenObject;
use super::side::PAGE_BLOCKS;
use crate::sys;
use clio_core::Result;
use clio_core::units::{BLOCK_SIZE, Fid};
use std::collections::BTreeSet;
use std::os::fd::AsFd;

/// Damaged places that a report lists; more are only counted.
const LISTED: usize = 64;

/// What is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DamageKind {
    /// A block's data has another checksum than was stored.
    Checksum,
    /// The file ends before this block does.
    Short,
    /// The object can't be opened: its checksum file is missing, damaged, or another's, or its file was changed in
    /// length.
    Object,
}

/// A damaged place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// Byte offset of the block.
    pub offset: u64,
    /// What is wrong with it.
    pub kind: DamageKind,
    /// The same for people.
    pub detail: String,
}

/// The outcome of [`DirStore::verify`](crate::DirStore::verify).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The object.
    pub fid: Fid,
    /// Its size in bytes.
    pub size: u64,
    /// Blocks of 4 KiB that were compared.
    pub checked: u64,
    /// Blocks that could not be judged when the object was opened, being written at the time of a crash. They were
    /// taken as they are.
    pub unjudged: u64,
    /// Number of damaged places.
    pub damaged: u64,
    /// The first of them.
    pub damage: Vec<Damage>,
}

impl Report {
    pub(super) fn new(fid: Fid) -> Self {
        Self { fid, size: 0, checked: 0, unjudged: 0, damaged: 0, damage: Vec::new() }
    }

    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.damaged == 0
    }

    pub(super) fn add(&mut self, offset: u64, kind: DamageKind, detail: String) {
        self.damaged += 1;
        if self.damage.len() < LISTED {
            self.damage.push(Damage { offset, kind, detail });
        }
    }
}

/// Compares all of an object.
pub(super) fn object(object: &OpenObject) -> Result<Report> {
    let mut report = Report { size: object.attr.size, unjudged: object.unjudged, ..Report::new(object.fid) };
    let end = object.attr.size.div_ceil(BLOCK_SIZE);
    for page in pages(object, end)? {
        let mut entries = object.side.entries(page).map_err(object.io("check"))?;
        entries.retain(|e| e.block < end);
        report.checked += entries.len() as u64;
        object.judge_entries(&entries, |offset, short| {
            let (kind, what) = match short {
                true => (DamageKind::Short, "the file has been cut short"),
                false => (DamageKind::Checksum, "the checksum doesn't match"),
            };
            report.add(offset, kind, format!("block at offset {offset}: {what}"));
        })?;
    }
    Ok(report)
}

/// Pages of checksums that are worth a look: those that have some, and those whose blocks have data without. Whether
/// the file is long enough is seen at its last block.
fn pages(object: &OpenObject, end: u64) -> Result<BTreeSet<u64>> {
    let last = end.div_ceil(PAGE_BLOCKS);
    let mut pages: BTreeSet<u64> =
        object.side.pages_on_disk(0, last).map_err(object.io("check"))?.into_iter().collect();
    pages.extend(last.checked_sub(1));
    let mut at = 0;
    loop {
        match sys::seek(object.data.as_fd(), at, false) {
            Ok(data) if data / BLOCK_SIZE < end => {
                let page = data / BLOCK_SIZE / PAGE_BLOCKS;
                pages.insert(page);
                at = (page + 1) * PAGE_BLOCKS * BLOCK_SIZE;
            }
            Ok(_) => return Ok(pages),
            Err(e) if e.raw_os_error() == Some(libc::ENXIO) => return Ok(pages),
            Err(e) => return Err(object.io("check")(e)),
        }
    }
}
