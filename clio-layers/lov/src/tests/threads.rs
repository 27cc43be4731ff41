//! Threads that write, read, append, and lose their locks, on one file whose components come to be meanwhile.

use super::top::{Buffer, Top};
use super::world::*;
use crate::layout::Layout;
use clio_core::env::{Env, EnvTags};
use clio_core::io::{Io, IoKind};
use clio_core::object::Object;
use clio_core::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const WRITERS: u64 = 4;
const ROUNDS: u64 = 40;
/// Where each writer's part starts, and how much of it there is: it meets several stripes and components.
const PART: u64 = 3 * UNIT + 7 * 4096;

fn run(object: &Arc<Object>, world: &Shared, kind: IoKind, pos: u64, data: Vec<u8>) -> Vec<u8> {
    let env = Env::get(EnvTags::IO);
    let buffer = Buffer::new(Mutex::new(data));
    let len = buffer.lock().len() as u64;
    let mut io = Io::new(&env, object, kind, pos, len).expect("io");
    let (base, memory, seen) = (pos, world.memory.clone(), Arc::default());
    io.push_top(Box::new(Top { buffer: buffer.clone(), base, memory, fail_in: None, iteration: 0, seen }));
    clio_io_loop::run(&env, &mut io).expect("run");
    std::mem::take(&mut *buffer.lock())
}

struct Shared {
    memory: Arc<dyn clio_core::memory::PageMemory>,
    site: Arc<clio_core::object::Site>,
    is_over: AtomicBool,
}

fn write_own(object: &Arc<Object>, shared: &Shared, part: u64) {
    for round in 0..ROUNDS {
        let pos = part * PART + round * 31 % PART;
        let len = (part + 1) * PART - pos;
        let data = pattern(round * 512 * 7, len);
        run(object, shared, IoKind::Write { append: false }, pos, data.clone());
        let back = run(object, shared, IoKind::Read, pos, vec![0; len as usize]);
        let differs = back.iter().zip(&data).position(|(a, b)| a != b);
        assert_eq!(differs.map(|at| pos + at as u64), None, "writer {part}, round {round}");
    }
}

/// Takes away whatever lock there is, of stripes and of the file.
fn cancel_all(shared: &Shared) {
    let env = Env::get(EnvTags::WORK);
    while !shared.is_over.load(SeqCst) {
        for object in shared.site.objects() {
            for lock in object.locks().all() {
                lock.cancel(&env);
            }
            std::thread::yield_now();
        }
    }
}

#[test]
fn writers_of_one_file_see_their_own_bytes_whatever_others_do() {
    let layout = Layout::composite().until(2 * UNIT).stripe_size(UNIT).until(6 * UNIT).stripe_count(3).to_eof();
    let world = World::new(&layout);
    let shared = Shared { memory: world.memory.clone(), site: world.site.clone(), is_over: AtomicBool::new(false) };
    let object = world.object().clone();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|part| {
                let (object, shared) = (&object, &shared);
                scope.spawn(move || write_own(object, shared, part))
            })
            .collect();
        let canceller = scope.spawn(|| cancel_all(&shared));
        let reader = scope.spawn(|| {
            while !shared.is_over.load(SeqCst) {
                run(&object, &shared, IoKind::Read, 0, vec![0; (WRITERS * PART) as usize]);
                object.attr_get(&Env::get(EnvTags::IO)).expect("attributes");
            }
        });
        let results: Vec<_> = writers.into_iter().map(|w| w.join()).collect();
        shared.is_over.store(true, SeqCst);
        let results: Vec<_> = results.into_iter().chain([canceller.join(), reader.join()]).collect();
        assert!(results.iter().all(Result::is_ok));
    });
    assert_eq!(world.size(), WRITERS * PART);
    world.assert_idle();
}
