//! The loop that drives every IO through its iterations:
//! iter_init → lock → start → end → unlock → iter_fini → advance.
//!
//! - [`run`] does the iterations one after another;
//! - [`run_parallel`] does IOs on parts of one range side by side, with a result as if they had been sequential;
//! - [`run_restarting`] starts an IO anew that met a changed layout.

#![forbid(unsafe_code)]

mod parallel;
mod sequential;
mod steps;

pub use parallel::run_parallel;
pub use sequential::{MAX_RESTARTS, run, run_restarting};
