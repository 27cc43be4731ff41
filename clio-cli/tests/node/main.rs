//! Real processes that share a store through its daemon.

mod child;
mod coherence;
mod daemon_deaths;
mod deaths;
mod figures;
mod fork;
mod history;
mod kills;
mod lazyio;
mod matrix;
mod rng;
mod roles;
mod starting;
mod store;
mod work;
