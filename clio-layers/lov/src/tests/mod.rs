//! The layer between a minimal POSIX layer above and a scripted transfer layer below, driven by the real loop.

mod attrs;
mod changes;
mod disk;
mod faults;
mod geometry;
mod locks;
mod model;
mod read_ahead;
mod threads;
mod top;
mod world;
