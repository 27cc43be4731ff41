//! Threads for what may block.

use clio_core::sync::{Condvar, Mutex};
use clio_core::{Error, Result};
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

type Job = Box<dyn FnOnce() + Send>;

/// Whose a job is: a session's number, or [`OWN`].
pub(super) type Owner = u64;
/// The daemon's own jobs.
pub(super) const OWN: Owner = 0;

/// A few threads that do jobs: owners take turns, and the jobs of one begin in order of their coming. None has all threads
/// at once, if there are several. So whoever asks for much waits for it, and the others for one job at most. Dropping them
/// waits until all are done.
pub(super) struct Workers {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

impl Jobs {
    fn push(&mut self, owner: Owner, job: Job) {
        let queue = self.waiting.entry(owner).or_default();
        if queue.is_empty() {
            self.turns.push_back(owner);
        }
        queue.push_back(job);
    }

    /// The next job, if one may begin while each owner has `most` running at most.
    fn begin(&mut self, most: usize) -> Option<(Owner, Job)> {
        let is_free = |owner: &Owner| self.running.get(owner).is_none_or(|n| *n < most);
        let owner = self.turns.remove(self.turns.iter().position(is_free)?)?;
        let queue = self.waiting.get_mut(&owner)?;
        let job = queue.pop_front()?;
        match queue.is_empty() {
            true => drop(self.waiting.remove(&owner)),
            false => self.turns.push_back(owner),
        }
        *self.running.entry(owner).or_insert(0) += 1;
        Some((owner, job))
    }

    fn end(&mut self, owner: Owner) {
        if let Some(n) = self.running.get_mut(&owner) {
            *n -= 1;
            if *n == 0 {
                self.running.remove(&owner);
            }
        }
    }
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    /// None is empty.
    waiting: HashMap<Owner, VecDeque<Job>>,
    /// Those that have jobs waiting, next one first.
    turns: VecDeque<Owner>,
    running: HashMap<Owner, usize>,
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
            let most = count.saturating_sub(1).max(1);
            let spawned = thread.spawn(move || queue.work(most)).map_err(|e| Error::from_io("spawn", e))?;
            workers.threads.push(spawned);
        }
        Ok(workers)
    }

    pub(super) fn push(&self, owner: Owner, job: Job) {
        self.queue.jobs.lock().push(owner, job);
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
    fn work(&self, most: usize) {
        while let Some((owner, job)) = self.next(most) {
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!(target: "clio::node", "a request made a worker panic; it goes on");
            }
            let mut jobs = self.jobs.lock();
            jobs.end(owner);
            // This thread looks for the next job itself; others have to be told only that they need not wait for one.
            if jobs.is_closed {
                self.changed.notify_all();
            }
        }
    }

    fn next(&self, most: usize) -> Option<(Owner, Job)> {
        let mut jobs = self.jobs.lock();
        loop {
            if let Some(job) = jobs.begin(most) {
                return Some(job);
            } else if jobs.is_closed && jobs.turns.is_empty() {
                return None;
            }
            jobs = self.changed.wait(jobs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A job that says when it begins, and ends when it is told to.
    fn job(name: &'static str, began: &Sender<&'static str>, go: Receiver<()>) -> Job {
        let began = began.clone();
        Box::new(move || {
            began.send(name).unwrap();
            let _ = go.recv();
        })
    }

    #[test]
    fn one_with_many_slow_jobs_keeps_nobody_waiting() {
        let workers = Workers::new("test", 3).unwrap();
        let (began, begins) = channel();
        let mut holds = Vec::new();
        for _ in 0..100 {
            let (hold, go) = channel();
            holds.push(hold);
            workers.push(7, job("greedy", &began, go));
        }
        assert_eq!([begins.recv().unwrap(), begins.recv().unwrap()], ["greedy"; 2]);
        // Two run, and none of the other 98 may take the third thread.
        for _ in 0..5 {
            let (hold, go) = channel();
            workers.push(8, job("modest", &began, go));
            assert_eq!(begins.recv().unwrap(), "modest");
            drop(hold);
        }
        drop(holds);
        drop(workers);
        assert_eq!(begins.try_iter().filter(|name| *name == "greedy").count(), 98);
    }

    #[test]
    fn owners_take_turns_and_each_keeps_its_order() {
        let mut jobs = Jobs::default();
        for owner in [1, 1, 1, 2, 2, 3] {
            jobs.push(owner, Box::new(|| {}));
        }
        let order: Vec<_> = std::iter::from_fn(|| jobs.begin(9).map(|(owner, _)| owner)).collect();
        assert_eq!(order, [1, 2, 3, 1, 2, 1]);
        assert!(jobs.waiting.is_empty() && jobs.turns.is_empty());
        for owner in order {
            jobs.end(owner);
        }
        assert!(jobs.running.is_empty());
    }
}
