//! Iterations side by side.

use crate::run;
use clio_core::env::{Env, EnvTags};
use clio_core::io::Io;
use clio_core::sync::Mutex;
use clio_core::{Error, Result};

/// Runs IOs on adjacent parts of one range, in ascending order, on up to `threads` threads (the caller's included).
///
/// The result is as if they had run one after another: the bytes of the contiguous prefix that succeeded. A later
/// part that also succeeded is not counted, as its data could not be counted on after a sequential failure either.
/// Blocks until all parts are over.
///
/// # Errors
/// The error that ended the prefix, if no byte was moved.
pub fn run_parallel(env: &Env, ios: Vec<Io>, threads: usize) -> Result<u64> {
    let parts = ios.len();
    let queue = Mutex::new(ios.into_iter().enumerate());
    let outcomes = Mutex::new(Vec::with_capacity(parts));
    let work = |env: &Env| {
        loop {
            let Some((at, mut io)) = queue.lock().next() else { return };
            let wanted = io.common.count;
            let result = run(env, &mut io);
            outcomes.lock().push((at, wanted, result, io.common.take_error()));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(parts) {
            scope.spawn(|| work(&Env::get(EnvTags::IO)));
        }
        work(env);
    });
    let mut outcomes = std::mem::take(&mut *outcomes.lock());
    outcomes.sort_by_key(|o| o.0);
    prefix(outcomes.into_iter().map(|(_, wanted, result, later)| (wanted, result, later)))
}

/// Bytes of the prefix, or its error if there is none.
fn prefix(outcomes: impl Iterator<Item = (u64, Result<u64>, Option<Error>)>) -> Result<u64> {
    let mut done = 0;
    for (wanted, result, later) in outcomes {
        match result {
            Ok(n) if n == wanted && later.is_none() => done += n,
            Ok(n) => return Ok(done + n),
            Err(e) if done == 0 => return Err(e),
            Err(_) => return Ok(done),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clio_core::Errno;

    #[test]
    fn only_the_contiguous_prefix_counts() {
        let fail = || Err(Error::new(Errno::EIO, "write", "x"));
        assert_eq!(prefix([(4, Ok(4), None), (4, Ok(2), None), (4, Ok(4), None)].into_iter()).ok(), Some(6));
        assert_eq!(prefix([(4, Ok(4), None), (4, fail(), None), (4, Ok(4), None)].into_iter()).ok(), Some(4));
        assert!(prefix([(4, fail(), None), (4, Ok(4), None)].into_iter()).is_err());
    }
}
