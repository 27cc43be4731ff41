//! What a user asks for: [`Layout`], a builder.

use super::{MAX_COMPONENTS, STRIPE_SIZE_UNIT, StripeCount, Striping, Targets, invalid};
use clio_core::Result;
use clio_core::units::{Extent, MAX_FILE_SIZE, TargetIndex};

/// One component of a layout: an extent of the file, and how it is striped.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[doc(alias = "lov_comp_md_entry_v1")]
pub struct Component {
    /// The bytes of the file that belong to it.
    pub extent: Extent,
    /// Its striping.
    pub striping: Striping,
}

/// The layout that a new file, or a folder for its new files, shall have.
///
/// The setters never fail; [`Layout::check`] reports what cannot be, and everything that takes a layout calls it.
///
/// ```
/// # use clio_lov::layout::Layout;
/// let plain = Layout::raid0().stripe_count(4).stripe_size(1 << 20);
/// // One stripe for small files, more for what lies beyond 64 MiB.
/// let growing = Layout::composite().until(64 << 20).stripe_count(1).to_eof().stripe_count(8);
/// # plain.check().unwrap();
/// # growing.check().unwrap();
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    components: Vec<Component>,
    /// What the next component starts from: the striping of the last one.
    next: Striping,
}

impl Default for Layout {
    /// The same as [`Layout::raid0`].
    fn default() -> Self {
        Self::raid0()
    }
}

impl Layout {
    /// The whole file striped in one way: one stripe with a stripe size of 1 MiB, unless set otherwise.
    pub fn raid0() -> Self {
        Self::composite().to_eof()
    }

    /// A layout without components yet: add them with [`Layout::until`] and [`Layout::to_eof`].
    pub fn composite() -> Self {
        Self { components: Vec::new(), next: Striping::default() }
    }

    /// A layout of these components.
    ///
    /// # Errors
    /// As [`Layout::check`].
    pub fn from_components(components: Vec<Component>) -> Result<Self> {
        let next = components.last().map(|c| c.striping.clone()).unwrap_or_default();
        let layout = Self { components, next };
        layout.check()?;
        Ok(layout)
    }

    /// Adds a component that begins where the last one ends (or at 0) and ends before byte `end` of the file, a
    /// multiple of 64 KiB. The setters that follow are about this component. It starts out with the striping of the
    /// component before, but for the first target.
    ///
    /// The folio size of the file divides `end`: a multiple of 1 MiB serves best.
    pub fn until(mut self, end: u64) -> Self {
        let start = self.components.last().map_or(0, |c| c.extent.end);
        if !self.components.is_empty() {
            self.next.first_target = None;
        }
        self.components.push(Component { extent: Extent { start, end }, striping: self.next.clone() });
        self
    }

    /// Adds the last component: from the end of the one before, as far as the file reaches.
    pub fn to_eof(self) -> Self {
        self.until(Extent::EOF)
    }

    /// Number of stripes; 0 or `u16::MAX`: one on each target of the store or pool.
    pub fn stripe_count(self, n: u16) -> Self {
        self.set(|s| s.stripe_count = StripeCount::from_raw(n))
    }

    /// Bytes that go to one stripe before the next stripe's turn: a multiple of 64 KiB, at most 4 GiB.
    pub fn stripe_size(self, bytes: u64) -> Self {
        self.set(|s| s.stripe_size = bytes)
    }

    /// The target of the first stripe, which is otherwise chosen for balance.
    pub fn first_target(self, index: u16) -> Self {
        self.set(|s| s.first_target = Some(TargetIndex(index)))
    }

    /// Whether there may be more stripes than targets.
    pub fn overstriping(self, allowed: bool) -> Self {
        self.set(|s| s.overstriping = allowed)
    }

    /// `n` stripes, be there as many targets or not.
    pub fn overstripe_count(self, n: u16) -> Self {
        self.stripe_count(n).overstriping(true)
    }

    /// The named pool that targets are taken from.
    pub fn pool(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.set(|s| s.pool = Some(name))
    }

    /// The components in order of their extents.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    fn set(mut self, change: impl FnOnce(&mut Striping)) -> Self {
        change(&mut self.next);
        if let Some(last) = self.components.last_mut() {
            last.striping = self.next.clone();
        }
        self
    }

    /// Checks what can be checked without a store.
    ///
    /// # Errors
    /// `EINVAL`, with what is wrong and what would do: no or more than 128 components; extents that don't follow
    /// each other from 0, or whose ends aren't multiples of 64 KiB; a stripe size that isn't a multiple of 64 KiB
    /// from 64 KiB to 4 GiB; more than 2000 stripes; a pool name that can't be one.
    pub fn check(&self) -> Result<()> {
        if self.components.is_empty() {
            return Err(invalid("a composite layout needs a component; add one with `until` or `to_eof` (-E)"));
        }
        if self.components.len() > MAX_COMPONENTS {
            let n = self.components.len();
            return Err(invalid(format!("{n} components are too many; use at most {MAX_COMPONENTS}")));
        }
        let mut start = 0;
        for (i, c) in self.components.iter().enumerate() {
            check_extent(i, c.extent, start)?;
            c.striping.check()?;
            start = c.extent.end;
        }
        Ok(())
    }

    /// Checks the layout, and that the store's targets and pools can hold it.
    ///
    /// # Errors
    /// `EINVAL` as for [`Layout::check`]; for a pool that the store doesn't have, a first target that is not in the
    /// store or pool, or more stripes than targets without overstriping.
    pub fn check_on(&self, targets: &Targets) -> Result<()> {
        self.check()?;
        self.components.iter().try_for_each(|c| targets.check(&c.striping))
    }
}

fn check_extent(i: usize, extent: Extent, start: u64) -> Result<()> {
    let Extent { start: own_start, end } = extent;
    if start == Extent::EOF {
        return Err(invalid(format!(
            "component {i} follows one that reaches the end of file; give that one an end, starting from `composite`"
        )));
    }
    if own_start != start {
        return Err(invalid(format!(
            "component {i} starts at {own_start} instead of {start}; components must follow each other from 0"
        )));
    }
    if end <= start {
        return Err(invalid(format!("component {i} ends at {end}, not after its start {start}; give ascending ends")));
    }
    if end != Extent::EOF && end > MAX_FILE_SIZE {
        return Err(invalid(format!("component {i} ends at {end}, beyond the largest file; let it end at EOF (-1)")));
    }
    if end != Extent::EOF && !end.is_multiple_of(STRIPE_SIZE_UNIT) {
        return Err(invalid(format!(
            "component {i} ends at {end}, which is not a multiple of {STRIPE_SIZE_UNIT} bytes; round it up or down"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clio_core::Errno;

    fn refused(layout: Layout, word: &str) {
        let e = layout.check().unwrap_err();
        assert_eq!(e.errno(), Errno::EINVAL);
        assert!(e.detail().contains(word), "{e}");
    }

    #[test]
    fn setters_are_about_the_last_component_which_starts_from_the_one_before() {
        let l = Layout::composite()
            .stripe_size(128 << 10)
            .first_target(3)
            .until(1 << 20)
            .pool("fast")
            .until(2 << 20)
            .overstripe_count(7)
            .to_eof()
            .stripe_count(0);
        l.check().unwrap();
        let c = l.components();
        assert_eq!(c.iter().map(|c| c.extent.end).collect::<Vec<_>>(), [1 << 20, 2 << 20, Extent::EOF]);
        assert!(c.iter().all(|c| c.striping.stripe_size == 128 << 10 && c.striping.pool.as_deref() == Some("fast")));
        assert_eq!(c.iter().map(|c| c.striping.stripe_count.raw()).collect::<Vec<_>>(), [1, 7, 0]);
        assert_eq!(c.iter().map(|c| c.striping.overstriping).collect::<Vec<_>>(), [false, true, true]);
        assert_eq!(c[0].striping.first_target, Some(TargetIndex(3)));
        assert_eq!(c[1].striping.first_target, None);
        assert_eq!(Layout::from_components(c.to_vec()).unwrap(), l);
    }

    #[test]
    fn what_cannot_be_is_refused_with_advice() {
        refused(Layout::raid0().stripe_size(0), "out of range");
        refused(Layout::raid0().stripe_size((4 << 30) + (64 << 10)), "out of range");
        refused(Layout::raid0().stripe_size(100_000), "65536 or 131072");
        refused(Layout::raid0().stripe_size(1), "would do: 65536");
        refused(Layout::raid0().stripe_count(2001), "1 to 2000");
        refused(Layout::raid0().pool("a/b"), "letters");
        refused(Layout::raid0().pool(""), "letters");
        refused(Layout::raid0().until(1 << 20), "reaches the end of file");
        refused(Layout::composite(), "needs a component");
        refused(Layout::composite().until(0), "ascending");
        refused(Layout::composite().until(1 << 20).until(1 << 20), "ascending");
        refused(Layout::composite().until((1 << 20) + 4096), "multiple of 65536");
        refused(Layout::composite().until(1 << 63), "largest file");
        refused((1..=129).fold(Layout::composite(), |l, i| l.until(i << 20)), "at most 128");
        let gap = Component { extent: Extent::new(1 << 20, 2 << 20), striping: Striping::default() };
        assert_eq!(Layout::from_components(vec![gap]).unwrap_err().errno(), Errno::EINVAL);
        for ok in [0, 1, 2000, u16::MAX] {
            Layout::raid0().stripe_count(ok).stripe_size(4 << 30).check().unwrap();
        }
    }
}
