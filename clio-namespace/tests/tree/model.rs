//! Random operations on the namespace and on a simple tree: every answer, every errno and the whole tree must agree.

use crate::ops::{Op, any_op};
use crate::real::Real;
use crate::reference::Model;
use proptest::prelude::*;

fn run(mut real: Real, ops: &[Op], check_each: bool) -> Result<(), TestCaseError> {
    let mut model = Model::new();
    for (n, op) in ops.iter().enumerate() {
        let now = n as u64 + 1;
        prop_assert_eq!(real.apply(op, now), model.apply(op, now), "operation {}: {:?}", n, op);
        if check_each {
            prop_assert_eq!(real.dump(), model.dump(), "after operation {}: {:?}", n, op);
        }
    }
    prop_assert_eq!(real.dump(), model.dump());
    let report = real.ns().check().unwrap();
    prop_assert!(report.is_clean(), "{:?}", report);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn in_memory(ops in prop::collection::vec(any_op().prop_filter("no store", |o| !matches!(o, Op::Reopen)), 1..80)) {
        run(Real::in_memory(), &ops, true)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn on_disk_with_reopens(ops in prop::collection::vec(any_op(), 1..120)) {
        let folder = tempfile::tempdir().unwrap();
        run(Real::on_disk(folder.path(), None), &ops, false)?;
    }
}
