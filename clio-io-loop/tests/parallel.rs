//! Parts side by side against truncates: what is counted is a prefix that was really moved, and never less than what was
//! there all the time (LU-8964, LU-11825).

use clio_core::Result;
use clio_core::attr::Attr;
use clio_core::env::{Env, EnvTags};
use clio_core::io::{Io, IoCx, IoKind, IoSlice};
use clio_core::lock::{LockDescr, LockSlice};
use clio_core::memory::{MemRef, PageMemory};
use clio_core::object::{Device, Object, ObjectBuilder, ObjectConf, ObjectRef, ObjectSlice, Site, SiteLimits};
use clio_core::page::{FolioSlab, PageBuilder, PageSlice};
use clio_core::sync::Mutex;
use clio_core::units::{Extent, Fid};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const PART: u64 = 1000;
const PARTS: u64 = 8;
const TOTAL: u64 = PART * PARTS;
/// What no file holds.
const UNTOUCHED: u8 = 0xFF;

/// A file, and the buffer of who reads or writes it.
struct World {
    file: Mutex<Vec<u8>>,
    buffer: Mutex<Vec<u8>>,
}

struct Layer(Arc<World>);

impl Device for Layer {
    fn layer(&self) -> &'static str {
        "model"
    }
    fn object_init(&self, _: &Env, builder: &mut ObjectBuilder) -> Result<()> {
        builder.push(Box::new(Layer(self.0.clone())));
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
        Ok(Some(Box::new(Layer(self.0.clone()))))
    }
}

impl IoSlice for Layer {
    fn layer(&self) -> &'static str {
        "model"
    }
    fn iter_init(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        // Iterations end within parts, so that a truncate comes in between.
        cx.io.iteration.end = cx.io.iteration.end.min(cx.io.iteration.start + PART / 3);
        Ok(())
    }
    fn start(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        let Extent { start, end } = cx.io.iteration;
        let mut file = self.0.file.lock();
        let end = match cx.io.kind {
            IoKind::Truncate { size } => {
                file.resize(size as usize, 0);
                cx.io.finished = true;
                return Ok(());
            }
            IoKind::Read => end.min(file.len() as u64).max(start),
            _ => end,
        };
        if start == end {
            cx.io.finished = true;
            return Ok(());
        }
        let range = start as usize..end as usize;
        let mut buffer = self.0.buffer.lock();
        if cx.io.kind == IoKind::Read {
            buffer[range.clone()].copy_from_slice(&file[range]);
        } else {
            let len = file.len().max(range.end);
            file.resize(len, 0);
            file[range.clone()].copy_from_slice(&buffer[range]);
        }
        cx.io.moved = end - start;
        cx.io.finished = end < cx.io.iteration.end;
        Ok(())
    }
}

#[derive(Debug)]
struct NoMemory;

impl PageMemory for NoMemory {
    fn alloc(&self, _: usize) -> Option<MemRef> {
        None
    }
    fn free(&self, _: MemRef) {}
    fn used(&self) -> usize {
        0
    }
}

fn stack(file: Vec<u8>, buffer: Vec<u8>) -> (Arc<World>, ObjectRef) {
    let world = Arc::new(World { file: Mutex::new(file), buffer: Mutex::new(buffer) });
    let site = Site::new(SiteLimits::default(), FolioSlab::new(Arc::new(NoMemory)));
    let conf = ObjectConf { attr: Attr::default(), ..Default::default() };
    let env = Env::get(EnvTags::IO);
    let object = site.find(&env, Fid::new(1, 1), &Layer(world.clone()), &conf).expect("object");
    (world, object)
}

fn run(object: &ObjectRef, kind: IoKind, threads: usize) -> Result<u64> {
    let env = Env::get(EnvTags::IO);
    let parts = (0..PARTS).map(|n| Io::new(&env, object, kind, n * PART, PART).expect("io")).collect();
    clio_io_loop::run_parallel(&env, parts, threads)
}

fn truncate(object: &ObjectRef, size: u64) {
    let env = Env::get(EnvTags::IO);
    let mut io = Io::new(&env, object, IoKind::Truncate { size }, size, u64::MAX - size).expect("io");
    clio_io_loop::run(&env, &mut io).expect("truncate");
}

/// Does `work` again and again while the file is cut to `short` and grown to its length.
fn against_truncates(object: &ObjectRef, short: u64, work: impl Fn(usize)) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let cutter = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                truncate(object, short);
                std::thread::yield_now();
                truncate(object, TOTAL);
                std::thread::yield_now();
            }
        });
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (0..300).for_each(|n| work(1 + n % 4))));
        over.store(true, Ordering::Relaxed);
        worked.unwrap_or_else(|e| std::panic::resume_unwind(e));
        cutter.join().expect("cutter");
    });
}

#[test]
fn of_reads_only_what_was_read_without_a_gap_counts() {
    // Within a part, and between two.
    for short in [3 * PART + 500, 5 * PART] {
        let (world, object) = stack(vec![7; TOTAL as usize], vec![UNTOUCHED; TOTAL as usize]);
        against_truncates(&object, short, |threads| {
            world.buffer.lock().fill(UNTOUCHED);
            let n = run(&object, IoKind::Read, threads).expect("read");
            assert!(n == TOTAL || n >= short, "{n} bytes, though {short} were always there");
            let buffer = world.buffer.lock();
            let missing = buffer[..n as usize].iter().position(|b| *b == UNTOUCHED);
            assert_eq!(missing, None, "counted, but not read; {n} bytes");
            assert!(buffer[..short as usize].iter().all(|b| *b == 7), "below every cut");
        });
    }
}

#[test]
fn writes_that_a_truncate_cuts_are_counted_and_leave_no_other_bytes() {
    let (world, object) = stack(Vec::new(), vec![9; TOTAL as usize]);
    against_truncates(&object, 2 * PART + 1, |threads| {
        assert_eq!(run(&object, IoKind::Write { append: false }, threads).expect("write"), TOTAL);
        assert!(world.file.lock().iter().all(|b| *b == 9 || *b == 0));
    });
    let n = run(&object, IoKind::Write { append: false }, 3).expect("write");
    assert_eq!((n, &*world.file.lock()), (TOTAL, &vec![9; TOTAL as usize]));
}

#[test]
fn the_end_of_file_ends_the_count_whatever_later_parts_find() {
    let (_, object) = stack(vec![7; (PART + 10) as usize], vec![UNTOUCHED; TOTAL as usize]);
    for threads in 1..5 {
        assert_eq!(run(&object, IoKind::Read, threads).expect("read"), PART + 10);
    }
}
