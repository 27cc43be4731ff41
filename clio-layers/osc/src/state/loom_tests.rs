//! Credit under the model checker: whoever waits for quota or grant against completions, replies, data that is given up,
//! and evictions. No wake-up is lost: loom knows no time, so that a wait that nobody ends is a deadlock. Credit is
//! conserved: [`State::check`](super::State::check).
//!
//! The state and its waiters are those that ship ([`Books`]). Not covered: the engine and the threads around them.

use super::*;
use crate::staging::ANY_ROUND;
use clio_core::env::{Env, EnvTags};
use clio_core::error::Result;
use clio_core::io::{Io, IoSlice};
use clio_core::lock::{LockDescr, LockSlice};
use clio_core::memory::LoomMemory;
use clio_core::object::{Device, ObjectBuilder, ObjectConf, ObjectRef, ObjectSlice, Site, SiteLimits};
use clio_core::page::{FolioSlab, PageBuilder, PageSlice, Rw};
use clio_core::sync::atomic::{AtomicBool, Ordering};
use clio_core::sync::thread;
use clio_core::units::{Fid, PageIndex};
use std::time::{Duration, Instant};

struct Layer;

impl Device for Layer {
    fn layer(&self) -> &'static str {
        "model"
    }
    fn object_init(&self, _: &Env, builder: &mut ObjectBuilder) -> Result<()> {
        builder.push(Box::new(Layer));
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
}

/// A device's books, and one object whose pages have one block each.
struct World {
    books: Books,
    key: ObjectKey,
    object: ObjectRef,
}

/// A batch on its way.
struct Flight(Over);

fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

impl World {
    /// Quota and grant for so many blocks.
    fn new(quota: u64, grant: u64) -> Arc<Self> {
        let env = Env::get(EnvTags::ANY);
        let site = Site::new(SiteLimits::default(), FolioSlab::new(LoomMemory::new(0)));
        let conf = ObjectConf { folio_size: Some(BLOCK_SIZE), ..Default::default() };
        let object = site.find(&env, Fid::new(1, 1), &Layer, &conf).expect("find");
        let books = Books::new(quota * BLOCK_SIZE);
        books.lock().credits.receive(grant * BLOCK_SIZE, true);
        let key = books.lock().add_object(ObjectStage::new(Arc::downgrade(object.object()), object.fid()));
        Arc::new(Self { books, key, object })
    }

    fn page(&self, index: u64) -> Arc<Page> {
        Page::find(&Env::get(EnvTags::ANY), &self.object, PageIndex(index)).expect("page")
    }

    /// Stages the block of `page`, as [`OscDevice::commit`](crate::OscDevice) does: whether there was credit; `None`
    /// after an eviction.
    fn stage(&self, page: &Arc<Page>) -> Option<bool> {
        let begun = self.books.lock().begin_stage(self.key, page, None, page.all_blocks(), BlockSet::EMPTY);
        let begun = begun.expect("the object is there");
        let mut state = self.books.lock();
        let valid = state.finish_stage(self.key, page, None, &begun);
        self.books.wake(&state);
        valid.then_some(begun.missing.is_empty())
    }

    /// Stages, waiting for credit while there is hope: whether it is staged.
    fn commit(&self, page: &Arc<Page>, push_out: impl Fn()) -> Option<bool> {
        loop {
            if self.stage(page)? {
                return Some(true);
            }
            if !self.books.wait_for_credit(Instant::now() + Duration::from_secs(3600), &push_out) {
                return Some(false);
            }
        }
    }

    /// Takes what is staged, and sends it.
    fn launch(&self) -> Option<Flight> {
        let mut state = self.books.lock();
        let batch = state.take(self.key, Extent::WHOLE, BLOCK_SIZE, ANY_ROUND)?;
        let blocks = batch.spans.iter().map(|t| t.blocks.count()).sum();
        state.launch_token(&batch, blocks, Vec::new());
        state.on_their_way += 1;
        let Batch { key, token, epoch, .. } = batch;
        let (rw, token) = (Rw::Write, Some(token));
        Some(Flight(Over { key, rw, token, epoch, slot: false, latches: true, arrived: false, grant: 0 }))
    }

    /// A round of the engine: sends what there is to send, and puts back what is in use.
    fn pump(&self, in_use: &AtomicBool) {
        self.books.lock().next_round();
        loop {
            let job = self.books.lock().next_job(8, BLOCK_SIZE);
            let Some(Job::Form(batch)) = job else { return };
            let busy = in_use.load(Ordering::SeqCst);
            let blocks = batch.spans.iter().map(|t| t.blocks.count()).sum();
            let Batch { key, token, epoch, slot, .. } = batch;
            let over =
                Over { key, rw: Rw::Write, token: Some(token), epoch, slot, latches: true, arrived: true, grant: B };
            let mut state = self.books.lock();
            if busy {
                let rest = batch.spans.iter().map(|t| Taken { page: t.page.clone(), ..*t }).collect();
                state.launch_token(&batch, 0, rest);
                state.end_token(key, token, false);
                state.slots -= 1;
                self.books.wake(&state);
            } else {
                state.launch_token(&batch, blocks, Vec::new());
                state.on_their_way += 1;
                drop(state);
                self.books.settle(&over);
            }
        }
    }

    /// The target answers, with so many blocks of grant.
    fn answer(&self, flight: Flight, arrived: bool, grant: u64) {
        self.books.settle(&Over { arrived, grant: grant * BLOCK_SIZE, ..flight.0 });
    }

    /// The target takes everything away: what [`OscDevice`](crate::OscDevice) does at once, and then in the background.
    fn evict(&self) {
        let dropped = self.books.lock().evict();
        drop(dropped);
        self.books.wake(&self.books.lock());
    }

    fn check(&self) -> crate::Credits {
        let state = self.books.lock();
        assert_eq!(state.check(), Ok(()));
        assert_eq!((state.waiters, state.quota_waiters), (0, 0));
        assert!(state.credits.dirty() <= state.credits.max_dirty);
        state.credits
    }
}

const B: u64 = BLOCK_SIZE;

/// The quota is in flight: its completion lets the waiter go on, whether it brings new grant, none, or the old one back.
#[test]
fn loom_a_waiter_meets_a_completion() {
    for (arrived, grant, room) in [(true, 1, true), (true, 0, false), (false, 0, true)] {
        model(move || {
            let world = World::new(1, 1);
            let (first, second) = (world.page(0), world.page(1));
            assert_eq!(world.stage(&first), Some(true));
            let flight = world.launch().expect("staged");
            let target = {
                let world = world.clone();
                thread::spawn(move || world.answer(flight, arrived, grant))
            };
            // Without grant, and with nothing dirty that could bring some, there is no hope.
            assert_eq!(world.commit(&second, || ()), Some(room));
            target.join().expect("target");
            let c = world.check();
            assert_eq!((c.staged, c.in_flight), (B * u64::from(room), 0));
            assert_eq!((c.used, c.given), (B * u64::from(arrived), B + B * grant));
        });
    }
}

/// Three want the room of one block: each gets it, as long as those before write out and hear of it.
#[test]
fn loom_waiters_take_turns() {
    model(|| {
        let world = World::new(1, 1);
        let (first, pages) = (world.page(0), [world.page(1), world.page(2)]);
        assert_eq!(world.stage(&first), Some(true));
        let writers = pages.map(|page| {
            let world = world.clone();
            thread::spawn(move || {
                // Who waits writes out what is staged, and so on until it has its turn.
                let push_out = || {
                    if let Some(flight) = world.launch() {
                        world.answer(flight, true, 1);
                    }
                };
                let staged = world.commit(&page, push_out);
                push_out();
                staged
            })
        });
        for writer in writers {
            assert!(writer.join().expect("writer").is_some());
        }
        let c = world.check();
        assert_eq!((c.staged, c.in_flight, c.reserved, c.spending), (0, 0, 0, 0));
        assert_eq!((c.available, c.given - c.used), (B, B));
    });
}

/// The engine meets a folio that its writer holds, and puts the data back; the writer lets go, and waits for credit. One
/// of the two sends the data, although the writer looks while the engine has it in hand.
#[test]
fn loom_data_put_back_meets_a_waiter() {
    model(|| {
        let world = World::new(1, 1);
        let (first, second) = (world.page(0), world.page(1));
        assert_eq!(world.stage(&first), Some(true));
        world.books.lock().make_urgent(world.key, Extent::WHOLE);
        let in_use = Arc::new(AtomicBool::new(true));
        let engine = {
            let (world, in_use) = (world.clone(), in_use.clone());
            thread::spawn(move || world.pump(&in_use))
        };
        in_use.store(false, Ordering::SeqCst);
        assert_eq!(world.commit(&second, || world.pump(&in_use)), Some(true));
        engine.join().expect("engine");
        let c = world.check();
        assert_eq!(c.in_flight, 0);
    });
}

/// Data that is staged is given up, by a truncate or with its object: the waiter gets its credit.
#[test]
fn loom_a_waiter_meets_data_given_up() {
    for with_object in [false, true] {
        model(move || {
            let world = World::new(1, 1);
            let other = {
                let stage = ObjectStage::new(Arc::downgrade(world.object.object()), Fid::new(1, 2));
                world.books.lock().add_object(stage)
            };
            let (first, second) = (world.page(0), world.page(1));
            assert_eq!(world.stage(&first), Some(true));
            let (world_there, key) = (world.clone(), world.key);
            let dropper = thread::spawn(move || match with_object {
                true => world_there.books.remove_object(key),
                false => drop(world_there.books.drop_staged(key, Extent::WHOLE)),
            });
            let far = Instant::now() + Duration::from_secs(3600);
            assert!(world.books.wait_for_credit(far, || ()), "credit was given back");
            let begun = world.books.lock().begin_stage(other, &second, None, second.all_blocks(), BlockSet::EMPTY);
            let begun = begun.expect("the object is there");
            assert!(begun.missing.is_empty());
            assert!(world.books.lock().finish_stage(other, &second, None, &begun));
            dropper.join().expect("dropper");
            let c = world.check();
            assert_eq!((c.staged, c.reserved, c.available), (B, B, 0));
        });
    }
}

/// There is quota, but no grant: that of a reply to something else will do, unless the timer gives it back at once.
#[test]
fn loom_a_waiter_meets_a_reply_with_grant() {
    model(|| {
        let world = World::new(2, 1);
        let (first, second) = (world.page(0), world.page(1));
        assert_eq!(world.stage(&first), Some(true));
        let reply = {
            let world = world.clone();
            thread::spawn(move || world.books.receive_grant(2 * B))
        };
        let timer = {
            let world = world.clone();
            thread::spawn(move || world.books.lock().credits.give_back(B))
        };
        assert_eq!(world.commit(&second, || ()), Some(true));
        reply.join().expect("reply");
        let returned = timer.join().expect("timer");
        let c = world.check();
        assert_eq!((c.given, c.reserved, c.returned, c.available), (3 * B, 2 * B, returned, B - returned));
    });
}

/// An eviction against a completion from before it, and a waiter who then stages for nothing or finds no hope: nobody
/// is stuck, and no grant of before is used after.
#[test]
fn loom_an_eviction_meets_a_waiter_and_a_completion() {
    model(|| {
        let world = World::new(1, 1);
        let (first, second) = (world.page(0), world.page(1));
        assert_eq!(world.stage(&first), Some(true));
        let flight = world.launch().expect("staged");
        let target = {
            let world = world.clone();
            thread::spawn(move || world.answer(flight, true, 1))
        };
        let master = {
            let world = world.clone();
            thread::spawn(move || world.evict())
        };
        let staged = world.commit(&second, || ());
        target.join().expect("target");
        master.join().expect("master");
        let c = world.check();
        assert_eq!((c.staged, c.in_flight, c.available, c.reserved, c.spending), (0, 0, 0, 0, 0), "{staged:?}");
        assert_eq!(c.used + c.lost, c.given);
    });
}

/// A flush waits for what is between the staging area and the target, and for no more.
#[test]
fn loom_a_flush_meets_its_completion() {
    model(|| {
        let world = World::new(2, 2);
        let (first, second) = (world.page(0), world.page(1));
        assert_eq!(world.stage(&first), Some(true));
        let flight = world.launch().expect("staged");
        let target = {
            let world = world.clone();
            thread::spawn(move || world.answer(flight, true, 0))
        };
        let writer = {
            let world = world.clone();
            thread::spawn(move || world.stage(&second))
        };
        world.books.wait_moving(world.key, first.extent());
        assert_eq!(world.books.lock().credits.in_flight, 0, "told before it is over");
        target.join().expect("target");
        assert_eq!(writer.join().expect("writer"), Some(true));
        let c = world.check();
        assert_eq!((c.staged, c.used, c.available), (B, B, 0));
    });
}
