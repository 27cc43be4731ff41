//! Whatever step fails, at whatever layer and iteration: every step that was begun is ended, in the right order,
//! nothing stays behind, and the count returned is what was moved.

use clio_core::attr::Attr;
use clio_core::env::{Env, EnvTags};
use clio_core::io::{Io, IoCommon, IoCx, IoKind, IoSlice, LockDemand};
use clio_core::lock::{LockDescr, LockSlice};
use clio_core::memory::{MemRef, PageMemory};
use clio_core::object::{Device, Object, ObjectBuilder, ObjectConf, ObjectRef, ObjectSlice, Site, SiteLimits};
use clio_core::page::{FolioSlab, PageBuilder, PageSlice};
use clio_core::sync::Mutex;
use clio_core::target::{EnqueueFlags, LockMode};
use clio_core::units::{BLOCK_SIZE, Extent, Fid};
use clio_core::{Errno, Error, Result};
use proptest::prelude::*;
use std::sync::Arc;

const LAYERS: usize = 3;
const STEP: u64 = 2 * BLOCK_SIZE;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    IterInit,
    Lock,
    Enqueue,
    Start,
    End,
    Unlock,
    IterFini,
    Advance,
    Fini,
}

/// What happens in a run: a failure, a short result or a changed layout, at a step of a layer in an iteration.
#[derive(Clone, Copy, Debug)]
enum Event {
    Nothing,
    Fail(Step, usize, usize),
    Short(usize),
    Restart(usize),
}

#[derive(Default)]
struct Ledger {
    calls: Vec<(Step, usize)>,
    iteration: usize,
    locks: usize,
}

struct World {
    event: Event,
    ledger: Mutex<Ledger>,
}

impl World {
    fn call(&self, step: Step, layer: usize) -> Result<()> {
        let mut ledger = self.ledger.lock();
        if step == Step::IterInit && layer == 0 {
            ledger.iteration += 1;
        }
        ledger.calls.push((step, layer));
        match self.event {
            Event::Fail(s, l, i) if (s, l, i) == (step, layer, ledger.iteration) => {
                Err(Error::new(Errno::EIO, "test", "injected"))
            }
            _ => Ok(()),
        }
    }
}

struct Layer(usize, Arc<World>);

impl Device for Layer {
    fn layer(&self) -> &'static str {
        "ledger"
    }
    fn object_init(&self, _: &Env, builder: &mut ObjectBuilder) -> Result<()> {
        (0..LAYERS).for_each(|l| builder.push(Box::new(Layer(l, self.1.clone()))));
        Ok(())
    }
}

impl ObjectSlice for Layer {
    fn layer(&self) -> &'static str {
        "ledger"
    }
    fn page_init(&self, _: &Env, _: &mut PageBuilder<'_>) -> Result<Option<Box<dyn PageSlice>>> {
        Ok(None)
    }
    fn lock_init(&self, _: &Env, _: &Arc<Object>, _: &LockDescr) -> Result<Option<Box<dyn LockSlice>>> {
        Ok(Some(Box::new(Layer(self.0, self.1.clone()))))
    }
    fn io_init(&self, _: &Env, _: &Arc<Object>, _: &mut Io) -> Result<Option<Box<dyn IoSlice>>> {
        Ok(Some(Box::new(Layer(self.0, self.1.clone()))))
    }
}

impl LockSlice for Layer {
    fn layer(&self) -> &'static str {
        "ledger"
    }
    fn enqueue(&self, _: &mut clio_core::lock::LockCx<'_>) -> Result<clio_core::lock::Step> {
        self.1.call(Step::Enqueue, self.0).map(|()| clio_core::lock::Step::Done)
    }
}

impl IoSlice for Layer {
    fn layer(&self) -> &'static str {
        "ledger"
    }
    fn iter_init(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        let it = cx.io.iteration;
        cx.io.iteration = Extent::new(it.start, it.end.min(it.start + STEP));
        self.1.call(Step::IterInit, self.0)
    }
    fn lock(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        self.1.call(Step::Lock, self.0)?;
        if self.0 == 0 {
            let descr = LockDescr {
                extent: cx.io.iteration.align_to_blocks(),
                mode: LockMode::Pw,
                flags: EnqueueFlags::default(),
                demand: LockDemand::Mandatory,
            };
            cx.io.lockset.add(&cx.io.object.clone(), descr);
        }
        Ok(())
    }
    fn start(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        self.1.call(Step::Start, self.0)?;
        if self.0 == 0 {
            let iteration = self.1.ledger.lock().iteration;
            cx.io.moved = match self.1.event {
                Event::Short(i) if i == iteration => cx.io.iteration.len() - 1,
                _ => cx.io.iteration.len(),
            };
            cx.io.need_restart |= matches!(self.1.event, Event::Restart(i) if i == iteration);
        }
        Ok(())
    }
    fn end(&mut self, _: &mut IoCx<'_>) {
        let _ = self.1.call(Step::End, self.0);
    }
    fn unlock(&mut self, cx: &mut IoCx<'_>) {
        assert!(!cx.io.object.locks().is_empty(), "the locks are still there");
        let _ = self.1.call(Step::Unlock, self.0);
    }
    fn iter_fini(&mut self, _: &mut IoCx<'_>) {
        let _ = self.1.call(Step::IterFini, self.0);
    }
    fn advance(&mut self, _: &mut IoCx<'_>, _: u64) {
        let _ = self.1.call(Step::Advance, self.0);
    }
    fn fini(self: Box<Self>, _: &Env, _: &mut IoCommon) {
        let _ = self.1.call(Step::Fini, self.0);
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

fn stack(event: Event) -> (Env, Arc<World>, ObjectRef) {
    let env = Env::get(EnvTags::IO);
    let world = Arc::new(World { event, ledger: Mutex::new(Ledger::default()) });
    let site = Site::new(SiteLimits::default(), FolioSlab::new(Arc::new(NoMemory)));
    let conf = ObjectConf { attr: Attr::default(), ..Default::default() };
    let object = site.find(&env, Fid::new(1, 1), &Layer(0, world.clone()), &conf).expect("object");
    (env, world, object)
}

fn events() -> impl Strategy<Value = Event> {
    use Step::*;
    let step = prop_oneof![Just(IterInit), Just(Lock), Just(Enqueue), Just(Start)];
    prop_oneof![
        Just(Event::Nothing),
        (step, 0..LAYERS, 1usize..5).prop_map(|(s, l, i)| Event::Fail(s, l, i)),
        (1usize..5).prop_map(Event::Short),
        (1usize..5).prop_map(Event::Restart),
    ]
}

proptest! {
    #[test]
    fn every_step_begun_is_ended(event in events(), iterations in 1u64..5) {
        let (env, world, object) = stack(event);
        let count = iterations * STEP;
        let mut io = Io::new(&env, &object, IoKind::Write { append: false }, 0, count).expect("io");
        let result = clio_io_loop::run(&env, &mut io);

        let ledger = world.ledger.lock();
        let of = |s: Step, l: usize| ledger.calls.iter().filter(|c| **c == (s, l)).count();
        let begun = ledger.iteration;
        let failed_before_start = match event {
            Event::Fail(Step::IterInit | Step::Lock | Step::Enqueue, _, i) => begun == i,
            _ => false,
        };
        for l in 0..LAYERS {
            prop_assert_eq!(of(Step::IterFini, l), begun, "iter_fini of layer {}", l);
            prop_assert_eq!(of(Step::End, l), begun - failed_before_start as usize, "end of layer {}", l);
            prop_assert_eq!(of(Step::Unlock, l), of(Step::End, l));
            prop_assert_eq!(of(Step::Fini, l), 1);
        }
        // Going up, each layer after the one below it.
        for pair in ledger.calls.windows(2).filter(|w| w[0].0 == w[1].0) {
            match pair[0].0 {
                Step::IterInit | Step::Lock | Step::Start => prop_assert_eq!(pair[0].1 + 1, pair[1].1),
                Step::End | Step::Unlock | Step::IterFini | Step::Advance | Step::Fini => {
                    prop_assert_eq!(pair[0].1, pair[1].1 + 1)
                }
                Step::Enqueue => {}
            }
        }
        let full = match event {
            Event::Fail(Step::Start, 0, i) if i as u64 <= iterations => (i as u64 - 1) * STEP,
            // A lower layer's start fails after the top one moved its bytes: they were moved.
            Event::Fail(Step::Start, _, i) if i as u64 <= iterations => i as u64 * STEP,
            Event::Fail(Step::Enqueue, _, _) => result.as_ref().copied().unwrap_or(0),
            Event::Fail(_, _, i) if i as u64 <= iterations => (i as u64 - 1) * STEP,
            Event::Short(i) if i as u64 <= iterations => i as u64 * STEP - 1,
            Event::Restart(i) if i as u64 <= iterations => i as u64 * STEP,
            _ => count,
        };
        match result {
            Ok(n) => prop_assert_eq!(n, full),
            Err(e) => { prop_assert_eq!(full, 0); prop_assert_eq!(e.errno(), Errno::EIO); }
        }
        prop_assert!(io.common.lockset.is_empty(), "no lock is left in the lockset");
        for lock in object.locks().all() {
            prop_assert_eq!(lock.counts(), (0, 0), "no lock is left in use");
        }
        prop_assert!(ledger.locks == 0);
    }
}

#[test]
fn a_changed_layout_starts_the_io_anew() {
    let (env, _, object) = stack(Event::Restart(2));
    let mut made = Vec::new();
    let (done, _) = clio_io_loop::run_restarting(&env, |done| {
        made.push(done);
        Io::new(&env, &object, IoKind::Write { append: false }, done, 4 * STEP - done)
    })
    .expect("run");
    assert_eq!(done, 4 * STEP);
    assert_eq!(made, [0, 2 * STEP]);
}

#[test]
fn parallel_parts_count_as_a_prefix() {
    let (env, _, object) = stack(Event::Nothing);
    let part = |n: u64| Io::new(&env, &object, IoKind::Read, n * STEP, STEP).expect("io");
    let done = clio_io_loop::run_parallel(&env, (0..8).map(part).collect(), 3).expect("run");
    assert_eq!(done, 8 * STEP);
}
