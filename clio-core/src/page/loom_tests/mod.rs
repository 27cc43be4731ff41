//! Pages under the model checker: ownership against transfer, cached reads and writes against eviction, the index,
//! and waiting for transfers.
//!
//! Nothing here stands for the code: these are the pages, cells and index that ship, over page memory of which loom sees
//! the first and the last word of each block. Not covered: reference counts (the standard library's), the table of
//! objects, and what `OnceLock` orders, which loom takes for nothing at all.

mod cached;
mod index;
mod owners;
mod reads;
mod sync_io;
mod transfer;

use super::*;
use crate::env::EnvTags;
use crate::io::{Io, IoId, IoSlice};
use crate::lock::{LockDescr, LockSlice};
use crate::memory::{LoomMemory, PageMemory};
use crate::object::{Device, ObjectBuilder, ObjectConf, ObjectRef, ObjectSlice, Site, SiteLimits, SubObjectConf};
use crate::sync::thread;
use crate::target::Bulk;
use crate::units::StripeIndex;

const BLOCK: usize = BLOCK_SIZE as usize;

/// Explores a model. More is feasible here than the bound that the models of this crate share.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.max_branches = 20_000;
    builder.check(run);
}

fn env() -> Env {
    Env::get(EnvTags::ANY)
}

fn io(n: u64) -> IoId {
    IoId(n)
}

/// A layer over the pages of one object, which may be the stripe of another: folio for folio.
struct Layer {
    below: Option<Arc<Object>>,
}

impl Device for Layer {
    fn layer(&self) -> &'static str {
        "model"
    }
    fn object_init(&self, _: &Env, builder: &mut ObjectBuilder) -> Result<()> {
        builder.push(Box::new(Layer { below: self.below.clone() }));
        Ok(())
    }
}

impl ObjectSlice for Layer {
    fn layer(&self) -> &'static str {
        "model"
    }
    fn page_init(&self, _: &Env, _: &mut PageBuilder<'_>) -> Result<Option<Box<dyn PageSlice>>> {
        Ok(None)
    }
    fn lock_init(&self, _: &Env, _: &Arc<Object>, _: &LockDescr) -> Result<Option<Box<dyn LockSlice>>> {
        Ok(None)
    }
    fn io_init(&self, _: &Env, _: &Arc<Object>, _: &mut Io) -> Result<Option<Box<dyn IoSlice>>> {
        Ok(None)
    }
    fn child_of(&self, index: PageIndex) -> Option<(Arc<Object>, PageIndex)> {
        self.below.clone().map(|sub| (sub, index))
    }
}

/// A site with one object.
struct World {
    object: ObjectRef,
    /// Where the stripe is held, if there is one.
    _sub: Option<ObjectRef>,
    memory: Arc<LoomMemory>,
}

/// An object with folios of `folio_blocks` blocks, over memory of `memory_blocks` blocks.
fn world(folio_blocks: u64, memory_blocks: usize) -> World {
    let (site, memory, conf) = parts(folio_blocks, memory_blocks);
    let object = site.find(&env(), Fid::new(1, 1), &Layer { below: None }, &conf).expect("find");
    World { object, _sub: None, memory }
}

/// A file with one stripe; the world's object is the file. Returns the stripe too.
fn striped_world() -> (World, Arc<Object>) {
    let (site, memory, conf) = parts(1, 1);
    // The file has to be there first, but its layer has to know the stripe: this one is never looked for again.
    let top = site.find(&env(), Fid::new(1, 1), &Layer { below: None }, &conf).expect("find");
    let parent = SubObjectConf { top: Arc::downgrade(&top), component: 0, stripe: StripeIndex(0) };
    let sub_conf = ObjectConf { parent: Some(parent), ..conf.clone() };
    let sub = site.find(&env(), Fid::new(2, 1), &Layer { below: None }, &sub_conf).expect("find");
    let object = site.find(&env(), Fid::new(1, 2), &Layer { below: Some(sub.object().clone()) }, &conf).expect("find");
    let stripe = sub.object().clone();
    (World { object, _sub: Some(sub), memory }, stripe)
}

fn parts(folio_blocks: u64, memory_blocks: usize) -> (Arc<Site>, Arc<LoomMemory>, ObjectConf) {
    let memory = LoomMemory::new(memory_blocks);
    let site = Site::new(SiteLimits::default(), FolioSlab::new(memory.clone()));
    (site, memory, ObjectConf { folio_size: Some(folio_blocks * BLOCK_SIZE), ..Default::default() })
}

impl World {
    fn object(&self) -> Arc<Object> {
        self.object.object().clone()
    }

    fn page(&self, index: u64) -> Arc<Page> {
        find(&self.object, index)
    }

    /// The page at `index`, with `value` in all bytes of its first block, dirty.
    fn written(&self, index: u64, value: u8) -> Arc<Page> {
        let page = self.page(index);
        write(&page, 0, value);
        page
    }

    /// The same, clean.
    fn cached(&self, index: u64, value: u8) -> Arc<Page> {
        let page = self.written(index, value);
        assert_eq!(write_out(&page), Some(value));
        page
    }
}

fn find(object: &Arc<Object>, index: u64) -> Arc<Page> {
    Page::find(&env(), object, PageIndex(index)).expect("page")
}

fn block(b: usize) -> BlockSet {
    BlockSet::range(b..b + 1)
}

/// Owns the page and writes block `b`.
fn write(page: &Arc<Page>, b: usize, value: u8) {
    let owned = page.own_idle(io(9), block(b)).expect("the page lives");
    owned.write(b * BLOCK, &[value; BLOCK], 0).expect("write");
}

/// The value of all bytes of `buf`. Looks at those only that loom sees: it may have shown us old ones there, while what
/// lies between is always the newest.
fn value_of(buf: &[u8; BLOCK]) -> u8 {
    let (start, end) = (&buf[..8], &buf[BLOCK - 8..]);
    assert!(start == end && start == [buf[0]; 8], "a mixture: {start:?} at the start, {end:?} at the end");
    buf[0]
}

/// What a cached read of the block at `offset` finds, if it finds anything.
fn fast_value(object: &Object, offset: usize) -> Option<u8> {
    let mut buf = [0; BLOCK];
    fast_read(object, offset as u64, &mut buf).then(|| value_of(&buf))
}

/// The content of block `b`, if it is valid, as a reader with a reference finds it.
fn content(page: &Page, b: usize) -> Option<u8> {
    let mut buf = [0; BLOCK];
    page.read(b * BLOCK, &mut buf).then(|| value_of(&buf))
}

/// The bytes in transfer of the one block that is.
fn in_transfer(page: &Page, rw: Rw, moved: BlockSet) -> u8 {
    let mut bulk = Bulk::new();
    page.bulk(rw, moved, &mut bulk);
    let mut buf = [0; BLOCK];
    assert_eq!(bulk.iter().map(|s| s.mem.len()).collect::<Vec<_>>(), [BLOCK]);
    bulk[0].mem.read_at(0, &mut buf);
    value_of(&buf)
}

/// Writes out what is dirty of a page of which one block may be; returns what the target has got, if anything.
fn write_out(page: &Page) -> Option<u8> {
    let (moved, _window) = page.make_ready(&env(), page.all_blocks(), true);
    if moved.is_empty() {
        return None;
    }
    let sent = in_transfer(page, Rw::Write, moved);
    assert_eq!(in_transfer(page, Rw::Write, moved), sent, "changed in flight");
    page.completion(&env(), Rw::Write, moved, &Ok(()));
    Some(sent)
}

/// What a target does with a read of one block.
fn answer_read(page: &Page, moved: BlockSet, value: u8) {
    let mut bulk = Bulk::new();
    page.bulk(Rw::Read, moved, &mut bulk);
    bulk.iter().for_each(|s| s.mem.write_at(0, &[value; BLOCK]));
    page.completion(&env(), Rw::Read, moved, &Ok(()));
}
