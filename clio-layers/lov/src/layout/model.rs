//! The reference for the laws: bytes are dealt out to stripes one by one, with counters instead of arithmetic.

use super::{Component, ComponentIndex, FileComponent, FileLayout, LayoutGeneration, StripeRef, Striping};
use clio_core::units::{Extent, StripeIndex, TargetIndex};

/// A component for tests: any extent and stripe size, `count` stripes, 0 for a missing component.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub end: u64,
    pub stripe_size: u64,
    pub count: u16,
}

/// A layout of `shapes`, free of the 64 KiB rule. Stripe `k` of component `c` lies on target `100 * c + k`.
pub fn layout_of(shapes: &[Shape]) -> FileLayout {
    let mut start = 0;
    let mut components = Vec::new();
    for (i, s) in shapes.iter().enumerate() {
        let striping = Striping { stripe_size: s.stripe_size, ..Striping::default() };
        let wanted = Component { extent: Extent { start, end: s.end }, striping };
        let stripes = (0..s.count).map(|k| TargetIndex(100 * i as u16 + k)).collect();
        components.push(FileComponent { wanted, stripes });
        start = s.end;
    }
    FileLayout::assemble(LayoutGeneration(1), components)
}

/// Where each byte of `[0, len)` lies: stripe and object offset, or `None` in missing components and beyond the last.
pub fn deal(shapes: &[Shape], len: u64) -> Vec<Option<(StripeRef, u64)>> {
    let mut places = vec![None; len as usize];
    let mut start = 0;
    for (i, s) in shapes.iter().enumerate() {
        deal_component(s, i as u16, start, &mut places);
        start = s.end;
    }
    places
}

/// Deals the file from byte 0 with the component's striping, and keeps what lies in its extent.
fn deal_component(s: &Shape, index: u16, start: u64, places: &mut [Option<(StripeRef, u64)>]) {
    if s.count == 0 {
        return;
    }
    let mut dealt = vec![0u64; usize::from(s.count)];
    let (mut turn, mut left) = (0u16, s.stripe_size);
    for (f, place) in places.iter_mut().enumerate() {
        let f = f as u64;
        if start <= f && f < s.end {
            let at = StripeRef { component: ComponentIndex(index), stripe: StripeIndex(turn) };
            *place = Some((at, dealt[usize::from(turn)]));
        }
        dealt[usize::from(turn)] += 1;
        left -= 1;
        if left == 0 {
            (turn, left) = ((turn + 1) % s.count, s.stripe_size);
        }
    }
}

/// All layouts with up to 4 stripes of up to 4 bytes: in one component with or without end, and in two components
/// whose bound cuts stripe units anywhere, each of which may be missing.
pub fn small_worlds() -> Vec<Vec<Shape>> {
    let shapes = |end: u64, max: u16, from: u16| {
        (from..=max)
            .flat_map(move |count| (1..=u64::from(max)).map(move |stripe_size| Shape { end, stripe_size, count }))
    };
    let mut worlds = Vec::new();
    for end in [1, 2, 5, 7, 12, Extent::EOF] {
        worlds.extend(shapes(end, 4, 0).map(|s| vec![s]));
    }
    for bound in 1..=7 {
        for first in shapes(bound, 4, 0) {
            worlds.extend(shapes(Extent::EOF, 4, 0).map(|s| vec![first, s]));
        }
    }
    for bound in [1, 3, 4] {
        for first in shapes(bound, 2, 0) {
            for second in shapes(bound + 5, 3, 0) {
                worlds.extend(shapes(Extent::EOF, 2, 0).map(|s| vec![first, second, s]));
                worlds.push(vec![first, second]);
            }
        }
    }
    worlds
}
