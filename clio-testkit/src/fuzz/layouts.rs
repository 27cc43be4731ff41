//! Stored layouts, and the arithmetic on those that decode.

use super::{Verdict, refused};
use clio_core::Errno;
use clio_core::units::{Extent, Fid, MAX_FILE_SIZE, MAX_FOLIO_SIZE, PageIndex};
use clio_lov::layout::{FileLayout, Layout, Location, STRIPE_SIZE_UNIT, SeekTarget};

/// Two offsets of eight bytes each, little-endian, then a stored layout: a folder's or a file's.
pub fn layouts(input: &[u8]) -> Verdict {
    let Some((offsets, stored)) = input.split_first_chunk::<16>() else { return Verdict::Refused };
    let [a, b] = [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|i| offsets[at + i])));
    let (wish, file) = (wish(stored), file(stored, a, b));
    assert!(wish == Verdict::Refused || file == Verdict::Refused, "one encoding is of one kind");
    if wish == Verdict::Accepted { wish } else { file }
}

fn wish(stored: &[u8]) -> Verdict {
    let layout = match Layout::decode(stored) {
        Ok(layout) => layout,
        Err(e) => return refused(&e, &[Errno::EBADMSG, Errno::EOPNOTSUPP]),
    };
    assert_eq!(layout.encode(), stored, "the encoding is canonical");
    layout.check().expect("what decodes is a layout");
    assert_eq!(layout.describe().components.len(), layout.components().len());
    let file = FileLayout::new(&layout).expect("a file can have it");
    assert_eq!(file.wanted(), layout.components());
    assert_eq!(FileLayout::decode(&file.encode()).expect("it can be stored"), file);
    Verdict::Accepted
}

fn file(stored: &[u8], a: u64, b: u64) -> Verdict {
    let layout = match FileLayout::decode(stored) {
        Ok(layout) => layout,
        Err(e) => return refused(&e, &[Errno::EBADMSG, Errno::EOPNOTSUPP]),
    };
    assert_eq!(layout.encode(), stored, "the encoding is canonical");
    assert!(layout.describe(Fid::new(a, b as u32)).to_string().lines().count() > layout.components().len());
    shape(&layout);
    let bounds = layout.components().iter().flat_map(|c| [c.extent().start, c.extent().end - 1, c.extent().end]);
    for offset in bounds.chain([a, b, a % MAX_FILE_SIZE, b % (1 << 30), MAX_FILE_SIZE - 1]) {
        place(&layout, offset);
    }
    for (a, b) in [(a, b), (a % MAX_FILE_SIZE, b % MAX_FILE_SIZE), (a % (1 << 30), b % (1 << 30)), (0, u64::MAX)] {
        parts(&layout, Extent::new(a.min(b), a.max(b)));
        size(&layout, a);
        size(&layout, b);
        seek(&layout, a, b);
    }
    Verdict::Accepted
}

/// Components follow each other from 0, and folios cross no bound.
fn shape(l: &FileLayout) {
    let folio = l.folio_size();
    assert!(folio.is_power_of_two() && (STRIPE_SIZE_UNIT..=MAX_FOLIO_SIZE).contains(&folio));
    let mut end = 0;
    for c in l.components() {
        assert!(c.extent().start == end && c.extent().end > end, "{:?} follows {end}", c.extent());
        end = c.extent().end;
        assert!(end == Extent::EOF || (end <= MAX_FILE_SIZE && end.is_multiple_of(folio)));
        assert!(c.striping().stripe_size.is_multiple_of(folio));
        assert_eq!(c.geometry().map(|g| g.stripe_count()), c.stripes().map(|s| s.len() as u64));
    }
    assert_eq!(l.max_size(), end.min(MAX_FILE_SIZE));
}

/// An offset in the file is one place on one stripe, and the other way round.
fn place(l: &FileLayout, offset: u64) {
    match l.locate(offset) {
        Location::Stripe(p) => {
            assert_eq!(l.target(p.at), Some(p.target));
            assert_eq!(l.file_offset(p.at, p.object_offset), Some(offset));
            assert!(offset < p.run_end && p.run_end <= l.max_size());
            let last = p.run_end - 1;
            assert_eq!(l.file_offset(p.at, p.object_offset + (last - offset)), Some(last));
            let folio = PageIndex(offset / l.folio_size());
            let sub = l.sub_folio(folio).expect("a folio lies on one stripe");
            assert_eq!((sub.at, sub.index.0), (p.at, p.object_offset / l.folio_size()));
            assert_eq!(l.top_folio(sub.at, sub.index), Some(folio));
        }
        Location::Missing { component, end } => {
            assert!(l.component(component).is_some_and(|c| c.extent().contains(offset) && c.stripes().is_none()));
            assert!(offset < end && end <= l.max_size());
        }
        Location::Undefined => assert!(offset >= l.max_size()),
    }
}

/// The parts of an extent on the stripes add up to it.
fn parts(l: &FileLayout, extent: Extent) {
    let parts: Vec<_> = l.sub_extents(extent).collect();
    assert!(parts.is_sorted_by(|x, y| x.at < y.at), "each stripe once, in order");
    assert!(parts.iter().all(|p| !p.object.is_empty() && l.target(p.at) == Some(p.target)));
    if extent.end > MAX_FILE_SIZE {
        return; // beyond the largest file there are no bytes to count
    }
    let present = l.components().iter().filter(|c| c.stripes().is_some());
    let expected: u64 = present.map(|c| extent.intersect(c.extent()).len()).sum();
    assert_eq!(parts.iter().map(|p| p.object.len()).sum::<u64>(), expected);
    for p in &parts {
        for byte in [p.object.start, p.object.end - 1] {
            assert!(l.file_offset(p.at, byte).is_some_and(|f| extent.contains(f)), "{p:?} in {extent:?}");
        }
    }
}

/// A truncated file has the size that it was truncated to, as far as there are objects that can say so.
fn size(l: &FileLayout, size: u64) {
    let cut: Vec<_> = match l.truncate(size) {
        Ok(cut) => cut.collect(),
        Err(e) => {
            assert!(size > l.max_size());
            refused(&e, &[Errno::EFBIG]);
            return;
        }
    };
    assert!(size <= l.max_size());
    assert!(cut.iter().all(|s| s.object_size == l.object_size(s.at, size)));
    let merged = l.file_size(|at| l.object_size(at, size));
    let is_held = size == 0 || matches!(l.locate(size - 1), Location::Stripe(_));
    assert!(merged == size || (merged < size && !is_held), "{merged} instead of {size}");
}

/// In a file without holes, data is at the next byte that a stripe holds.
fn seek(l: &FileLayout, offset: u64, size: u64) {
    let size = size.min(l.max_size());
    let full: Vec<_> = l.seek_asks(offset, size).map(|ask| (ask, Some(ask.object_offset))).collect();
    let data = l.seek_merge(SeekTarget::Data, offset, size, full.iter().copied());
    assert_eq!(data.is_some(), !full.is_empty());
    assert!(data.is_none_or(|f| (offset..size).contains(&f) && matches!(l.locate(f), Location::Stripe(_))));
    let empty = full.into_iter().map(|(ask, _)| (ask, None));
    let hole = l.seek_merge(SeekTarget::Hole, offset, size, empty);
    assert_eq!(hole, (offset < size).then_some(offset), "where no object has data, all is a hole");
}
