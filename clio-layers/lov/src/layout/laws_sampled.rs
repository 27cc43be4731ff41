//! The laws of layouts on large ones, and the stored form on anything.

use super::*;
use clio_core::units::{Extent, MAX_FILE_SIZE, PageIndex, StripeIndex, TargetIndex};
use proptest::prelude::*;
use std::collections::BTreeMap;

prop_compose! {
    fn striping()(
        units in prop_oneof![1u64..64, Just(MAX_STRIPE_SIZE / STRIPE_SIZE_UNIT)],
        count in 0u16..=256,
        first in prop::option::of(any::<u16>()),
        overstriping: bool,
        pool in prop::option::of("[a-z0-9_.-]{1,63}"),
    ) -> Striping {
        Striping {
            stripe_size: units * STRIPE_SIZE_UNIT,
            stripe_count: StripeCount::from_raw(count),
            first_target: first.map(TargetIndex),
            overstriping,
            pool,
        }
    }
}

prop_compose! {
    fn layout()(
        parts in prop::collection::vec((1u64..200, striping()), 1..6),
        open: bool,
    ) -> Layout {
        let last = parts.len() - 1;
        let mut start = 0;
        let components = parts.into_iter().enumerate().map(|(i, (units, striping))| {
            let end = if open && i == last { Extent::EOF } else { start + units * STRIPE_SIZE_UNIT };
            let extent = Extent { start, end };
            start = end;
            Component { extent, striping }
        });
        Layout::from_components(components.collect()).expect("made by the rules")
    }
}

/// A file's layout in which each component may be missing.
fn file_layout() -> impl Strategy<Value = FileLayout> {
    (layout(), any::<u32>(), any::<u8>()).prop_map(|(layout, generation, missing)| {
        let make = |(i, wanted): (usize, &Component)| {
            let count = match wanted.striping.stripe_count {
                StripeCount::All => 7,
                StripeCount::Exactly(n) => n,
            };
            let stripes = if missing >> i & 1 == 1 { 0..0 } else { 0..count };
            FileComponent { wanted: wanted.clone(), stripes: stripes.map(TargetIndex).collect() }
        };
        let components = layout.components().iter().enumerate().map(make).collect();
        FileLayout::assemble(LayoutGeneration(u64::from(generation)), components)
    })
}

/// Offsets near the beginning, at bounds, and up to the largest.
fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        0u64..200 << 20,
        (0u64..4000).prop_map(|u| u * STRIPE_SIZE_UNIT),
        (0u64..4000).prop_map(|u| (u * STRIPE_SIZE_UNIT).saturating_sub(1)),
        0u64..MAX_FILE_SIZE,
        MAX_FILE_SIZE - 100..=MAX_FILE_SIZE,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn offsets_round_trip(l in file_layout(), offset in offset()) {
        match l.locate(offset) {
            Location::Stripe(p) => {
                prop_assert_eq!(l.file_offset(p.at, p.object_offset), Some(offset));
                prop_assert_eq!(l.target(p.at), Some(p.target));
                prop_assert!(p.run_end > offset && p.run_end <= l.max_size());
                let last = p.run_end - 1;
                prop_assert_eq!(l.file_offset(p.at, p.object_offset + (last - offset)), Some(last));
                let folio = PageIndex(offset / l.folio_size());
                let sub = l.sub_folio(folio).expect("its first byte lies on the same stripe");
                prop_assert_eq!((sub.at, sub.index.0), (p.at, p.object_offset / l.folio_size()));
                prop_assert_eq!(l.top_folio(sub.at, sub.index), Some(folio));
            }
            Location::Missing { component, end } => {
                prop_assert!(l.component(component).is_some_and(|c| c.extent().contains(offset)));
                prop_assert!(end > offset && l.missing(FileLayout::last_byte(offset + 1)).count() == 1);
            }
            Location::Undefined => prop_assert!(offset >= l.max_size()),
        }
    }

    /// Lengths add up, and every end of a sub-extent maps back into the extent.
    #[test]
    fn sub_extents_add_up_to_the_extent(l in file_layout(), a in offset(), b in offset()) {
        let extent = Extent::new(a.min(b), a.max(b));
        let mut expected = 0;
        for c in l.components().iter().filter(|c| c.stripes().is_some()) {
            expected += extent.intersect(c.extent()).len();
        }
        let subs: Vec<_> = l.sub_extents(extent).collect();
        prop_assert_eq!(subs.iter().map(|s| s.object.len()).sum::<u64>(), expected);
        for pair in subs.windows(2) {
            prop_assert!(pair[0].at < pair[1].at);
        }
        for s in subs {
            for o in [s.object.start, s.object.end - 1] {
                let f = l.file_offset(s.at, o);
                prop_assert!(f.is_some_and(|f| extent.contains(f)), "{s:?}: {o} is {f:?}");
            }
        }
    }

    #[test]
    fn sizes_round_trip(l in file_layout(), size in offset()) {
        let truncated = l.truncate(size);
        if size > l.max_size() {
            prop_assert!(truncated.is_err());
            return Ok(());
        }
        let sizes: BTreeMap<_, _> = truncated?.map(|t| (t.at, t.object_size)).collect();
        let whole = l.file_size(|at| l.object_size(at, size));
        prop_assert!(whole <= size);
        if l.missing(FileLayout::last_byte(size)).next().is_none() {
            prop_assert_eq!(whole, size);
            prop_assert_eq!(l.file_size(|at| sizes.get(&at).copied().unwrap_or(0)), size);
        }
    }

    /// The formula that the rules give for the size, against the one used here.
    #[test]
    fn reach_is_the_documented_formula(units in 1u64..100, n in 1u64..=256, k in 0u16..256, o in 0u64..1 << 40) {
        let k = k % n as u16;
        let size = units * STRIPE_SIZE_UNIT;
        let layout = Layout::raid0().stripe_size(size).overstripe_count(n as u16);
        let mut l = FileLayout::new(&layout)?;
        l.components[0].stripes = (0..n as u16).map(TargetIndex).collect();
        let (width, k64, rest) = (size * n, u64::from(k), o % size);
        let expected = match (o, rest) {
            (0, _) => 0,
            (_, 0) => (o / size - 1) * width + (k64 + 1) * size,
            _ => o / size * width + k64 * size + rest,
        };
        let at = StripeRef { component: ComponentIndex(0), stripe: StripeIndex(k) };
        prop_assert_eq!(l.reach(at, o), expected);
    }

    /// Numbers from damaged objects and hostile callers: no panic, and nothing beyond the largest file.
    #[test]
    fn any_number_is_borne(l in file_layout(), x: u64, y: u64, c in 0u16..8, k: u16) {
        let at = StripeRef { component: ComponentIndex(c), stripe: StripeIndex(k) };
        prop_assert!(l.reach(at, x) <= l.max_size());
        prop_assert!(l.file_size(|_| x) <= l.max_size());
        prop_assert!(l.file_offset(at, x).is_none_or(|f| f < MAX_FILE_SIZE));
        prop_assert!(l.stripe_end(x).is_none_or(|e| x < e && e <= MAX_FILE_SIZE));
        let _ = (l.object_size(at, x), l.top_folio(at, PageIndex(x)), l.sub_folio(PageIndex(x)));
        for s in l.sub_extents(Extent::new(x, y)) {
            prop_assert!(!s.object.is_empty());
        }
        let answers: Vec<_> = l.seek_asks(x, y).map(|a| (a, Some(y))).collect();
        let found = l.seek_merge(SeekTarget::Hole, x, y, answers);
        prop_assert!(found.is_none_or(|f| x <= f && f <= y));
    }

    #[test]
    fn stored_forms_round_trip(wish in layout(), file in file_layout()) {
        prop_assert_eq!(Layout::decode(&wish.encode())?, wish.clone());
        // Two stripes on one target are not made without overstriping, and neither are they by this test.
        prop_assert_eq!(FileLayout::decode(&file.encode())?, file.clone());
        prop_assert!(FileLayout::decode(&wish.encode()).is_err());
        prop_assert!(Layout::decode(&file.encode()).is_err());
    }

    #[test]
    fn random_bytes_are_refused_or_canonical(bytes in prop::collection::vec(any::<u8>(), 0..200), magic: bool) {
        let mut all = if magic { b"CLAY\x01".to_vec() } else { Vec::new() };
        all.extend(bytes);
        check_decoded(&all)?;
    }

    #[test]
    fn altered_forms_are_refused_or_canonical(
        file in file_layout(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
        tail in prop::collection::vec(any::<u8>(), 0..3),
    ) {
        let mut bytes = file.encode();
        for (at, value) in edits {
            // The first bytes say most: half of the edits go there.
            let limit = if value & 1 == 0 { bytes.len() } else { bytes.len().min(60) };
            bytes[at.index(limit)] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        bytes.extend(tail);
        check_decoded(&bytes)?;
    }
}

/// What decodes is a layout by all rules, works, and encodes to the same bytes.
fn check_decoded(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(l) = Layout::decode(bytes) {
        l.check()?;
        prop_assert_eq!(l.encode(), bytes);
    }
    if let Ok(l) = FileLayout::decode(bytes) {
        Layout::from_components(l.wanted())?;
        prop_assert!(l.folio_size() >= STRIPE_SIZE_UNIT);
        prop_assert_eq!(l.encode(), bytes);
        prop_assert!(l.file_size(|_| u64::MAX) <= l.max_size());
    }
    Ok(())
}

#[test]
fn every_prefix_is_refused_and_a_newer_version_named() {
    let bytes = FileLayout::new(&Layout::raid0().pool("p").first_target(1)).expect("valid").encode();
    for n in 0..bytes.len() {
        assert!(FileLayout::decode(&bytes[..n]).is_err(), "{n} bytes");
    }
    let mut newer = bytes;
    newer[4] = 2;
    let e = FileLayout::decode(&newer).expect_err("newer");
    assert_eq!(e.errno(), clio_core::Errno::EOPNOTSUPP);
    assert!(e.detail().contains("version 2"));
}

fn stored_sample() -> FileLayout {
    let layout = Layout::composite().until(1 << 20).overstripe_count(3).pool("ab").first_target(5);
    let mut file = FileLayout::new(&layout).expect("valid");
    file.components[0].stripes = [5, 0, 5].map(TargetIndex).to_vec();
    file.generation = LayoutGeneration(9);
    file
}

/// The stored form is a format: these bytes must decode for ever.
#[test]
fn the_stored_form_is_fixed() {
    let file = stored_sample();
    let mut expected = b"CLAY\x01\x01\x09\0\0\0\0\0\0\0\x01\0".to_vec();
    expected.extend(b"\0\0\x10\0\0\0\0\0\0\0\x10\0\0\0\0\0\x03\0\x0f\x05\0\x02ab\x03\0\x05\0\0\0\x05\0");
    assert_eq!(file.encode(), expected);
    assert_eq!(FileLayout::decode(&expected).expect("decodes"), file);
}

#[test]
fn the_largest_offsets_are_reached_and_not_passed() {
    let layout = Layout::raid0().stripe_size(MAX_STRIPE_SIZE).overstripe_count(MAX_STRIPES);
    let mut l = FileLayout::new(&layout).expect("valid");
    l.components[0].stripes = (0..MAX_STRIPES).map(TargetIndex).collect();
    assert_eq!(l.max_size(), MAX_FILE_SIZE);
    assert!(l.check_size(MAX_FILE_SIZE).is_ok());
    assert_eq!(l.check_size(MAX_FILE_SIZE + 1).expect_err("too large").errno(), clio_core::Errno::EFBIG);
    let Location::Stripe(p) = l.locate(MAX_FILE_SIZE - 1) else { panic!("the last byte has a place") };
    assert_eq!(p.run_end, MAX_FILE_SIZE);
    assert_eq!(l.reach(p.at, p.object_offset + 1), MAX_FILE_SIZE);
    assert_eq!(l.reach(p.at, u64::MAX), MAX_FILE_SIZE);
    assert_eq!(l.file_offset(p.at, p.object_offset + 1), None);
    assert_eq!(l.components[0].geometry().map(|g| g.unit_end(MAX_FILE_SIZE - 1)), Some(MAX_FILE_SIZE));
    assert_eq!(l.locate(MAX_FILE_SIZE), Location::Undefined);
}

/// An object that grew, or shrank, between glimpse and answer must not lead out of the range that was asked about.
#[test]
fn answers_outside_the_range_are_not_believed() {
    let mut l = FileLayout::new(&Layout::raid0()).expect("valid");
    l.components[0].stripes = vec![TargetIndex(0)];
    let seek = |what, answer| l.seek_merge(what, 100, 200, l.seek_asks(100, 200).map(|a| (a, Some(answer))));
    assert_eq!(seek(SeekTarget::Data, 150), Some(150));
    assert_eq!(seek(SeekTarget::Data, 200), None);
    assert_eq!(seek(SeekTarget::Data, 99), None);
    assert_eq!(seek(SeekTarget::Hole, 99), Some(200));
    assert_eq!(seek(SeekTarget::Hole, 300), Some(200));
}

/// One edit each, refused for its own reason. Offsets are those of the format.
#[test]
fn each_rule_of_the_stored_form_is_checked() {
    const FLAGS: usize = 34;
    let good = stored_sample().encode();
    let refused = |why: &str, edit: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        edit(&mut bytes);
        let e = FileLayout::decode(&bytes).expect_err(why);
        assert_eq!(e.errno(), clio_core::Errno::EBADMSG);
        assert!(e.detail().contains(why), "{e}");
    };
    refused("begin like one", &|b| b[0] = b'X');
    refused("no version", &|b| b[4] = 0);
    refused("wrong kind", &|b| b[5] = 7);
    refused("components are too many", &|b| b[15] = 1);
    refused("needs a component", &|b| {
        b[14] = 0;
        b.truncate(16);
    });
    refused("not a multiple", &|b| b[16] = 1);
    refused("stripe size", &|b| b[24] = 1);
    refused("instead of 2", &|b| b[32] = 2);
    refused("in the form", &|b| b[32..34].fill(0xff));
    refused("stripe count", &|b| b[33] = 0x7f);
    refused("unknown flags", &|b| b[FLAGS] |= 0x10);
    refused("two stripes", &|b| b[FLAGS] &= !1);
    refused("not text", &|b| b[38] = 0xff);
    refused("pool name", &|b| b[38] = b'/');
    refused("no stripes", &|b| {
        b[40] = 0;
        b.truncate(42);
    });
    refused("cut short", &|b| b[40] = 4);
    refused("bytes follow", &|b| b.push(0));

    let mut wish_with_targets = good[..5].to_vec();
    wish_with_targets.push(0);
    wish_with_targets.extend(&good[14..]);
    let e = Layout::decode(&wish_with_targets).expect_err("targets");
    assert!(e.detail().contains("no file's"), "{e}");
}
