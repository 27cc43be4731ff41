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
    Panic(Step, usize, usize),
    Short(usize),
    Restart(usize),
    /// In this iteration and all after it, nothing is moved: the layout has changed.
    Stuck(usize),
}

#[derive(Default)]
struct Ledger {
    calls: Vec<(Step, usize)>,
    iteration: usize,
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
            Event::Panic(s, l, i) if (s, l, i) == (step, layer, ledger.iteration) => {
                drop(ledger);
                panic!("injected")
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
                Event::Stuck(i) if i <= iteration => 0,
                _ => cx.io.iteration.len(),
            };
            cx.io.need_restart |= match self.1.event {
                Event::Restart(i) => i == iteration,
                Event::Stuck(i) => i <= iteration,
                _ => false,
            };
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

/// Runs until the layer panics. What is left is looked at by the caller.
fn run_until_panic(step: Step, layer: usize) -> (Arc<World>, ObjectRef, Io) {
    let (env, world, object) = stack(Event::Panic(step, layer, 2));
    let mut io = Io::new(&env, &object, IoKind::Write { append: false }, 0, 4 * STEP).expect("io");
    let run = std::panic::AssertUnwindSafe(|| clio_io_loop::run(&env, &mut io).map(drop));
    assert!(std::panic::catch_unwind(run).is_err(), "{step:?} of layer {layer} panics");
    assert!(io.common.lockset.is_empty(), "no lock is left in the lockset");
    for lock in object.locks().all() {
        assert_eq!(lock.counts(), (0, 0), "a lock is left in use by {step:?} of layer {layer}");
    }
    (world, object, io)
}

#[test]
fn a_layer_that_panics_leaves_nothing_behind() {
    for step in [Step::IterInit, Step::Lock, Step::Start, Step::End, Step::Unlock, Step::Advance, Step::IterFini] {
        for layer in 0..LAYERS {
            let (world, _object, io) = run_until_panic(step, layer);
            let ledger = world.ledger.lock();
            let of = |s: Step, l: usize| ledger.calls.iter().filter(|c| **c == (s, l)).count();
            for l in 0..LAYERS {
                assert_eq!(of(Step::Fini, l), 1, "fini of layer {l} after {step:?} of {layer}");
                // A walk that panics doesn't get to the layers above.
                let walked = |s| if s == step && l < layer { 1 } else { 2 };
                let ends = if matches!(step, Step::IterInit | Step::Lock) { 1 } else { walked(Step::End) };
                let unlocks = if matches!(step, Step::IterInit | Step::Lock) { 1 } else { walked(Step::Unlock) };
                assert_eq!(of(Step::End, l), ends, "end of layer {l} after {step:?} of {layer}");
                assert_eq!(of(Step::Unlock, l), unlocks, "unlock of layer {l} after {step:?} of {layer}");
                let finis = walked(Step::IterFini);
                assert_eq!(of(Step::IterFini, l), finis, "iter_fini of layer {l} after {step:?} of {layer}");
            }
            assert_eq!(io.common.error().map(Error::errno), (step != Step::IterFini).then_some(Errno::EIO));
        }
    }
    // A lock that was being waited for.
    for layer in 0..LAYERS {
        run_until_panic(Step::Enqueue, layer);
    }
}

#[test]
fn what_was_moved_is_not_forgotten_when_the_layout_keeps_changing() {
    let run = |event| {
        let (env, _, object) = stack(event);
        let make = |done| Io::new(&env, &object, IoKind::Write { append: false }, done, 4 * STEP - done);
        clio_io_loop::run_restarting(&env, make).map(|(done, io)| (done, io.common.pos))
    };
    assert_eq!(run(Event::Stuck(3)).expect("a short result"), (2 * STEP, 2 * STEP));
    assert_eq!(run(Event::Stuck(1)).expect_err("nothing was moved").errno(), Errno::EIO);
}

#[test]
fn an_io_that_cannot_be_made_anew_does_not_hide_what_was_moved() {
    let (env, _, object) = stack(Event::Restart(2));
    let run = |moved_first: bool| {
        clio_io_loop::run_restarting(&env, |done| {
            if done > 0 || !moved_first {
                return Err(Error::new(Errno::ESTALE, "test", "no"));
            }
            Io::new(&env, &object, IoKind::Write { append: false }, 0, 4 * STEP)
        })
    };
    assert_eq!(run(true).expect("a short result").0, 2 * STEP);
    assert_eq!(run(false).expect_err("nothing was moved").errno(), Errno::ESTALE);
}

#[test]
fn parallel_parts_count_as_a_prefix() {
    let (env, _, object) = stack(Event::Nothing);
    let part = |n: u64| Io::new(&env, &object, IoKind::Read, n * STEP, STEP).expect("io");
    let done = clio_io_loop::run_parallel(&env, (0..8).map(part).collect(), 3).expect("run");
    assert_eq!(done, 8 * STEP);
}
