use super::*;
use proptest::prelude::*;

type Kernel = unsafe fn(*mut u8, *const u8, usize);

/// Every kernel, with the shortest length that it takes.
fn kernels() -> Vec<(&'static str, Kernel, usize)> {
    vec![
        ("copy_within", copy_within, 0),
        ("copy_within_nt", copy_within_nt, 0),
        ("portable copy_out", portable::copy_out, 0),
        ("portable copy_in", portable::copy_in, 0),
        ("portable copy", portable::copy, 0),
        ("portable nt", portable::copy_nt, 0),
        ("portable in nt", portable::copy_in_nt, 0),
        ("kernel nt", kernel::copy_nt, 0),
        ("kernel in nt", kernel::copy_in_nt, 0),
        #[cfg(all(target_arch = "x86_64", not(miri), not(clio_loom)))]
        ("sse2", x86_64::copy_sse2, 64),
    ]
}

/// Bytes that differ from their neighbours, and from those one vector or one block away.
fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed).collect()
}

/// Copies `len` bytes between two buffers at the given offsets and compares every byte of the destination, those
/// around the copy too, with what `copy_from_slice` makes of it.
fn check(name: &str, copy: Kernel, to_at: usize, from_at: usize, len: usize) {
    let from = pattern(1, from_at + len);
    let mut to = pattern(2, to_at + len + 64);
    let mut expected = to.clone();
    expected[to_at..to_at + len].copy_from_slice(&from[from_at..]);
    // SAFETY: both buffers have `len` bytes at these offsets.
    unsafe { copy(to.as_mut_ptr().add(to_at), from.as_ptr().add(from_at), len) };
    assert!(to == expected, "{name}: {len} bytes from +{from_at} to +{to_at}");
}

#[test]
fn every_small_length_at_every_alignment() {
    let (lengths, aligns) = if cfg!(miri) { (40, 9) } else { (290, 32) };
    for (name, copy, min) in kernels() {
        for len in min..=lengths {
            for to_at in 0..aligns {
                check(name, copy, to_at, (to_at * 7 + len) % aligns, len);
                if to_at % 8 == 1 {
                    check(name, copy, to_at, to_at, len);
                }
            }
        }
    }
}

#[test]
fn distances_on_both_sides_of_the_change_of_direction() {
    let buf = pattern(3, 4 * 4096 + 1024);
    for (name, copy, _) in kernels() {
        for shift in [0, 1, 31, 32, 33, 511, 512, 513, 4095] {
            for len in [129, 160, 161, 255, 256, 257, 1000, 4000] {
                let mut all = buf.clone();
                let mut expected = buf.clone();
                expected.copy_within(64..64 + len, 8192 + 64 + shift);
                let p = all.as_mut_ptr();
                // SAFETY: both ranges lie within `all`, and are at least 4 KiB apart.
                unsafe { copy(p.add(8192 + 64 + shift), p.add(64), len) };
                assert!(all == expected, "{name}: {len} bytes, shifted by {shift}");
            }
        }
    }
}

#[test]
fn fills_to_the_byte() {
    let lengths = if cfg!(miri) { 40 } else { 600 };
    for (name, fill) in [("fill", fill as unsafe fn(*mut u8, u8, usize)), ("portable", portable::fill)] {
        for len in 0..lengths {
            for at in [0, 1, 3, 8, 31] {
                let mut buf = pattern(4, at + len + 40);
                let mut expected = buf.clone();
                expected[at..at + len].fill(0xa5);
                // SAFETY: the buffer has `len` bytes at `at`.
                unsafe { fill(buf.as_mut_ptr().add(at), 0xa5, len) };
                assert!(buf == expected, "{name}: {len} bytes at +{at}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 32 }, ..ProptestConfig::default() })]

    #[test]
    fn long_copies(to_at in 0usize..200, from_at in 0usize..200, len in 64usize..200_000) {
        for (name, copy, _) in kernels() {
            check(name, copy, to_at, from_at, len);
        }
    }

    #[test]
    fn slices_of_the_caller(at in 0usize..100, data in prop::collection::vec(any::<u8>(), 0..70_000)) {
        let mut page = vec![0u8; at + data.len()];
        let p = page.as_mut_ptr();
        for copy_in in [copy_in as unsafe fn(*mut u8, &[u8]), copy_in_nt] {
            let mut back = vec![0u8; data.len()];
            // SAFETY: `page` has room for `data` at `at`.
            unsafe {
                fill(p, 0xee, at + data.len());
                copy_in(p.add(at), &data);
                copy_out(p.add(at), &mut back);
            }
            prop_assert!(back == data);
        }
        prop_assert!(page[..at].iter().all(|b| *b == 0xee));
    }
}

/// A copy raced by writers of whole aligned words yields, word by word, one of the values written: no tearing below
/// eight bytes at aligned places, and no value from elsewhere.
#[test]
fn a_raced_copy_is_a_mixture_of_old_and_new() {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
    let words = if cfg!(miri) { 16 } else { 512 };
    let page: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(u64::from_ne_bytes([1; 8]))).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut v = 1u8;
            while !stop.load(Relaxed) {
                v = if v == 250 { 1 } else { v + 1 };
                page.iter().for_each(|w| w.store(u64::from_ne_bytes([v; 8]), Relaxed));
            }
        });
        let mut out = vec![0u8; words * 8];
        for _ in 0..if cfg!(miri) { 3 } else { 2000 } {
            // SAFETY: `page` is as long as `out`; its words are atomics, and the copy tolerates their change.
            unsafe { copy_out(page.as_ptr().cast(), &mut out) };
            for word in out.chunks_exact(8) {
                assert!(word[0] != 0 && word.iter().all(|b| *b == word[0]), "torn or foreign: {word:?}");
            }
        }
        stop.store(true, Relaxed);
    });
}
