//! Allocators: what any of them must do, and what each is for.

use super::super::Layout;
use super::*;
use proptest::prelude::*;

fn space(free: &[u64]) -> Targets {
    let target =
        |(i, f): (usize, &u64)| TargetSpace { index: TargetIndex(i as u16), total: 1000, free: *f, usable: true };
    Targets::new(free.iter().enumerate().map(target))
}

fn choose(layout: Layout, targets: &Targets, allocator: &mut dyn Allocator) -> Result<Vec<u16>> {
    let stripes = choose_stripes(&layout.components()[0].striping, targets, allocator)?;
    Ok(stripes.into_iter().map(|t| t.0).collect())
}

fn histogram(layout: &Layout, targets: &Targets, allocator: &mut dyn Allocator, rounds: usize) -> Vec<usize> {
    let mut counts = vec![0; targets.all().len()];
    for _ in 0..rounds {
        for t in choose(layout.clone(), targets, allocator).unwrap() {
            counts[usize::from(t)] += 1;
        }
    }
    counts
}

#[test]
fn round_robin_goes_around() {
    let t = space(&[9, 9, 9]);
    let mut rr = RoundRobin::default();
    let two = Layout::raid0().stripe_count(2);
    assert_eq!(choose(two.clone(), &t, &mut rr).unwrap(), [0, 1]);
    assert_eq!(choose(two.clone(), &t, &mut rr).unwrap(), [2, 0]);
    assert_eq!(choose(two.clone().first_target(2), &t, &mut rr).unwrap(), [2, 0]);
    assert_eq!(choose(two, &t, &mut rr).unwrap(), [1, 2]);
    let firsts: BTreeSet<_> =
        (0..3).map(|_| choose(Layout::raid0().stripe_count(0), &t, &mut rr).unwrap()[0]).collect();
    assert_eq!(firsts.len(), 3, "wide files must not all begin at one target");
}

#[test]
fn free_space_counts_in_proportion() {
    let t = space(&[100, 200, 0, 700]);
    let counts = histogram(&Layout::raid0(), &t, &mut FreeSpace::default(), 1000);
    assert_eq!(counts, [100, 200, 0, 700]);
}

#[test]
fn balanced_follows_free_space_only_where_it_differs() {
    let near = histogram(&Layout::raid0(), &space(&[83, 100]), &mut Balanced::default(), 100);
    assert_eq!(near, [50, 50]);
    let far = histogram(&Layout::raid0(), &space(&[25, 75]), &mut Balanced::default(), 100);
    assert_eq!(far, [25, 75]);
}

#[test]
fn full_and_offline_targets_are_left_out() {
    let mut list = space(&[5, 0, 5, 5]).all().to_vec();
    list[3].usable = false;
    let t = Targets::new(list);
    let mut rr = RoundRobin::default();
    assert_eq!(choose(Layout::raid0().stripe_count(4), &t, &mut rr).unwrap(), [0, 2]);
    assert_eq!(choose(Layout::raid0().stripe_count(0), &t, &mut RoundRobin::default()).unwrap(), [0, 2]);
    assert_eq!(choose(Layout::raid0().overstripe_count(5), &t, &mut RoundRobin::default()).unwrap(), [0, 2, 0, 2, 0]);
    let e = choose(Layout::raid0().first_target(1), &t, &mut rr).unwrap_err();
    assert_eq!(e.errno(), Errno::ENOSPC);
    let e = choose(Layout::raid0(), &space(&[0, 0]), &mut rr).unwrap_err();
    assert_eq!(e.errno(), Errno::ENOSPC);
}

#[test]
fn targets_and_pools_are_checked_with_advice() {
    let mut t = space(&[5, 5, 5, 5]);
    t.set_pool("fast", [TargetIndex(1), TargetIndex(3)]).unwrap();
    let refused = |layout: Layout, word: &str| {
        let e = layout.check_on(&t).unwrap_err();
        assert_eq!(e.errno(), Errno::EINVAL);
        assert!(e.detail().contains(word), "{e}");
    };
    refused(Layout::raid0().first_target(4), "targets 0 to 3");
    refused(Layout::raid0().first_target(2).pool("fast"), "targets 1, 3");
    refused(Layout::raid0().stripe_count(5), "overstriping");
    refused(Layout::raid0().stripe_count(3).pool("fast"), "there are 2");
    refused(Layout::raid0().pool("slow"), "it has fast");
    Layout::raid0().overstripe_count(9).pool("fast").check_on(&t).unwrap();
    assert_eq!(choose(Layout::raid0().stripe_count(0).pool("fast"), &t, &mut RoundRobin::default()).unwrap(), [1, 3]);
    assert_eq!(t.set_pool("x", []).unwrap_err().errno(), Errno::EINVAL);
    assert_eq!(t.set_pool("x", [TargetIndex(9)]).unwrap_err().errno(), Errno::EINVAL);
    assert_eq!(Layout::raid0().check_on(&Targets::default()).unwrap_err().errno(), Errno::EINVAL);
}

#[test]
fn a_bad_allocator_is_found_out() {
    struct Bad;
    impl Allocator for Bad {
        fn pick(&mut self, c: &[TargetSpace], count: usize, _: Option<TargetIndex>) -> Vec<TargetIndex> {
            vec![c[0].index; count]
        }
    }
    assert!(choose(Layout::raid0().stripe_count(2), &space(&[1, 1]), &mut Bad).is_err());
}

proptest! {
    #[test]
    fn any_allocator_gives_what_was_asked(
        free in prop::collection::vec(0u64..1 << 50, 1..40),
        rounds in prop::collection::vec((0u16..60, prop::option::of(0u16..40), any::<bool>()), 1..20),
    ) {
        let targets = space(&free);
        let usable = free.iter().filter(|f| **f > 0).count();
        let mut allocators: [Box<dyn Allocator>; 3] =
            [Box::<RoundRobin>::default(), Box::<FreeSpace>::default(), Box::<Balanced>::default()];
        for (count, first, over) in rounds {
            for a in &mut allocators {
                let mut layout = Layout::raid0().stripe_count(count).overstriping(over);
                if let Some(first) = first {
                    layout = layout.first_target(first);
                }
                let refused = layout.check_on(&targets).is_err();
                let first_full = first.is_some_and(|f| free.get(usize::from(f)).is_none_or(|f| *f == 0));
                match choose(layout, &targets, a.as_mut()) {
                    Err(e) if refused => prop_assert_eq!(e.errno(), Errno::EINVAL),
                    Err(e) => {
                        prop_assert_eq!(e.errno(), Errno::ENOSPC);
                        prop_assert!(usable == 0 || first_full);
                    }
                    Ok(stripes) => {
                        let wanted = if count == 0 { usable } else { usize::from(count) };
                        prop_assert_eq!(stripes.len(), if over { wanted } else { wanted.min(usable) });
                        prop_assert!(stripes.iter().all(|t| free[usize::from(*t)] > 0));
                        prop_assert!(first.is_none_or(|f| stripes[0] == f));
                        let distinct: BTreeSet<_> = stripes.iter().collect();
                        prop_assert_eq!(distinct.len(), wanted.min(usable));
                    }
                }
            }
        }
    }
}
