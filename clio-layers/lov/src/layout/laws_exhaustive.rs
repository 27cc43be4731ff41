//! The laws of layouts, on every small one against [`super::model`].

use super::model::{Shape, deal, layout_of, small_worlds};
use super::*;
use clio_core::units::{Extent, MAX_FILE_SIZE, PageIndex};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of the file that are looked at: longer than any first round of stripes and than all bounds.
const LEN: u64 = 22;

type Places = Vec<Option<(StripeRef, u64)>>;

fn each_world(law: impl Fn(&[Shape], &FileLayout, &Places)) {
    let worlds = small_worlds();
    assert!(worlds.len() > 3500, "{} worlds", worlds.len());
    for w in worlds {
        law(&w, &layout_of(&w), &deal(&w, LEN));
    }
}

#[test]
fn offsets_map_as_dealt_and_back() {
    each_world(|w, l, places| {
        for (f, place) in places.iter().enumerate() {
            let f = f as u64;
            match (l.locate(f), place) {
                (Location::Stripe(p), Some((at, o))) => {
                    assert_eq!((p.at, p.object_offset), (*at, *o), "{w:?} at {f}");
                    assert_eq!(p.target.0, 100 * at.component.0 + at.stripe.0);
                    assert_eq!(l.file_offset(p.at, p.object_offset), Some(f));
                    let g = l.component(at.component).unwrap().geometry().unwrap();
                    assert_eq!(g.bytes_below(at.stripe, f), *o);
                }
                (Location::Missing { component, .. }, None) => assert_eq!(w[usize::from(component.0)].count, 0),
                (Location::Undefined, None) => assert!(f >= w.last().unwrap().end),
                (found, dealt) => panic!("{w:?} at {f}: {found:?} instead of {dealt:?}"),
            }
        }
    });
}

/// Object bytes outside the component have no place in the file.
#[test]
fn the_inverse_is_defined_only_on_bytes_of_the_file() {
    each_world(|w, l, places| {
        let dealt: BTreeMap<_, _> = places.iter().zip(0u64..).filter_map(|(p, f)| p.map(|p| (p, f))).collect();
        for (at, _) in l.stripes() {
            for o in 0..LEN {
                let found = l.file_offset(at, o).filter(|f| *f < LEN);
                assert_eq!(found, dealt.get(&(at, o)).copied(), "{w:?} {at:?} {o}");
            }
        }
        let none = StripeRef { component: ComponentIndex(0), stripe: clio_core::units::StripeIndex(4) };
        assert_eq!(l.file_offset(none, 0), None);
    });
}

#[test]
fn runs_end_where_the_object_or_its_offsets_change() {
    each_world(|w, l, places| {
        for f in 0..LEN {
            let Some(end) = l.stripe_end(f) else { continue };
            assert!(end > f);
            for i in f + 1..end.min(LEN) {
                let (a, b) = (places[f as usize], places[i as usize]);
                let same = a.zip(b).map_or(a == b, |(a, b)| a.0 == b.0 && b.1 == a.1 + (i - f));
                assert!(same, "{w:?}: run from {f} to {end} is broken at {i}");
            }
            // With one stripe, a run goes on to the end of the component; else to the end of the unit, no less.
            if end < LEN {
                let c = &w[usize::from(l.component_at(f).unwrap().0)];
                assert!(end == c.end || (c.count > 1 && end.is_multiple_of(c.stripe_size)), "{w:?} {f} {end}");
                assert!(end == c.end || end - f <= c.stripe_size);
            } else if let Some((at, _)) = places[f as usize] {
                let c = &w[usize::from(at.component.0)];
                assert!(c.count == 1 || end - f <= c.stripe_size);
            }
        }
    });
}

/// By the inverse, which has its own law above, each byte of the parts is found to be one of the extent, once.
#[test]
fn sub_extents_partition_the_extent() {
    each_world(|w, l, places| {
        for start in 0..=LEN {
            for end in start..=LEN {
                let placed = (start..end).filter(|f| places[*f as usize].is_some());
                let expected = placed.fold(0u32, |set, f| set | 1 << f);
                let mut found = 0u32;
                let mut last = None;
                for s in l.sub_extents(Extent::new(start, end)) {
                    assert!(!s.object.is_empty() && last < Some(s.at), "{w:?}");
                    last = Some(s.at);
                    for o in s.object.start..s.object.end {
                        let f = l.file_offset(s.at, o).filter(|f| *f < end);
                        let bit = f.map_or(0, |f| 1 << f);
                        assert!(bit != 0 && found & bit == 0, "{w:?} [{start}, {end}): {:?} {o}", s.at);
                        found |= bit;
                    }
                }
                assert_eq!(found, expected, "{w:?} [{start}, {end})");
            }
        }
    });
}

#[test]
fn an_end_at_eof_stays_there() {
    each_world(|w, l, places| {
        for start in 0..LEN {
            let subs: BTreeMap<_, _> =
                l.sub_extents(Extent::new(start, Extent::EOF)).map(|s| (s.at, s.object)).collect();
            for (at, _) in l.stripes() {
                let c = &w[usize::from(at.component.0)];
                let own = places.iter().zip(0..).filter(|(p, f)| *f >= start && p.is_some_and(|p| p.0 == at));
                let offsets: Vec<_> = own.filter_map(|(p, _)| p.map(|p| p.1)).collect();
                let found = subs.get(&at).copied();
                if c.end == Extent::EOF {
                    let first = found.unwrap().start;
                    assert_eq!(found.unwrap().end, Extent::EOF);
                    assert!(offsets.first().is_none_or(|o| *o == first), "{w:?} {start} {at:?}");
                } else {
                    let expected = offsets.first().map(|o| Extent::new(*o, offsets.last().unwrap() + 1));
                    assert_eq!(found, expected, "{w:?} {start} {at:?}");
                }
            }
        }
    });
}

/// File size: one more than the highest byte that lies below the end of its object. All sizes of up to 2 objects are
/// tried, the others staying at a fixed size each.
#[test]
fn file_size_is_that_of_the_highest_byte() {
    each_world(|w, l, places| {
        let stripes: Vec<_> = l.stripes().map(|(at, _)| at).collect();
        for (i, a) in stripes.iter().enumerate() {
            for b in &stripes[i..] {
                for (sa, sb) in (0..5).flat_map(|sa| (0..5).map(move |sb| (sa, sb))) {
                    let size_of = |at: StripeRef| {
                        if at == *a {
                            sa
                        } else if at == *b {
                            sb
                        } else {
                            0
                        }
                    };
                    let held = places.iter().zip(1..).filter(|(p, _)| p.is_some_and(|(at, o)| o < size_of(at)));
                    let expected = held.map(|(_, end)| end).max().unwrap_or(0);
                    // Beyond what the model deals out, only the bound can be told.
                    let found = l.file_size(size_of);
                    assert!(found == expected || found > LEN, "{w:?} {a:?} {sa} {b:?} {sb}: {found} for {expected}");
                    assert!(found <= l.max_size());
                }
            }
        }
    });
}

#[test]
fn the_size_of_a_full_file_comes_back_from_its_objects() {
    each_world(|w, l, places| {
        for size in 0..=LEN.min(l.max_size()) {
            let mut sizes = BTreeMap::new();
            for (at, o) in places[..size as usize].iter().flatten() {
                sizes.insert(*at, o + 1);
            }
            for (at, _) in l.stripes() {
                let expected = sizes.get(&at).copied().unwrap_or(0);
                assert_eq!(l.object_size(at, size), expected, "{w:?} {size} {at:?}");
            }
            if size > 0 && l.missing(FileLayout::last_byte(size)).next().is_none() {
                assert_eq!(l.file_size(|at| l.object_size(at, size)), size, "{w:?}");
            }
        }
    });
}

/// Room for the sizes of the objects of any small layout.
type Sizes = [u64; 12];

fn slot(at: StripeRef) -> usize {
    usize::from(at.component.0 * 4 + at.stripe.0)
}

/// From any full file to any size: the objects keep what lies below the size, nothing above, and tell the size.
#[test]
fn truncation_keeps_what_is_below_and_sets_the_size() {
    each_world(|w, l, places| {
        let max = LEN.min(l.max_size());
        let placed: Vec<_> = places.iter().zip(0u64..).filter_map(|(p, f)| p.map(|(at, o)| (f, slot(at), o))).collect();
        let mut full = vec![Sizes::default(); max as usize + 1];
        for (size, sizes) in full.iter_mut().enumerate() {
            l.stripes().for_each(|(at, _)| sizes[slot(at)] = l.object_size(at, size as u64));
        }
        for new in 0..=max {
            assert!(l.truncate(new).unwrap().all(|t| w[usize::from(t.at.component.0)].end >= new), "{w:?} {new}");
            let cut: Vec<_> = l.truncate(new).unwrap().map(|t| (slot(t.at), t.object_size)).collect();
            let complete = l.missing(FileLayout::last_byte(new)).next().is_none();
            for (old, before) in full.iter().enumerate() {
                let mut sizes = *before;
                cut.iter().for_each(|(slot, size)| sizes[*slot] = *size);
                for (f, slot, o) in &placed {
                    let held = *o < sizes[*slot];
                    assert!(!held || *f < new, "{w:?} {old} to {new}: byte {f} is left");
                    assert!(held || *f >= new.min(old as u64), "{w:?} {old} to {new}: byte {f} is lost");
                }
                assert!(!complete || l.file_size(|at| sizes[slot(at)]) == new, "{w:?} {old} to {new}");
            }
        }
        if l.max_size() < MAX_FILE_SIZE {
            assert_eq!(l.truncate(l.max_size() + 1).err().map(|e| e.errno()), Some(clio_core::Errno::EFBIG));
        }
    });
}

/// Each pattern of data and holes that repeats after 4 or 5 bytes, sought from everywhere.
#[test]
fn seek_finds_the_next_data_and_hole() {
    let patterns: Vec<Vec<bool>> = [0b0001u32, 0b1110, 0b01100, 0b00111, 0b10101, 0, 0b11111]
        .iter()
        .map(|bits| (0..5).map(|i| bits >> i & 1 == 1).collect())
        .collect();
    each_world(|w, l, places| {
        let size = 17.min(l.max_size());
        for p in &patterns {
            let is_data = |f: u64| p[f as usize % p.len()] && places[f as usize].is_some();
            let mut data: BTreeMap<StripeRef, BTreeSet<u64>> = BTreeMap::new();
            for (at, o) in (0..size).filter(|f| is_data(*f)).filter_map(|f| places[f as usize]) {
                data.entry(at).or_default().insert(o);
            }
            let ask = |a: &SeekAsk, what| {
                let has = data.get(&a.at);
                let end = has.and_then(|d| d.last()).map_or(0, |o| o + 1);
                let wanted = |o: &u64| has.is_some_and(|d| d.contains(o)) == (what == SeekTarget::Data);
                let limit = if what == SeekTarget::Data { end } else { end + 1 };
                (a.object_offset < end).then(|| (a.object_offset..limit).find(wanted)).flatten()
            };
            for offset in 0..=size {
                for what in [SeekTarget::Data, SeekTarget::Hole] {
                    let answers = l.seek_asks(offset, size).map(|a| (a, ask(&a, what)));
                    let found = l.seek_merge(what, offset, size, answers);
                    let expected = (offset..size).find(|f| is_data(*f) == (what == SeekTarget::Data));
                    let end = (what == SeekTarget::Hole && offset < size).then_some(size);
                    assert_eq!(found, expected.or(end), "{w:?} {p:?} {what:?} from {offset}");
                }
            }
        }
    });
}

#[test]
fn folios_never_cross_a_unit_and_map_both_ways() {
    each_world(|w, l, places| {
        let size = l.folio_size();
        assert!(size.is_power_of_two());
        let divides = |size: u64| {
            w.iter().all(|s| s.stripe_size.is_multiple_of(size) && (s.end == Extent::EOF || s.end.is_multiple_of(size)))
        };
        assert!(divides(size) && !divides(2 * size), "{w:?} {size}");
        for (i, folio) in places.chunks_exact(size as usize).enumerate() {
            let index = PageIndex(i as u64);
            let sub = l.sub_folio(index);
            assert_eq!(sub.is_some(), folio[0].is_some());
            let Some(sub) = sub else { continue };
            for (j, p) in folio.iter().enumerate() {
                assert_eq!(*p, Some((sub.at, sub.index.0 * size + j as u64)), "{w:?} folio {i}");
            }
            assert_eq!(l.top_folio(sub.at, sub.index), Some(index));
        }
    });
}
