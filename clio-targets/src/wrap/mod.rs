//! Targets around targets, for tests and measurements: with a fixed speed, with faults.

mod faulty;
mod throttled;

pub use faulty::{Fault, Faulty};
pub use throttled::Throttled;
