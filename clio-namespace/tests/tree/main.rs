//! The namespace against a simple tree in memory: random operations, reopened and killed in between.

mod crash;
mod model;
mod ops;
mod real;
mod reference;
