//! Threads of a client for what must not be done where it is learnt of: cancelling locks after a blocking AST, and
//! things that are due later.
//!
//! Jobs of the pool may block: a slow one (a flush to a slow target, names that are synced) must not delay a lock that
//! somebody waits for, so the pool grows while all its threads are busy, and shrinks again. What the engine's threads
//! and the timer run may not block: a job of the pool may wait for a write that they have to send.
//!
//! A job that panics is logged, and costs nothing else.

use clio_core::env::{Env, EnvTags};
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::sync::{Condvar, thread};
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Job = Box<dyn FnOnce(&Env) + Send>;

/// Most threads that form and send RPCs.
const ENGINE_THREADS: usize = 4;

/// Most threads that jobs may block, when all of them are blocked.
const BLOCKING_THREADS: usize = 16;

/// How long a thread beyond those that are kept waits for another job.
const LINGER: Duration = Duration::from_secs(5);

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
    /// The next number of a timed job, or of a thread.
    numbers: u64,
    /// Those that run, by number.
    threads: HashMap<u64, thread::JoinHandle<()>>,
    timer_runs: bool,
    stopping: bool,
}

struct Shared {
    queues: RankedMutex<Queues>,
    work: [Condvar; 2],
    timer: Condvar,
    /// Threads of each lane that stay once they run, and the most that there may be.
    kept: [usize; 2],
    limits: [usize; 2],
    linger: Duration,
}

/// A pool of threads, and one that does things later, started at first use. Shared by the devices of a client.
pub struct Workers {
    shared: Arc<Shared>,
}

impl Workers {
    /// A pool of `threads` threads (at least one) that block, up to 16 while all are busy, a few that don't block, and
    /// one for the timer. None runs yet.
    pub fn new(threads: usize) -> Arc<Self> {
        Self::with_linger(threads, LINGER)
    }

    fn with_linger(threads: usize, linger: Duration) -> Arc<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (threads, engine) = (threads.max(1), cores.clamp(1, ENGINE_THREADS));
        Arc::new(Self {
            shared: Arc::new(Shared {
                queues: RankedMutex::new(LockRank::Work, Queues::default()),
                work: [Condvar::new(), Condvar::new()],
                timer: Condvar::new(),
                kept: [threads, engine],
                limits: [threads.max(BLOCKING_THREADS), engine],
                linger,
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
            self.start(&mut queues, move |shared, number| shared.run_worker(kind, number));
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
            self.start(&mut queues, |shared, _| shared.run_timer());
        }
        drop(queues);
        self.shared.timer.notify_one();
        true
    }

    /// Starts a thread; it takes the mutex before anything else, and is known by then.
    fn start(&self, queues: &mut Queues, run: impl FnOnce(&Shared, u64) + Send + 'static) {
        let number = queues.numbers;
        queues.numbers += 1;
        let shared = self.shared.clone();
        queues.threads.insert(number, thread::spawn(move || run(&shared, number)));
    }

    /// Takes no new jobs, runs those that are queued, drops those that aren't due yet, and waits for the threads.
    /// Not to be called by a job.
    pub fn shutdown(&self) {
        for thread in self.stop().into_values() {
            if thread.join().is_err() {
                tracing::error!(target: "clio::osc", "a worker thread panicked");
            }
        }
    }

    fn stop(&self) -> HashMap<u64, thread::JoinHandle<()>> {
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
    fn run_worker(&self, kind: Kind, number: u64) {
        let lane = kind as usize;
        let mut queues = self.queues.lock();
        let mut lingered = false;
        loop {
            if let Some(job) = queues.lanes[lane].jobs.pop_front() {
                drop(queues);
                run(job);
                queues = self.queues.lock();
                lingered = false;
            } else if queues.stopping {
                return;
            } else if queues.lanes[lane].threads <= self.kept[lane] {
                queues.lanes[lane].idle += 1;
                queues = queues.wait(&self.work[lane]);
                queues.lanes[lane].idle -= 1;
            } else if lingered {
                queues.lanes[lane].threads -= 1;
                queues.threads.remove(&number);
                return;
            } else {
                queues.lanes[lane].idle += 1;
                (queues, lingered) = queues.wait_for(&self.work[lane], self.linger);
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
                run(timed.job);
            }
            queues = self.queues.lock();
        }
    }
}

/// Runs a job. One that panics must not take the thread along: others rely on it, and it is counted.
fn run(job: Job) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| job(&Env::get(EnvTags::WORK)))) {
        let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
        tracing::error!(target: "clio::osc", panic = text.unwrap_or("of unknown cause"), "a job panicked");
    }
}

#[cfg(all(test, clio_loom))]
mod loom_tests {
    use super::*;
    use clio_core::sync::atomic::{AtomicUsize, Ordering};

    /// No job is lost between a push, a thread that goes to sleep or ends, and the shutdown: a lost one leaves a worker
    /// asleep for ever, which loom calls a deadlock, or isn't counted.
    #[test]
    fn loom_every_job_runs() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(|| {
            let workers = Workers::with_linger(1, Duration::ZERO);
            let done = Arc::new(AtomicUsize::new(0));
            let pushed: Vec<_> = (0..2)
                .map(|_| {
                    let (workers, done) = (workers.clone(), done.clone());
                    let job = move |_: &Env| {
                        done.fetch_add(1, Ordering::Relaxed);
                    };
                    thread::spawn(move || assert!(workers.push(job)))
                })
                .collect();
            pushed.into_iter().for_each(|p| p.join().expect("pushed"));
            workers.shutdown();
            assert_eq!(done.load(Ordering::Relaxed), 2);
        });
    }
}

#[cfg(all(test, not(clio_loom)))]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A job that never runs fails the test instead of hanging it.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn panicking_jobs_cost_no_thread() {
        let workers = Workers::new(1);
        for _ in 0..2 * BLOCKING_THREADS {
            assert!(workers.push(|_| panic!("as told")));
            assert!(workers.push_quick(|_| panic!("as told")));
            assert!(workers.after(Duration::ZERO, |_| panic!("as told")));
        }
        let (tx, rx) = mpsc::channel();
        let (quick, late) = (tx.clone(), tx.clone());
        assert!(workers.push(move |_| tx.send("push").expect("send")));
        assert!(workers.push_quick(move |_| quick.send("quick").expect("send")));
        assert!(workers.after(Duration::ZERO, move |_| late.send("late").expect("send")));
        let mut ran: Vec<_> = (0..3).map(|_| rx.recv_timeout(PATIENCE).expect("runs")).collect();
        ran.sort_unstable();
        assert_eq!(ran, ["late", "push", "quick"]);
        workers.shutdown();
    }

    #[test]
    fn blocked_jobs_delay_no_other_and_the_pool_shrinks_again() {
        let workers = Workers::with_linger(2, Duration::ZERO);
        let threads = |kind: Kind| workers.shared.queues.lock().lanes[kind as usize].threads;
        let (tx, rx) = mpsc::channel();
        let barrier = Arc::new(std::sync::Barrier::new(BLOCKING_THREADS));
        for _ in 0..BLOCKING_THREADS - 1 {
            let barrier = barrier.clone();
            assert!(workers.push(move |_| {
                barrier.wait();
            }));
        }
        assert!(workers.push(move |_| tx.send("revoked").expect("send")));
        assert_eq!(rx.recv_timeout(PATIENCE), Ok("revoked"));
        assert!(threads(Kind::Blocking) <= BLOCKING_THREADS);
        barrier.wait();
        let deadline = Instant::now() + PATIENCE;
        while threads(Kind::Blocking) != 2 {
            assert!(Instant::now() < deadline, "threads that have nothing to do end");
            std::thread::yield_now();
        }
        assert_eq!(workers.shared.queues.lock().threads.len(), 2, "nothing is kept of those that ended");
        workers.shutdown();
    }

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
