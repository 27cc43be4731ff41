//! Which operations a child carries out: they follow from its round, and from what they have made so far.

use super::model::Tree;

/// Largest offset that a file is written at, in bytes.
const SPAN: u64 = 400 << 10;
const DIRS: [&str; 3] = ["", "/d0", "/d1"];
const NAMES: [&str; 4] = ["a", "b", "c", "e"];

/// How a file is spread over targets.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// On one target.
    Plain,
    /// Three stripes of 64 KiB.
    Striped,
    /// 128 KiB on one target, the rest in two stripes.
    Composite,
}

/// One operation. Files have numbers, which stay with them when they are renamed.
#[derive(Clone, Debug)]
pub enum Op {
    Create {
        path: String,
        shape: Shape,
    },
    /// `sync` says whether it is followed by a sync, which belongs to the operation.
    Write {
        file: u64,
        at: u64,
        data: Data,
        sync: bool,
    },
    Append {
        file: u64,
        data: Data,
    },
    Truncate {
        file: u64,
        size: u64,
    },
    Punch {
        file: u64,
        at: u64,
        len: u64,
    },
    Rename {
        from: String,
        to: String,
    },
    Unlink {
        path: String,
    },
    Mkdir {
        path: String,
    },
}

/// Bytes, of which a message only says how many.
#[derive(Clone)]
pub struct Data(pub Vec<u8>);

impl Data {
    /// One way to have it durable, or the other: it is written synchronously, or a sync follows.
    pub fn is_for_dsync(&self) -> bool {
        self.0.len().is_multiple_of(2)
    }
}

impl std::fmt::Debug for Data {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// A number that looks random.
pub fn mix(n: u64) -> u64 {
    let x = n.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// The operations of a round, one after the other.
pub struct Script {
    round: u64,
    step: u64,
    state: u64,
}

impl Script {
    pub fn new(round: u64) -> Self {
        Self { round, step: 0, state: mix(round) }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.state = mix(self.state);
        self.state % n
    }

    /// From one byte to 300 KiB; mostly small, since most writes are.
    fn data(&mut self) -> Data {
        let most = [100, 100, 9_000, 9_000, 9_000, 70_000, 70_000, 300 << 10][self.below(8) as usize];
        let len = 1 + self.below(most);
        Data(clio_tests::pattern(self.round << 32 | self.step, 0, len as usize))
    }

    fn path(&mut self, tree: &Tree) -> String {
        let dir = DIRS[self.below(3) as usize];
        let dir = if tree.has_dir(dir) { dir } else { "" };
        format!("{dir}/{}", NAMES[self.below(4) as usize])
    }

    /// The next operation on what is there now.
    pub fn next(&mut self, tree: &Tree) -> Op {
        self.step += 1;
        let named = tree.names();
        let (path, file) = match named.len() as u64 {
            0 => return Op::Create { path: self.path(tree), shape: Shape::Composite },
            n => named[self.below(n) as usize].clone(),
        };
        let (at, size) = (self.below(SPAN), tree.size(file));
        match self.below(16) {
            0 | 1 => {
                let to = self.path(tree);
                let shape = [Shape::Plain, Shape::Striped, Shape::Composite][self.below(3) as usize];
                match tree.file(&to) {
                    None => Op::Create { path: to, shape },
                    Some(file) => Op::Write { file, at: at % (size + 1), data: self.data(), sync: true },
                }
            }
            2 => match DIRS[1..].iter().find(|d| !tree.has_dir(d)) {
                Some(dir) => Op::Mkdir { path: dir.to_string() },
                None => Op::Unlink { path },
            },
            3 | 4 => Op::Rename { from: path, to: self.path(tree) },
            5 | 6 => Op::Truncate { file, size: at },
            7 | 8 => Op::Punch { file, at: at % (size + 1), len: 1 + self.below(100_000) },
            9 | 10 if size < 2 * SPAN => Op::Append { file, data: self.data() },
            n => Op::Write { file, at, data: self.data(), sync: n < 14 },
        }
    }
}
