//! What a round's folder holds for sure, and what it may hold.

use super::script::Op;
use std::collections::{BTreeMap, BTreeSet};

/// A change of a file that may have come to pass.
#[derive(Clone)]
enum Change {
    Write { at: usize, data: Vec<u8> },
    Zero { at: usize, len: usize },
    Size(usize),
}

/// The content of a file: as it was durable last, and changes since, in their order.
#[derive(Clone, Default)]
pub struct Content {
    sure: Vec<u8>,
    since: Vec<Change>,
}

impl Content {
    /// With all changes.
    fn latest(&self) -> Vec<u8> {
        let mut all = self.sure.clone();
        for change in &self.since {
            match change {
                Change::Write { at, data } => {
                    all.resize(all.len().max(at + data.len()), 0);
                    all[*at..at + data.len()].copy_from_slice(data);
                }
                Change::Zero { at, len } => {
                    let end = (at + len).min(all.len());
                    all[(*at).min(end)..end].fill(0);
                }
                Change::Size(size) => all.resize(*size, 0),
            }
        }
        all
    }

    /// With sizes only.
    fn size(&self) -> usize {
        self.since.iter().fold(self.sure.len(), |size, change| match change {
            Change::Write { at, data } => size.max(at + data.len()),
            Change::Zero { .. } => size,
            Change::Size(to) => *to,
        })
    }

    fn sync(&mut self) {
        self.sure = self.latest();
        self.since.clear();
    }

    /// The write that came last was synchronous: that is durable, and what was written before stays as it was.
    fn sync_last(&mut self) {
        let Some(Change::Write { at, data }) = self.since.pop() else { panic!("not a write") };
        let end = at + data.len();
        self.sure.resize(self.sure.len().max(end), 0);
        self.sure[at..end].copy_from_slice(&data);
        for change in &mut self.since {
            let Change::Write { at: earlier, data: old } = change else { continue };
            let (from, to) = (at.max(*earlier), end.min(*earlier + old.len()));
            if from < to {
                old[from - *earlier..to - *earlier].copy_from_slice(&data[from - at..to - at]);
            }
        }
    }

    /// A truncate has returned: the size is that, and what is beyond is gone; what was written before may be dirty yet.
    fn truncated(&mut self, size: usize) {
        self.sure.resize(size, 0);
        for change in &mut self.since {
            if let Change::Write { at, data } = change {
                data.truncate(size.saturating_sub(*at));
            }
        }
        self.since.retain(|c| !matches!(c, Change::Write { data, .. } if data.is_empty()));
    }

    /// Whether a file with this content is as it should be; else why not.
    pub fn allows(&self, got: &[u8]) -> Result<(), String> {
        let (mut least, mut most) = (self.sure.len(), self.sure.len());
        let mut allowed: Vec<bool> = (0..got.len()).map(|i| got[i] == self.sure.get(i).copied().unwrap_or(0)).collect();
        let mut allow = |at: usize, len: usize, value: &dyn Fn(usize) -> u8| {
            for i in at.min(got.len())..(at + len).min(got.len()) {
                allowed[i] |= got[i] == value(i - at);
            }
        };
        for change in &self.since {
            match change {
                Change::Write { at, data } => {
                    most = most.max(at + data.len());
                    allow(*at, data.len(), &|i| data[i]);
                }
                Change::Zero { at, len } => allow(*at, *len, &|_| 0),
                Change::Size(size) => {
                    // Stripes are cut one after the other, so that for a moment the last one that holds data may
                    // say how long the file is.
                    let kept = &self.sure[..self.sure.len().min(*size)];
                    least = least.min(kept.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1));
                    most = most.max(*size);
                    allow(*size, got.len(), &|_| 0);
                }
            }
        }
        if !(least..=most).contains(&got.len()) {
            return Err(format!("it has {} bytes, not {least} to {most}", got.len()));
        }
        match allowed.iter().position(|a| !a) {
            Some(i) => Err(format!("byte {i} of {} is {:#x}, should be {:?}", got.len(), got[i], self.sure.get(i))),
            None => Ok(()),
        }
    }
}

/// Names and files of a round.
#[derive(Clone)]
pub struct Tree {
    pub root: String,
    dirs: BTreeSet<String>,
    names: BTreeMap<String, u64>,
    files: BTreeMap<u64, Content>,
}

impl Tree {
    pub fn new(round: u64) -> Self {
        let root = format!("/r{round}");
        Self { root, dirs: BTreeSet::new(), names: BTreeMap::new(), files: BTreeMap::new() }
    }

    pub fn has_dir(&self, dir: &str) -> bool {
        dir.is_empty() || self.dirs.contains(dir)
    }

    pub fn file(&self, path: &str) -> Option<u64> {
        self.names.get(path).copied()
    }

    pub fn names(&self) -> Vec<(String, u64)> {
        self.names.iter().map(|(path, file)| (path.clone(), *file)).collect()
    }

    /// Files by their paths below the root, and folders as such.
    pub fn entries(&self) -> BTreeMap<String, Option<&Content>> {
        let files = self.names.iter().map(|(path, file)| (path.clone(), Some(&self.files[file])));
        files.chain(self.dirs.iter().map(|dir| (dir.clone(), None))).collect()
    }

    pub fn size(&self, file: u64) -> u64 {
        self.files[&file].size() as u64
    }

    fn content(&mut self, file: u64) -> &mut Content {
        self.files.get_mut(&file).expect("the script names files that are there")
    }

    /// Notes what `op` may do to a file.
    fn change(&mut self, op: &Op) {
        let (file, change) = match op {
            Op::Write { file, at, data, .. } => (file, Change::Write { at: *at as usize, data: data.0.clone() }),
            Op::Append { file, data } => (file, Change::Write { at: self.size(*file) as usize, data: data.0.clone() }),
            Op::Truncate { file, size } => (file, Change::Size(*size as usize)),
            Op::Punch { file, at, len } => (file, Change::Zero { at: *at as usize, len: *len as usize }),
            _ => return,
        };
        self.content(*file).since.push(change);
    }

    /// `op` has returned.
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Create { path, .. } => {
                let file = self.files.len() as u64;
                self.files.insert(file, Content::default());
                self.names.insert(path.clone(), file);
            }
            Op::Write { file, sync: true, data, .. } | Op::Append { file, data } => {
                self.change(op);
                match data.is_for_dsync() {
                    true => self.content(*file).sync_last(),
                    false => self.content(*file).sync(),
                }
            }
            Op::Write { .. } => self.change(op),
            Op::Punch { file, .. } => {
                self.change(op);
                self.content(*file).sync();
            }
            Op::Truncate { file, size } => self.content(*file).truncated(*size as usize),
            Op::Rename { from, to } => {
                let file = self.names.remove(from).expect("the script renames what is there");
                self.names.insert(to.clone(), file);
            }
            Op::Unlink { path } => drop(self.names.remove(path)),
            Op::Mkdir { path } => drop(self.dirs.insert(path.clone())),
        }
    }

    /// `op` is under way: what there is if it hasn't changed names yet, and if it has. Its data may be there in part.
    pub fn begin(mut self, op: &Op) -> (Tree, Tree) {
        self.change(op);
        let mut after = self.clone();
        if matches!(op, Op::Create { .. } | Op::Rename { .. } | Op::Unlink { .. } | Op::Mkdir { .. }) {
            after.apply(op);
        }
        (self, after)
    }
}
