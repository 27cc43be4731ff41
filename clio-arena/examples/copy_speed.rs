#![expect(unsafe_code, reason = "measures raw copies of its own buffers")]
//! Prints what the copy kernels cost against the C library's memcpy, for aligned and misaligned buffers.
//!
//! Run with `cargo run --release -p clio-arena --example copy_speed`. Each figure is the best of several rounds.

use clio_core::memory::{copy_within, copy_within_nt, fill};
use std::hint::black_box;
use std::time::Instant;

type Kernel = unsafe fn(*mut u8, *const u8, usize);

unsafe fn libc_memcpy(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the caller's ranges are valid and apart.
    unsafe { std::ptr::copy_nonoverlapping(black_box(from), black_box(to), black_box(len)) }
}

/// Nanoseconds a copy, best of `rounds`: copy `i` goes from and to the places that `place` gives.
fn time(kernel: Kernel, len: usize, copies: usize, place: &dyn Fn(usize) -> (*mut u8, *const u8)) -> f64 {
    let places: Vec<_> = (0..copies).map(place).collect();
    (0..9)
        .map(|_| {
            let start = Instant::now();
            for (to, from) in &places {
                // SAFETY: `place` gives ranges of `len` bytes in the buffers of `main`, which don't overlap.
                unsafe { kernel(*to, *from, len) };
            }
            start.elapsed().as_nanos() as f64 / copies as f64
        })
        .fold(f64::MAX, f64::min)
}

fn row(name: &str, len: usize, copies: usize, place: &dyn Fn(usize) -> (*mut u8, *const u8)) {
    let libc = time(libc_memcpy, len, copies, place);
    let ours = time(copy_within, len, copies, place);
    let nt = time(copy_within_nt, len, copies, place);
    println!("{name:34} {libc:12.1} {ours:12.1} {nt:12.1} {:8.2}", libc / ours);
}

/// Huge-page memory of the size, touched, from a 2 MiB boundary on.
fn buffer(len: usize) -> *mut u8 {
    let align = 2 << 20;
    let layout = std::alloc::Layout::from_size_align(len, align).expect("sizes of this program are valid");
    // SAFETY: the layout has a size; the memory is never freed; madvise is a hint on memory of our own.
    unsafe {
        let p = std::alloc::alloc(layout);
        assert!(!p.is_null(), "out of memory");
        libc::madvise(p.cast(), len, libc::MADV_HUGEPAGE);
        fill(p, 1, len);
        p
    }
}

fn main() {
    const SET: usize = 512 << 20;
    let (big, user) = (buffer(SET), buffer(8 << 20));
    // SAFETY: every offset below leaves room for the length copied, within `SET` or 8 MiB.
    let (src, dst) = (|at: usize| unsafe { big.add(at) }, |at: usize| unsafe { user.add(at) });
    println!("{:34} {:>12} {:>12} {:>12} {:>8}", "ns for each copy", "libc", "clio", "clio nt", "ratio");
    for len in [16, 100, 512, 4096, 65536, 1 << 20] {
        for (to, from) in [(0, 0), (16, 0), (0, 16), (64, 0), (7, 3), (48, 16), (2048, 0)] {
            let copies = ((256 << 20) / len).clamp(200, 100_000);
            row(&format!("{len} hot, to +{to} from +{from}"), len, copies, &|_| (dst(to), src(from)));
        }
    }
    for (len, copies) in [(4096, 100_000), (1 << 20, 300)] {
        for to in [0, 16, 64] {
            let at = move |i: usize| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % (SET / len) * len;
            row(&format!("{len} read over 512 MiB, to +{to}"), len, copies, &|i| (dst(to), src(at(i))));
            if to == 0 {
                row(&format!("{len} write over 512 MiB"), len, copies, &|i| (src(at(i)), dst(0)));
                row(&format!("{len} write over 512 MiB, from +16"), len, copies, &|i| (src(at(i)), dst(16)));
            }
        }
    }
}
