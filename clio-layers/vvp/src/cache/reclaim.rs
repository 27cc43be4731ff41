//! Making room: clean pages first, by second chance, then dirty ones after their write-out.
//!
//! Never waits for a page's owner, who may be waiting for memory itself.

use super::{Counters, PageCache};
use crate::transfer::{Batch, MiscIo};
use clio_core::env::Env;
use clio_core::object::Object;
use clio_core::page::{Page, Rw};
use clio_core::units::PageIndex;
use std::sync::Arc;

/// Most pages written out together to make room.
const WRITE_OUT_PAGES: usize = 8;

/// How much a round of the clock may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Round {
    /// Clean pages that were not used since the last round.
    Unused,
    /// Clean pages.
    Clean,
    /// All that can be written out.
    Dirty,
}

impl PageCache {
    /// Gives back at least `bytes` of page memory if that is possible; returns how many. Blocks on write-out; the
    /// caller owns no page and holds no mutex.
    pub fn reclaim(&self, env: &Env, bytes: u64) -> u64 {
        let mut freed = 0;
        for round in [Round::Unused, Round::Clean, Round::Dirty] {
            let mut left = self.slots.len();
            while freed < bytes && left > 0 {
                left -= 1;
                let Some((object, index)) = self.slots.next() else { return freed };
                if let Some(object) = object.upgrade() {
                    freed += self.take(env, round, &object, index);
                }
            }
        }
        freed
    }

    /// Takes what `round` may of the page, and of its neighbours.
    fn take(&self, env: &Env, round: Round, object: &Arc<Object>, index: PageIndex) -> u64 {
        let Some(page) = object.pages().get(index) else { return 0 };
        if round == Round::Unused && page.take_accessed() {
            return 0;
        }
        if page.dirty().is_empty() {
            if round == Round::Dirty {
                page.wait_idle(page.all_blocks());
            }
            return self.evict(env, &page);
        }
        if round != Round::Dirty {
            return 0;
        }
        let pages = object.pages().range(index.0..u64::MAX, WRITE_OUT_PAGES);
        // An error is latched by the layer that transfers; the page is clean or gone all the same.
        if let Err(e) = write_out(env, object, &pages) {
            tracing::warn!(target: "clio::page", fid = %object.fid(), error = %e, "write-out to make room");
        }
        Counters::add(&self.counters.pressure_writes, pages.len() as u64);
        pages.iter().map(|page| self.evict(env, page)).sum()
    }

    fn evict(&self, env: &Env, page: &Arc<Page>) -> u64 {
        let bytes = page.memory_bytes() as u64;
        page.shut_window(env, page.all_blocks());
        if !page.evict(env) {
            return 0;
        }
        Counters::add(&self.counters.evictions, 1);
        bytes
    }
}

/// Writes out those of `pages` that nobody owns, and waits.
fn write_out(env: &Env, object: &Arc<Object>, pages: &[Arc<Page>]) -> clio_core::Result<()> {
    let mut io = MiscIo::new(env, object)?;
    let mut batch = Batch::new(Rw::Write);
    for page in pages {
        let dirty = page.dirty();
        if !dirty.is_empty()
            && let Some(owned) = page.try_own_idle(io.id(), dirty)
        {
            batch.add(owned, dirty, dirty);
        }
    }
    batch.submit(&mut io)?;
    batch.wait()
}
