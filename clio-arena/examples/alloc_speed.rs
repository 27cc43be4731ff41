//! Prints what taking memory from an arena and giving it back costs, in nanoseconds for each pair.
//!
//! Run with `cargo run --release -p clio-arena --example alloc_speed`. Each figure is the best of several rounds.

use clio_arena::{Arena, SizeClass};
use clio_core::Result;
use clio_core::memory::{MemRef, PageMemory};
use std::time::Instant;

const LIMIT_BYTES: usize = 1 << 30;

fn best_ns(pairs: usize, mut round: impl FnMut()) -> f64 {
    let timed = (0..7).map(|_| {
        let start = Instant::now();
        round();
        start.elapsed().as_nanos() as f64 / pairs as f64
    });
    timed.fold(f64::MAX, f64::min)
}

fn fill_and_empty(arena: &Arena, class: SizeClass, count: usize, held: &mut Vec<MemRef>) {
    held.extend((0..count).map_while(|_| arena.alloc(class.bytes())));
    held.drain(..).for_each(|mem| arena.free(mem));
}

fn main() -> Result<()> {
    for (name, arena) in [("private", Arena::private(LIMIT_BYTES)?), ("shared", Arena::shared(LIMIT_BYTES)?)] {
        let start = Instant::now();
        let first: Vec<_> = std::iter::from_fn(|| arena.alloc(1 << 20)).take(64).collect();
        let each = start.elapsed().as_micros() as f64 / first.len() as f64;
        println!("{name:8} first touch of 1 MiB        {each:9.1} µs");
        first.into_iter().for_each(|mem| arena.free(mem));
        for class in SizeClass::ALL {
            let warm = best_ns(1_000_000, || {
                for _ in 0..1_000_000 {
                    if let Some(mem) = arena.alloc(class.bytes()) {
                        arena.free(mem);
                    }
                }
            });
            let count = LIMIT_BYTES / 2 / class.bytes();
            let mut held = Vec::with_capacity(count);
            let all = best_ns(count, || fill_and_empty(&arena, class, count, &mut held));
            println!("{name:8} {:8} B warm pair {warm:9.1} ns   512 MiB taken, then freed {all:9.1} ns", class.bytes());
        }
    }
    Ok(())
}
