//! Random operations by two clients in lock step on one file, direct and buffered mixed: after each, the other
//! client looks at what it changed. The seeds are fixed; three_clients.rs looks for new ones, on plain stripes.

use clio::{Client, File, Layout, OpenOptions};
use clio_tests::{cases, clients, narrow, pattern, read_write};

/// Knuth's generator: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit.max(1)
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

struct Side {
    client: Client,
    cached: File,
    direct: File,
    appender: File,
}

impl Side {
    fn open(client: Client, layout: &Layout) -> Side {
        let open = |options: OpenOptions| client.open_with("/f", options).expect("open");
        let cached = open(read_write().layout(layout.clone()));
        let (direct, appender) = (open(read_write().direct(true)), open(OpenOptions::new().append(true)));
        Side { cached, direct, appender, client }
    }

    fn either(&self, direct: bool) -> &File {
        if direct { &self.direct } else { &self.cached }
    }
}

struct Run {
    random: Random,
    model: Vec<u8>,
    span: u64,
    longest: u64,
}

impl Run {
    /// Does something by `side`; says what, and to which range.
    fn step(&mut self, n: u64, side: &Side) -> (String, u64, u64) {
        let direct = self.random.chance(3);
        let mut at = self.random.below(self.span);
        if self.random.chance(3) {
            at -= at % 4096;
        }
        let mut len = 1 + self.random.below(self.longest);
        let size = self.model.len() as u64;
        let what = match self.random.below(10) {
            0 => {
                side.cached.set_len(at).expect("truncate");
                self.model.resize(at as usize, 0);
                "truncate"
            }
            1 => {
                side.cached.punch_hole(at, len).expect("punch");
                let (start, end) = (at.min(size) as usize, (at + len).min(size) as usize);
                self.model[start..end].fill(0);
                "punch"
            }
            2 => {
                let data = pattern(n, size, len as usize);
                assert_eq!(side.appender.append(&data).expect("append"), size, "step {n}: where the append went");
                self.model.extend(data);
                at = size;
                "append"
            }
            3 => {
                let got = side.cached.metadata().expect("stat").len();
                assert_eq!(got, size, "step {n}: size");
                "stat"
            }
            4 => {
                side.cached.sync_data().expect("sync");
                "sync"
            }
            _ => {
                len = len.min(self.span - at);
                let data = pattern(n, at, len as usize);
                side.either(direct).write_all_at(&data, at).expect("write");
                let end = (at + len) as usize;
                self.model.resize(self.model.len().max(end), 0);
                self.model[at as usize..end].copy_from_slice(&data);
                "write"
            }
        };
        (format!("step {n}, {what}{} at {at}, {len} bytes", if direct { ", direct" } else { "" }), at, len)
    }

    /// Reads a range, and a little around it, by `side`.
    fn look(&mut self, what: &str, side: &Side, at: u64, len: u64) {
        let direct = self.random.chance(3);
        let start = at.saturating_sub(self.random.below(200));
        let mut got = vec![0x55; (at - start + len + self.random.below(200)) as usize];
        let n = side.either(direct).read_at(&mut got, start).expect("read");
        let size = self.model.len();
        let (from, to) = ((start as usize).min(size), (start as usize + got.len()).min(size));
        assert_eq!(n, to - from, "{what}: length of a read at {start} of {size}");
        let bad = (0..n).find(|i| got[*i] != self.model[from + i]);
        assert_eq!(bad, None, "{what}: offset in a read at {start}, direct: {direct}");
    }
}

fn fsx(seed: u64, layout: &Layout, span: u64, longest: u64, steps: u64) {
    let mut sides = clients::<2>(3).map(|c| Side::open(c, layout));
    let mut run = Run { random: Random(seed), model: Vec::new(), span, longest };
    for n in 0..steps {
        let who = n as usize % 2;
        let (what, at, len) = run.step(n, &sides[who]);
        let what = format!("seed {seed}, {what}, by client {who}");
        run.look(&what, &sides[1 - who], at, len);
        if run.random.chance(3) {
            let anywhere = run.random.below(span);
            run.look(&what, &sides[who], anywhere, longest);
        }
        if run.random.chance(12) {
            sides[run.random.below(2) as usize].client.drop_caches().expect("drop");
        }
        if run.random.chance(40) {
            let client = sides[who].client.clone();
            sides[who] = Side::open(client, layout);
        }
        sides.iter().for_each(|s| s.client.check_invariants().unwrap_or_else(|e| panic!("{what}: {e}")));
    }
    for side in &sides {
        side.client.drop_caches().expect("drop");
        run.look(&format!("seed {seed}, at the end"), side, 0, span + longest);
    }
}

fn composite() -> Layout {
    let first = Layout::composite().until(64 << 10).stripe_count(1).stripe_size(64 << 10);
    let second = first.until(256 << 10).stripe_count(2).stripe_size(64 << 10);
    second.to_eof().stripe_count(3).stripe_size(64 << 10)
}

#[test]
fn random_operations_on_a_striped_file() {
    for seed in 0..u64::from(cases(3)) {
        fsx(seed, &narrow(3), 700_000, 60_000, 200);
    }
}

#[test]
fn random_operations_on_a_composite_file() {
    for seed in 100..100 + u64::from(cases(3)) {
        fsx(seed, &composite(), 700_000, 60_000, 200);
    }
}

#[test]
fn random_operations_on_a_small_file() {
    for seed in 200..200 + u64::from(cases(3)) {
        fsx(seed, &narrow(1), 9_000, 700, 400);
    }
}

#[test]
fn random_operations_around_the_seams_of_a_composite_file() {
    for seed in 300..300 + u64::from(cases(3)) {
        fsx(seed, &composite(), 80_000, 9_000, 300);
    }
}
