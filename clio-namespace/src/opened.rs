//! What one client has open, and with which rights.

use crate::caller::{Access, Caller, SUPERUSER};
use crate::record::Inode;
use clio_core::units::Fid;
use clio_core::{Errno, Error, Result};
use std::collections::{HashMap, HashSet};

/// New files that a client has made and not opened: of more than so many, all lose what a maker may.
const MAX_MADE: usize = 4096;

/// The open files of a client. It may do by them what it could when it opened them, whatever their modes have become.
#[derive(Debug, Default)]
pub struct Opened {
    files: HashMap<Fid, Held>,
    made: HashSet<Fid>,
}

#[derive(Debug)]
struct Held {
    count: u32,
    /// Of all handles together, until the last one is closed.
    access: Access,
}

impl Opened {
    /// Notes what a create came to: a file that it made its maker may open for any access, whatever mode it was given, once.
    pub fn created(&mut self, (inode, made): &(Inode, bool)) {
        if *made {
            if self.made.len() >= MAX_MADE {
                self.made.clear();
            }
            self.made.insert(inode.fid);
        }
    }

    /// Whether `fid` is a file that the client has made and not opened since; from now on it has.
    pub fn take_made(&mut self, fid: Fid) -> bool {
        self.made.remove(&fid)
    }

    /// One more handle.
    pub fn open(&mut self, fid: Fid, access: Access) {
        let held = self.files.entry(fid).or_insert(Held { count: 0, access: Access::NONE });
        held.count += 1;
        held.access = held.access | access;
    }

    /// One handle less.
    ///
    /// # Errors
    /// `EBADF`: there is none.
    pub fn close(&mut self, fid: Fid) -> Result<()> {
        let Some(held) = self.files.get_mut(&fid) else {
            return Err(Error::new(Errno::EBADF, "close", "the client hasn't opened it").on(fid));
        };
        held.count -= 1;
        if held.count == 0 {
            self.files.remove(&fid);
        }
        Ok(())
    }

    /// Whose rights count when `caller`, whose files these are, changes the layout of `fid`: whoever could open the file for
    /// writing goes on writing.
    pub fn layout_caller<'a>(&self, fid: Fid, caller: &'a Caller) -> &'a Caller {
        let writes = self.files.get(&fid).is_some_and(|held| held.access.includes(Access::WRITE));
        if writes { &SUPERUSER } else { caller }
    }

    /// Different files that are open.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Takes all: each file, and how often it was open.
    pub fn take(&mut self) -> Vec<(Fid, u32)> {
        std::mem::take(&mut self.files).into_iter().map(|(fid, held)| (fid, held.count)).collect()
    }
}
