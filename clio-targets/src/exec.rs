//! Where a target's requests run: on the caller's thread, or on a few threads of the target's own.

use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::sync::Condvar;
use clio_core::{Errno, Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Something to run. It is called exactly once: with `Ok`, or with why it cannot run.
pub(crate) type Job = Box<dyn FnOnce(Result<()>) + Send>;

/// Where jobs run.
#[derive(Debug)]
pub(crate) enum Executor {
    /// On the thread that hands them in.
    Inline,
    /// On the threads of a pool.
    Pool(Pool),
}

impl Executor {
    /// Runs `job` now or soon. Never waits for other jobs.
    pub(crate) fn run(&self, job: Job) {
        match self {
            Executor::Inline => job(Ok(())),
            Executor::Pool(pool) => pool.push(job),
        }
    }

    /// Runs what is queued and waits for it; what comes later is refused with `ESHUTDOWN`.
    pub(crate) fn close(&self) {
        if let Executor::Pool(pool) = self {
            pool.close();
        }
    }
}

/// Threads that are started with the first job and run jobs in the order they came.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: usize,
}

#[derive(Debug)]
struct Shared {
    name: String,
    bound: usize,
    state: RankedMutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    workers: Vec<JoinHandle<()>>,
    idle: usize,
    closing: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} queued, {} threads, {} idle", self.queue.len(), self.workers.len(), self.idle)
    }
}

impl Pool {
    /// A pool of up to `threads` threads, with at most `bound` jobs waiting.
    pub(crate) fn new(name: String, threads: usize, bound: usize) -> Self {
        let state = RankedMutex::new(LockRank::Leaf, State::default());
        Self { shared: Arc::new(Shared { name, bound, state, wake: Condvar::new() }), threads }
    }

    fn push(&self, job: Job) {
        if let Err((job, e)) = self.try_push(job) {
            job(Err(e));
        }
    }

    fn try_push(&self, job: Job) -> std::result::Result<(), (Job, Error)> {
        let mut state = self.shared.state.lock();
        if state.closing {
            return Err((job, Error::new(Errno::ESHUTDOWN, "submit", "the target is being closed")));
        }
        if state.queue.len() >= self.shared.bound {
            let text = format!("{} requests are waiting for this target already", self.shared.bound);
            return Err((job, Error::new(Errno::EAGAIN, "submit", text)));
        }
        if state.idle == 0 && state.workers.len() < self.threads {
            let shared = self.shared.clone();
            match std::thread::Builder::new().name(self.shared.name.clone()).spawn(move || shared.work()) {
                Ok(handle) => state.workers.push(handle),
                // With one thread at least, everything gets done, only slower.
                Err(_) if !state.workers.is_empty() => {}
                Err(e) => return Err((job, Error::from_io("start of a target's thread", e))),
            }
        }
        state.queue.push_back(job);
        drop(state);
        self.shared.wake.notify_one();
        Ok(())
    }
}

impl Shared {
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                drop(state);
                job(Ok(()));
                state = self.state.lock();
            } else if state.closing {
                return;
            } else {
                state.idle += 1;
                state = state.wait(&self.wake);
                state.idle -= 1;
            }
        }
    }
}

impl Pool {
    /// Runs what is queued, then ends the threads. A job may be what closes its pool: no thread waits for itself.
    fn close(&self) {
        let workers = {
            let mut state = self.shared.state.lock();
            state.closing = true;
            std::mem::take(&mut state.workers)
        };
        self.shared.wake.notify_all();
        let me = std::thread::current().id();
        for worker in workers.into_iter().filter(|w| w.thread().id() != me) {
            // A job that panicked has printed its message; the others are unaffected.
            let _ = worker.join();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clio_core::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    #[test]
    fn every_job_runs_once_even_those_queued_at_the_end() {
        let ran = Arc::new(AtomicUsize::new(0));
        let pool = Pool::new("test".into(), 2, 1000);
        for _ in 0..500 {
            let ran = ran.clone();
            pool.push(Box::new(move |r| {
                assert!(r.is_ok());
                ran.fetch_add(1, Ordering::Relaxed);
            }));
        }
        drop(pool);
        assert_eq!(ran.load(Ordering::Relaxed), 500);
    }

    #[test]
    fn a_full_queue_answers_eagain() {
        let pool = Pool::new("test".into(), 1, 1);
        let (go, gate) = mpsc::channel::<()>();
        let (started, begun) = mpsc::channel();
        pool.push(Box::new(move |_| {
            started.send(()).unwrap();
            gate.recv().unwrap();
        }));
        begun.recv().unwrap();
        pool.push(Box::new(|r| assert!(r.is_ok())));
        let (tx, rx) = mpsc::channel();
        pool.push(Box::new(move |r| tx.send(r).unwrap()));
        assert_eq!(rx.recv().unwrap().unwrap_err().errno(), Errno::EAGAIN);
        go.send(()).unwrap();
    }

    #[test]
    fn a_pool_may_be_dropped_by_its_own_job() {
        let pool = Arc::new(Pool::new("test".into(), 2, 8));
        let (tx, rx) = mpsc::channel();
        let mine = pool.clone();
        let (go, gate) = mpsc::channel::<()>();
        pool.push(Box::new(move |_| {
            gate.recv().unwrap();
            drop(mine);
            tx.send(()).unwrap();
        }));
        drop(pool);
        go.send(()).unwrap();
        rx.recv().unwrap();
    }
}
