//! Finding out whether the records of a store fit together.

use crate::fids::{self, FidRange};
use crate::kv::{Space, View};
use crate::namespace::Namespace;
use crate::record::{Entry, Inode, Kind, Reply, Unlinked, split_entry_key};
use clio_core::units::Fid;
use clio_core::{Errno, Error, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::ops::ControlFlow;

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// A record can't be decoded. Repair moves it aside.
    Unreadable {
        /// The key space.
        space: &'static str,
        /// The key.
        key: Vec<u8>,
        /// Whether a newer release wrote it: then repair refuses to touch the store.
        newer: bool,
    },
    /// There is no root directory. Repair makes one.
    MissingRoot,
    /// An entry in what is no directory, or has been removed. Repair removes it.
    EntryInNoDirectory(
        /// The directory that isn't.
        Fid,
        /// The name.
        Vec<u8>,
    ),
    /// An entry of an inode that is missing. Repair removes it.
    Dangling(
        /// The directory.
        Fid,
        /// The name.
        Vec<u8>,
    ),
    /// An entry of a directory whose inode is missing. Repair makes it anew, for the superuser only, so that what is
    /// in it keeps its names.
    LostDirectory {
        /// The directory that it is in.
        dir: Fid,
        /// The name.
        name: Vec<u8>,
        /// The directory that is missing.
        fid: Fid,
    },
    /// A further entry of a directory, or one of the root. Repair removes it.
    SecondName(
        /// The directory.
        Fid,
        /// The name.
        Vec<u8>,
    ),
    /// An entry that has its inode's kind wrong. Repair corrects it.
    WrongKind(
        /// The directory.
        Fid,
        /// The name.
        Vec<u8>,
    ),
    /// An inode whose link count, count of entries, parent or orphan mark is wrong. Repair corrects it.
    WrongInode {
        /// The inode.
        fid: Fid,
        /// What is wrong.
        what: &'static str,
        /// The value in the inode.
        stored: u64,
        /// The value as counted.
        counted: u64,
    },
    /// A directory whose ".." is wrong. Repair corrects it.
    WrongParent {
        /// The directory.
        fid: Fid,
        /// Where it is.
        parent: Fid,
    },
    /// An inode without a name that is no orphan. Repair puts it into `/lost+found`.
    Unreachable(Fid),
    /// Directories that lie in each other, apart from the root. Repair opens the ring at this one.
    Ring(Fid),
    /// A record of an unlinked file that doesn't go with the inodes. Repair corrects it.
    WrongUnlinked(Fid),
    /// A FID in use that the sequence has not reached yet. Repair moves the sequence on.
    FidAhead(Fid),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = |f: &mut fmt::Formatter<'_>, dir: &Fid, name: &[u8], what: &str| {
            write!(f, "entry '{}' of {dir} {what}", name.escape_ascii())
        };
        match self {
            Finding::Unreadable { space, key, newer } => {
                let why = if *newer { "was written by a newer release" } else { "is damaged" };
                write!(f, "record {} of {space} {why}", key.escape_ascii())
            }
            Finding::MissingRoot => write!(f, "the root directory is missing"),
            Finding::EntryInNoDirectory(dir, name) => entry(f, dir, name, "is in no directory"),
            Finding::Dangling(dir, name) => entry(f, dir, name, "points at an inode that is missing"),
            Finding::LostDirectory { dir, name, .. } => entry(f, dir, name, "names a directory that is missing"),
            Finding::SecondName(dir, name) => entry(f, dir, name, "is a second name of a directory"),
            Finding::WrongKind(dir, name) => entry(f, dir, name, "has the kind wrong"),
            Finding::WrongInode { fid, what, stored, counted } => {
                write!(f, "inode {fid} has {what} {stored}, counted {counted}")
            }
            Finding::WrongParent { fid, parent } => write!(f, "directory {fid} doesn't know that it is in {parent}"),
            Finding::Unreachable(fid) => write!(f, "inode {fid} has no name"),
            Finding::Ring(fid) => write!(f, "directory {fid} is inside itself"),
            Finding::WrongUnlinked(fid) => write!(f, "the record of unlinked file {fid} doesn't fit"),
            Finding::FidAhead(fid) => write!(f, "{fid} is in use but was never handed out"),
        }
    }
}

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Inodes that could be read.
    pub inodes: u64,
    /// Directory entries that could be read.
    pub entries: u64,
    /// Orphans and files whose objects are to be destroyed: nothing wrong, but work to be done.
    pub unlinked: u64,
    /// All that is wrong.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

/// An inode, and what was counted for it.
struct Node {
    kind: Kind,
    nlink: u32,
    entries: u64,
    parent: Fid,
    orphan: bool,
    names: u32,
    held: u64,
    subdirs: u32,
    /// The directory that a directory is in.
    place: Option<Fid>,
}

impl Namespace {
    /// Reads every record of one consistent state and reports what doesn't fit. Operations may go on meanwhile (on
    /// a store in memory, changing ones wait). Takes about 100 bytes of memory for each inode.
    ///
    /// # Errors
    /// `EIO` if the store can't be read. What is wrong with the records is in the report.
    pub fn check(&self) -> Result<Report> {
        let view = self.kv.view();
        let mut checker = Checker { view: &*view, nodes: HashMap::new(), report: Report::default() };
        checker.inodes()?;
        checker.entries()?;
        checker.rings();
        checker.counts();
        checker.unlinked()?;
        checker.rest()?;
        Ok(checker.report)
    }
}

struct Checker<'v> {
    view: &'v dyn View,
    nodes: HashMap<Fid, Node>,
    report: Report,
}

impl Checker<'_> {
    fn find(&mut self, finding: Finding) {
        self.report.findings.push(finding);
    }

    /// Visits all records of `space`, those that `decode` refuses as findings.
    fn each<T>(
        &mut self,
        space: Space,
        decode: impl Fn(&[u8], &[u8]) -> Result<T>,
        mut visit: impl FnMut(&mut Self, T),
    ) -> Result<()> {
        let view = self.view;
        view.scan(space, &[], None, &mut |key, value| {
            match decode(key, value) {
                Ok(record) => visit(self, record),
                Err(e) => {
                    let newer = e.errno() == Errno::EOPNOTSUPP;
                    self.find(Finding::Unreadable { space: space.name(), key: key.to_vec(), newer });
                }
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    fn inodes(&mut self) -> Result<()> {
        let decode = |key: &[u8], value: &[u8]| {
            let inode = Inode::decode(value)?;
            if key == inode.fid.to_bytes() { Ok(inode) } else { Err(bad_key()) }
        };
        self.each(Space::Inodes, decode, |this, i| {
            this.report.inodes += 1;
            let Inode { fid, kind, nlink, entries, parent, orphan, .. } = i;
            let node = Node { kind, nlink, entries, parent, orphan, names: 0, held: 0, subdirs: 0, place: None };
            this.nodes.insert(fid, node);
        })?;
        match self.nodes.get(&fids::ROOT) {
            Some(root) if root.kind == Kind::Dir => {}
            _ => self.find(Finding::MissingRoot),
        }
        Ok(())
    }

    fn entries(&mut self) -> Result<()> {
        let decode = |key: &[u8], value: &[u8]| {
            let (dir, name) = split_entry_key(key).ok_or_else(bad_key)?;
            Ok((dir, name.to_vec(), Entry::decode(value)?))
        };
        self.each(Space::Entries, decode, |this, (dir, name, entry)| {
            this.report.entries += 1;
            this.entry(dir, name, entry);
        })
    }

    fn entry(&mut self, dir: Fid, name: Vec<u8>, entry: Entry) {
        match self.nodes.get(&dir) {
            Some(node) if node.kind == Kind::Dir && !node.orphan => {}
            _ => return self.find(Finding::EntryInNoDirectory(dir, name)),
        }
        let Some(node) = self.nodes.get_mut(&entry.fid) else {
            return self.find(match entry.kind {
                Kind::Dir => Finding::LostDirectory { dir, name, fid: entry.fid },
                _ => Finding::Dangling(dir, name),
            });
        };
        let is_dir = node.kind == Kind::Dir;
        if is_dir && (node.place.is_some() || entry.fid == fids::ROOT) {
            return self.find(Finding::SecondName(dir, name));
        }
        node.names += 1;
        node.place = is_dir.then_some(dir);
        let wrong_kind = node.kind != entry.kind;
        if let Some(holder) = self.nodes.get_mut(&dir) {
            holder.held += 1;
            holder.subdirs += u32::from(is_dir);
        }
        if wrong_kind {
            self.find(Finding::WrongKind(dir, name));
        }
    }

    /// Directories with a name that can't be reached: following their places leads back to themselves.
    fn rings(&mut self) {
        let mut settled: HashSet<Fid> = HashSet::new();
        let mut rings = Vec::new();
        for start in self.nodes.keys() {
            let mut way = Vec::new();
            let mut at = Some(*start);
            while let Some(dir) = at
                && settled.insert(dir)
            {
                way.push(dir);
                at = self.nodes.get(&dir).and_then(|n| n.place);
            }
            // Ending on this very way means a ring; its least FID makes the finding the same in every run.
            if let Some(ring) = at.and_then(|end| way.iter().position(|d| *d == end)) {
                rings.extend(way[ring..].iter().min());
            }
        }
        rings.sort();
        self.report.findings.extend(rings.into_iter().map(Finding::Ring));
    }

    fn counts(&mut self) {
        let mut findings = BTreeMap::new();
        for (fid, node) in &self.nodes {
            let mut found = Vec::new();
            let mut wrong = |what, stored, counted| {
                if stored != counted {
                    found.push(Finding::WrongInode { fid: *fid, what, stored, counted });
                }
            };
            let is_root = *fid == fids::ROOT;
            let named = node.names > 0 || is_root;
            let links = match node.kind {
                Kind::Dir if named || !node.orphan => 2 + node.subdirs,
                _ => node.names,
            };
            // What is put into lost+found gets its link count there.
            if named || node.orphan {
                wrong("link count", u64::from(node.nlink), u64::from(links));
            }
            if named {
                wrong("orphan mark", u64::from(node.orphan), 0);
            }
            if node.kind == Kind::Dir {
                wrong("count of entries", node.entries, node.held);
            }
            if let Some(parent) = if is_root { Some(fids::ROOT) } else { node.place }
                && node.kind == Kind::Dir
                && node.parent != parent
            {
                found.push(Finding::WrongParent { fid: *fid, parent });
            }
            if !named && !node.orphan {
                found.push(Finding::Unreachable(*fid));
            }
            if !found.is_empty() {
                findings.insert(*fid, found);
            }
        }
        self.report.findings.extend(findings.into_values().flatten());
    }

    fn unlinked(&mut self) -> Result<()> {
        let decode = |key: &[u8], value: &[u8]| {
            let fid = key.try_into().map_err(|_| bad_key())?;
            Ok((Fid::from_bytes(fid), Unlinked::decode(value)?))
        };
        let mut recorded = HashSet::new();
        self.each(Space::Unlinked, decode, |this, (fid, record)| {
            this.report.unlinked += 1;
            let orphan = this.nodes.get(&fid).map(|n| n.orphan);
            match (record, orphan) {
                (Unlinked::Orphan, Some(true)) => drop(recorded.insert(fid)),
                (Unlinked::Doomed { .. }, None) => {}
                _ => this.find(Finding::WrongUnlinked(fid)),
            }
        })?;
        let mut missing: Vec<_> =
            self.nodes.iter().filter(|(fid, n)| n.orphan && !recorded.contains(*fid)).map(|(fid, _)| *fid).collect();
        missing.sort();
        for fid in missing {
            if !self.report.findings.contains(&Finding::WrongUnlinked(fid)) {
                self.find(Finding::WrongUnlinked(fid));
            }
        }
        Ok(())
    }

    fn rest(&mut self) -> Result<()> {
        let decode = |key: &[u8], value: &[u8]| if key.len() == 16 { Reply::decode(value) } else { Err(bad_key()) };
        self.each(Space::Replies, decode, |_, _| {})?;
        let range = match self.view.get(Space::Meta, fids::KEY)? {
            Some(stored) => FidRange::decode(&stored).unwrap_or_else(|_| FidRange::new()),
            None => FidRange::new(),
        };
        if let Some(last) = self.nodes.keys().filter(|fid| !range.covers(**fid)).max() {
            self.find(Finding::FidAhead(*last));
        }
        Ok(())
    }
}

fn bad_key() -> Error {
    Error::new(Errno::EBADMSG, "check", "the record is under a wrong key")
}
