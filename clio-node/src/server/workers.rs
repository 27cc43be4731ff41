//! Threads for what may block.

use clio_core::sync::{Condvar, Mutex};
use clio_core::{Error, Result};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

type Job = Box<dyn FnOnce() + Send>;

/// A few threads that do jobs in order of their coming. Dropping them waits until all are done.
pub(super) struct Workers {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    /// No more will come.
    is_closed: bool,
}

impl Workers {
    /// `count` threads called `name`.
    ///
    /// # Errors
    /// `EAGAIN`, `ENOMEM` for want of threads.
    pub(super) fn new(name: &str, count: usize) -> Result<Self> {
        let mut workers = Self { queue: Arc::default(), threads: Vec::with_capacity(count) };
        for _ in 0..count {
            let queue = workers.queue.clone();
            let thread = std::thread::Builder::new().name(name.into());
            let spawned = thread.spawn(move || queue.work()).map_err(|e| Error::from_io("spawn", e))?;
            workers.threads.push(spawned);
        }
        Ok(workers)
    }

    pub(super) fn push(&self, job: Job) {
        self.queue.jobs.lock().waiting.push_back(job);
        self.queue.changed.notify_one();
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue.jobs.lock().is_closed = true;
        self.queue.changed.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn work(&self) {
        while let Some(job) = self.next() {
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!(target: "clio::node", "a request made a worker panic; it goes on");
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock();
        loop {
            if let Some(job) = jobs.waiting.pop_front() {
                return Some(job);
            } else if jobs.is_closed {
                return None;
            }
            jobs = self.changed.wait(jobs);
        }
    }
}
