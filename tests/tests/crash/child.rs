//! The child: does what its script says until it is killed.

use super::ACK;
use super::model::Tree;
use super::script::{Op, Script, Shape};
use clio::{Client, Error, File, Layout};
use clio_tests::{narrow, read_write};
use std::collections::BTreeMap;

/// Said before an error.
pub const FAILED: &str = "child failed: ";

pub fn run(uri: &str, round: u64) {
    if let Err(e) = work(uri, round) {
        println!("{FAILED}{e}");
    }
}

fn layout(shape: Shape) -> Layout {
    match shape {
        Shape::Plain => narrow(1),
        Shape::Striped => narrow(3),
        Shape::Composite => {
            let first = Layout::composite().until(128 << 10).stripe_size(64 << 10);
            first.to_eof().stripe_count(2).stripe_size(64 << 10)
        }
    }
}

/// What a child keeps open: files by their numbers.
struct Child {
    client: Client,
    root: String,
    open: BTreeMap<u64, Open>,
    created: u64,
}

/// A file.
struct Open {
    plain: File,
    /// Each write to it is made durable.
    dsync: File,
}

fn work(uri: &str, round: u64) -> Result<(), Error> {
    // Old data goes out soon, so that the child dies while that is under way.
    let client = Client::builder().store(uri).set("writeback_age_ms", 10).connect()?;
    let (mut script, mut tree) = (Script::new(round), Tree::new(round));
    client.mkdir(&tree.root)?;
    let mut child = Child { client, root: tree.root.clone(), open: BTreeMap::new(), created: 0 };
    for n in 0u64.. {
        let op = script.next(&tree);
        child.apply(&op, &tree)?;
        println!("{ACK}{n}");
        tree.apply(&op);
    }
    Ok(())
}

impl Child {
    fn path(&self, path: &str) -> String {
        format!("{}{path}", self.root)
    }

    fn apply(&mut self, op: &Op, tree: &Tree) -> Result<(), Error> {
        match op {
            Op::Create { path, shape } => {
                let options = read_write().create_new(true).layout(layout(*shape));
                let plain = self.client.open_with(self.path(path), options)?;
                let dsync = self.client.open_with(self.path(path), read_write().dsync(true))?;
                self.open.insert(self.created, Open { plain, dsync });
                self.created += 1;
            }
            Op::Write { file, at, data, sync } => {
                let open = &self.open[file];
                let dsync = *sync && data.is_for_dsync();
                if dsync { &open.dsync } else { &open.plain }.write_all_at(&data.0, *at)?;
                if *sync && !dsync {
                    open.plain.sync_data()?;
                }
            }
            Op::Append { file, data } => {
                let (open, dsync) = (&self.open[file], data.is_for_dsync());
                let at = if dsync { &open.dsync } else { &open.plain }.append(&data.0)?;
                assert_eq!(at, tree.size(*file), "where an append goes");
                if !dsync {
                    open.plain.sync_data()?;
                }
            }
            Op::Truncate { file, size } => self.open[file].plain.set_len(*size)?,
            Op::Punch { file, at, len } => {
                self.open[file].plain.punch_hole(*at, *len)?;
                self.open[file].plain.sync_data()?;
            }
            Op::Rename { from, to } => self.client.rename(self.path(from), self.path(to))?,
            Op::Unlink { path } => {
                self.client.remove_file(self.path(path))?;
                // Every other file that has no name any more stays open until the child dies.
                let file = tree.file(path).expect("the script unlinks what is there");
                if file.is_multiple_of(2) {
                    self.open.remove(&file);
                }
            }
            Op::Mkdir { path } => self.client.mkdir(self.path(path))?,
        }
        Ok(())
    }
}
