//! The targets of this crate pass the suite for all targets.

use clio_targets::conformance::Fixture;
use clio_targets::{DirOptions, DirTarget, MemOptions, MemTarget};
use std::sync::Arc;

mod mem {
    use super::*;

    fn fixture() -> Fixture {
        let target = Arc::new(MemTarget::in_memory(MemOptions::default()));
        let stats = target.clone();
        Fixture { target, grants: Some(Box::new(move || stats.grants())), keep: Box::new(()) }
    }

    clio_targets::conformance_tests!(fixture);
}

mod dir {
    use super::*;

    fn fixture() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let options = DirOptions { create: true, ..DirOptions::default() };
        let target = Arc::new(DirTarget::open(folder.path(), &options).unwrap());
        let stats = target.clone();
        Fixture { target, grants: Some(Box::new(move || stats.grants())), keep: Box::new(folder) }
    }

    clio_targets::conformance_tests!(fixture);
}
