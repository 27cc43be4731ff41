//! Who may do what: each rule by itself, and random operations of several users beside the kernel.

mod kernel;
mod rules;
