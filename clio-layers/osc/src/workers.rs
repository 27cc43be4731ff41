//! Threads of a client for what must not be done where it is learnt of: cancelling locks after a blocking AST, and
//! things that are due later.
//!
//! Jobs of the pool may block. What the engine's threads and the timer run may not: a job of the pool may wait for a
//! write that they have to send.

use clio_core::env::{Env, EnvTags};
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::sync::{Condvar, thread};
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Job = Box<dyn FnOnce(&Env) + Send>;

/// Most threads that form and send RPCs.
const ENGINE_THREADS: usize = 4;

struct Timed {
    due: Instant,
    number: u64,
    job: Job,
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Timed {}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timed {
    /// The earliest is the greatest, since the heap gives that first.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.due, other.number).cmp(&(self.due, self.number))
    }
}

/// Jobs of one kind, and the threads that are there for them.
#[derive(Default)]
struct Lane {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: usize,
}

/// Which lane a job goes to.
#[derive(Clone, Copy)]
enum Kind {
    /// May block.
    Blocking = 0,
    /// Doesn't block: it moves data that others may wait for.
    Engine = 1,
}

#[derive(Default)]
struct Queues {
    lanes: [Lane; 2],
    timed: BinaryHeap<Timed>,
    numbers: u64,
    threads: Vec<thread::JoinHandle<()>>,
    timer_runs: bool,
    stopping: bool,
}

struct Shared {
    queues: RankedMutex<Queues>,
    work: [Condvar; 2],
    timer: Condvar,
    /// Most threads of each lane.
    limits: [usize; 2],
}

/// A pool of threads, and one that does things later, started at first use. Shared by the devices of a client.
pub struct Workers {
    shared: Arc<Shared>,
}

impl Workers {
    /// A pool of at most `threads` threads (at least one) that block, a few that don't, and one for the timer. None
    /// runs yet.
    pub fn new(threads: usize) -> Arc<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Arc::new(Self {
            shared: Arc::new(Shared {
                queues: RankedMutex::new(LockRank::Work, Queues::default()),
                work: [Condvar::new(), Condvar::new()],
                timer: Condvar::new(),
                limits: [threads.max(1), cores.clamp(1, ENGINE_THREADS)],
            }),
        })
    }

    /// Has a thread of the pool run `job`, which may block. Doesn't block itself; may be called in a completion or an
    /// AST. False, and the job is dropped, if the pool is shut down.
    pub fn push(&self, job: impl FnOnce(&Env) + Send + 'static) -> bool {
        self.push_to(Kind::Blocking, Box::new(job))
    }

    /// As [`Workers::push`], for a job that doesn't block: however many block, it is run.
    pub fn push_quick(&self, job: impl FnOnce(&Env) + Send + 'static) -> bool {
        self.push_to(Kind::Engine, Box::new(job))
    }

    fn push_to(&self, kind: Kind, job: Job) -> bool {
        let mut queues = self.shared.queues.lock();
        if queues.stopping {
            return false;
        }
        let lane = &mut queues.lanes[kind as usize];
        lane.jobs.push_back(job);
        if lane.idle < lane.jobs.len() && lane.threads < self.shared.limits[kind as usize] {
            lane.threads += 1;
            let shared = self.shared.clone();
            queues.threads.push(thread::spawn(move || shared.run_worker(kind)));
        }
        drop(queues);
        self.shared.work[kind as usize].notify_one();
        true
    }

    /// Has the timer run `job`, which must not block, in `delay` from now. False, and the job is dropped, if the pool
    /// is shut down.
    pub fn after(&self, delay: Duration, job: impl FnOnce(&Env) + Send + 'static) -> bool {
        let mut queues = self.shared.queues.lock();
        if queues.stopping {
            return false;
        }
        let number = queues.numbers;
        queues.numbers += 1;
        queues.timed.push(Timed { due: Instant::now() + delay, number, job: Box::new(job) });
        if !queues.timer_runs {
            queues.timer_runs = true;
            let shared = self.shared.clone();
            queues.threads.push(thread::spawn(move || shared.run_timer()));
        }
        drop(queues);
        self.shared.timer.notify_one();
        true
    }

    /// Takes no new jobs, runs those that are queued, drops those that aren't due yet, and waits for the threads.
    /// Not to be called by a job.
    pub fn shutdown(&self) {
        let threads = self.stop();
        for t in threads {
            if t.join().is_err() {
                tracing::error!(target: "clio::osc", "a worker thread panicked");
            }
        }
    }

    fn stop(&self) -> Vec<thread::JoinHandle<()>> {
        let mut queues = self.shared.queues.lock();
        queues.stopping = true;
        let dropped = std::mem::take(&mut queues.timed);
        let threads = std::mem::take(&mut queues.threads);
        drop(queues);
        drop(dropped);
        self.shared.work.iter().for_each(Condvar::notify_all);
        self.shared.timer.notify_all();
        threads
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // May run on one of the threads: nothing to join.
        drop(self.stop());
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("limits", &self.shared.limits).finish_non_exhaustive()
    }
}

impl Shared {
    fn run_worker(&self, kind: Kind) {
        let lane = kind as usize;
        let mut queues = self.queues.lock();
        loop {
            if let Some(job) = queues.lanes[lane].jobs.pop_front() {
                drop(queues);
                job(&Env::get(EnvTags::WORK));
                queues = self.queues.lock();
            } else if queues.stopping {
                return;
            } else {
                queues.lanes[lane].idle += 1;
                queues = queues.wait(&self.work[lane]);
                queues.lanes[lane].idle -= 1;
            }
        }
    }

    fn run_timer(&self) {
        let mut queues = self.queues.lock();
        while !queues.stopping {
            let Some(due) = queues.timed.peek().map(|t| t.due) else {
                queues = queues.wait(&self.timer);
                continue;
            };
            let now = Instant::now();
            if due > now {
                queues = queues.wait_for(&self.timer, due - now).0;
                continue;
            }
            let job = queues.timed.pop();
            drop(queues);
            if let Some(timed) = job {
                (timed.job)(&Env::get(EnvTags::WORK));
            }
            queues = self.queues.lock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn jobs_run_and_timed_ones_in_order() {
        let workers = Workers::new(2);
        let (tx, rx) = mpsc::channel();
        for (delay, name) in [(30, "late"), (1, "early")] {
            let tx = tx.clone();
            assert!(workers.after(Duration::from_millis(delay), move |_| tx.send(name).expect("send")));
        }
        assert_eq!((rx.recv(), rx.recv()), (Ok("early"), Ok("late")));
        // Two jobs that wait for each other run at once.
        let barrier = Arc::new(std::sync::Barrier::new(2));
        for _ in 0..2 {
            let (barrier, tx) = (barrier.clone(), tx.clone());
            assert!(workers.push(move |_| {
                barrier.wait();
                tx.send("both").expect("send");
            }));
        }
        assert_eq!((rx.recv(), rx.recv()), (Ok("both"), Ok("both")));
        workers.shutdown();
        assert!(!workers.push(|_| {}) && !workers.after(Duration::ZERO, |_| {}));
    }
}
