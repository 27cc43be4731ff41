use super::*;
use crate::env::EnvTags;
use crate::io::{Io, IoId, IoSlice};
use crate::lock::{LockDescr, LockSlice};
use crate::memory::{MemRef, PageMemory};
use crate::object::{Device, ObjectBuilder, ObjectConf, ObjectRef, ObjectSlice, Site, SiteLimits};
use crate::target::Bulk;
use proptest::prelude::*;
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;

/// Page memory from the heap: leaks by design of the contract (never unmapped).
#[derive(Debug, Default)]
struct Heap(AtomicUsize);

impl PageMemory for Heap {
    #[expect(unsafe_code, reason = "test memory")]
    fn alloc(&self, len: usize) -> Option<MemRef> {
        self.0.fetch_add(len, Ordering::Relaxed);
        let block = vec![[0xEEu64; 512]; len / 4096].leak();
        let at = NonNull::new(block.as_mut_ptr().cast::<u8>())?;
        // Block-aligned, since the low bits of the address are used: over-allocate and align.
        let at = match at.as_ptr().align_offset(4096) {
            0 => at,
            _ => {
                let big = vec![0xEEu8; len + 4096].leak();
                let off = big.as_ptr().align_offset(4096);
                NonNull::new(big[off..].as_mut_ptr())?
            }
        };
        // SAFETY: leaked memory of at least `len` bytes.
        Some(unsafe { MemRef::from_raw(at, len) })
    }
    fn free(&self, mem: MemRef) {
        self.0.fetch_sub(mem.len(), Ordering::Relaxed);
    }
    fn used(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

struct Plain;

impl Device for Plain {
    fn layer(&self) -> &'static str {
        "plain"
    }
    fn object_init(&self, _: &Env, builder: &mut ObjectBuilder) -> Result<()> {
        builder.push(Box::new(Plain));
        Ok(())
    }
}

impl ObjectSlice for Plain {
    fn layer(&self) -> &'static str {
        "plain"
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
}

fn object() -> (Env, ObjectRef, Arc<Heap>) {
    let heap = Arc::new(Heap::default());
    let site = Site::new(SiteLimits::default(), FolioSlab::new(heap.clone()));
    let env = Env::get(EnvTags::IO);
    let conf = ObjectConf { folio_size: Some(64 * 1024), ..Default::default() };
    let object = site.find(&env, Fid::new(1, 1), &Plain, &conf).expect("find");
    (env, object, heap)
}

const IO: IoId = IoId(1);

#[test]
fn write_transfer_read_evict() {
    let (env, object, heap) = object();
    let page = Page::find(&env, &object, PageIndex(3)).expect("page");
    let owned = page.own(IO).expect("own");
    assert!(page.try_own(IoId(2)).is_none());
    let touched = owned.write(100, &[7; 5000], u64::MAX).expect("write");
    assert_eq!(touched, BlockSet::range(0..2));
    assert_eq!(page.state(0), PageState::Owned);
    assert!(page.valid().is_empty(), "both blocks are written in part");
    drop(owned);
    let (moved, _) = page.make_ready(&env, page.all_blocks(), false);
    assert_eq!(moved, touched);
    assert_eq!(page.state(1), PageState::PageOut);
    assert!(!page.evict(&env));
    let mut bulk = Bulk::new();
    page.bulk(Rw::Write, moved, &mut bulk);
    let sent: Vec<_> = bulk.iter().map(|b| (b.offset - page.offset(), b.mem.len())).collect();
    assert_eq!(sent.iter().map(|s| s.1).sum::<usize>(), 5000, "exactly the bytes written: {sent:?}");
    assert_eq!(sent[0].0, 100);
    let sync = SyncIo::new();
    page.notify(moved, &sync);
    page.completion(&env, Rw::Write, moved, &Ok(()));
    sync.wait().expect("written");
    assert_eq!(page.state(0), PageState::Cached);
    assert!(page.evict(&env));
    assert!(page.own(IO).is_none() && object.pages().is_empty());
    drop(page);
    assert_eq!(heap.used(), 0, "memory is returned with the page");
}

#[test]
fn a_stale_cell_is_recognised() {
    let (env, object, _) = object();
    let page = Page::find(&env, &object, PageIndex(0)).expect("page");
    page.own(IO).expect("own").write(0, &[1; 4096], 0).expect("write");
    let mut buf = [0; 4096];
    assert!(fast_read(&object, 0, &mut buf) && buf == [1; 4096]);
    let id = page.cell_id();
    page.delete(&env);
    drop(page);
    let again = Page::find(&env, &object, PageIndex(0)).expect("page");
    assert_eq!(again.cell_id().index, id.index, "the cell is recycled");
    assert_ne!(again.cell_id().generation, id.generation);
    assert!(!object.slab().cell(id.index).read(id.generation, 0, &mut buf));
    assert!(!fast_read(&object, 0, &mut buf));
}

#[test]
fn fast_writes_need_a_window() {
    let (env, object, _) = object();
    let page = Page::find(&env, &object, PageIndex(0)).expect("page");
    assert_eq!(fast_write(&object, 0, &[1; 4096], 1), Err(WriteRefusal::NotNow));
    page.open_window(BlockSet::range(0..2));
    fast_write(&object, 4096, &[1; 4096], 5).expect("within the window");
    assert_eq!((object.attrs().size(), object.attrs().load().mtime), (8192, 5));
    assert_eq!(fast_write(&object, 8192, &[1; 4096], 1), Err(WriteRefusal::NotNow));
    let (moved, window) = page.make_ready(&env, page.all_blocks(), false);
    assert_eq!((moved, window), (BlockSet::range(1..2), BlockSet::range(0..2)));
    assert_eq!(fast_write(&object, 0, &[1; 4096], 1), Err(WriteRefusal::NotNow), "the window is closed");
    page.completion(&env, Rw::Write, moved, &Ok(()));
}

#[test]
fn a_bar_keeps_windows_shut() {
    let (env, object, _) = object();
    let page = Page::find(&env, &object, PageIndex(0)).expect("page");
    page.open_window(BlockSet::range(0..4));
    let bar = WindowBar::new(&env, &page, BlockSet::range(2..8)).expect("alive");
    page.open_window(BlockSet::range(0..8));
    fast_write(&object, 0, &[1; 8192], 1).expect("beside the bar");
    assert_eq!(fast_write(&object, 8192, &[1; 4096], 1), Err(WriteRefusal::NotNow));
    page.discard(&env, page.all_blocks());
    assert!(!page.delete_if_unused(&env) && !page.evict(&env), "a page with a bar stays");
    drop(bar);
    page.open_window(BlockSet::range(2..3));
    fast_write(&object, 8192, &[1; 4096], 1).expect("the bar is gone");
}

#[test]
fn a_watch_hears_of_what_the_owner_moves() {
    let (env, object, _) = object();
    let page = Page::find(&env, &object, PageIndex(0)).expect("page");
    let sync = SyncIo::new();
    let owned = page.try_own_idle(IO, page.all_blocks()).expect("idle");
    owned.watch(BlockSet::range(0..2), &sync);
    let moving = owned.prep(&env, Rw::Read, BlockSet::range(1..4)).expect("prep");
    drop(owned);
    assert!(page.try_own_idle(IO, BlockSet::range(3..4)).is_none(), "in transfer");
    let failed = Err(Error::new(Errno::EIO, "read", "test"));
    page.completion(&env, Rw::Read, BlockSet::range(2..4), &failed);
    page.completion(&env, Rw::Read, BlockSet::range(1..2), &Ok(()));
    sync.wait().expect("only what was watched counts");
    assert_eq!((moving, page.valid()), (BlockSet::range(1..4), BlockSet::range(1..2)));
}

proptest! {
    /// Writes, reads, truncates and completed transfers on one folio against a plain model of what is stored where.
    #[test]
    fn a_folio_matches_a_byte_model(ops in prop::collection::vec((0u8..5, 0usize..65536, 1usize..20000), 1..40)) {
        let (env, object, _) = object();
        let page = Page::find(&env, &object, PageIndex(0)).expect("page");
        let mut stored = vec![0u8; 65536];
        let mut truth = vec![0u8; 65536];
        let mut size = 0usize;
        for (n, (op, at, len)) in ops.into_iter().enumerate() {
            let end = (at + len).min(65536);
            match op {
                0 | 1 => {
                    let data = vec![n as u8 + 1; end - at];
                    let owned = page.own(IO).expect("own");
                    match owned.write(at, &data, size as u64) {
                        Ok(_) => { truth[at..end].copy_from_slice(&data); size = size.max(end); }
                        Err(WriteRefusal::Fragmented(_)) => {}
                        Err(e) => prop_assert!(false, "{e:?}"),
                    }
                }
                2 => {
                    let (moved, _) = page.make_ready(&env, page.all_blocks(), false);
                    let mut bulk = Bulk::new();
                    page.bulk(Rw::Write, moved, &mut bulk);
                    for seg in &bulk {
                        seg.mem.read_at(0, &mut stored[seg.offset as usize..][..seg.mem.len()]);
                    }
                    page.completion(&env, Rw::Write, moved, &Ok(()));
                    prop_assert_eq!(&stored, &truth);
                }
                3 => {
                    let owned = page.own(IO).expect("own");
                    owned.truncate(at);
                    truth[at..].fill(0);
                    stored[at..].fill(0);
                    size = size.min(at);
                }
                _ => {
                    // Fill what is missing, then everything readable must match.
                    let owned = page.own(IO).expect("own");
                    let moving = owned.prep(&env, Rw::Read, page.all_blocks()).expect("prep");
                    let mut bulk = Bulk::new();
                    page.bulk(Rw::Read, moving, &mut bulk);
                    for seg in &bulk {
                        seg.mem.write_at(0, &stored[seg.offset as usize..][..seg.mem.len()]);
                    }
                    drop(owned);
                    page.completion(&env, Rw::Read, moving, &Ok(()));
                }
            }
            for b in page.valid().iter() {
                let mut buf = [0; 4096];
                prop_assert!(page.read(b * 4096, &mut buf));
                prop_assert_eq!(&buf[..], &truth[b * 4096..][..4096], "block {} after op {}", b, n);
            }
        }
    }
}
