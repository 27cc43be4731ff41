//! Real processes that share a store through its daemon.

mod child;
mod coherence;
mod deaths;
mod starting;
mod store;
