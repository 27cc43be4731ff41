//! Dirty quota and grant: the right to have data dirty here, and the promise of space there.
//!
//! A plain value under the device's staging mutex. Quota limits what is dirty, staged or in flight. Grant is space
//! that the target has promised. Each staged block takes both.

use clio_core::units::BLOCK_SIZE;

/// Dirty quota and grant of one device, in bytes. See [`Credits::check`] for what always holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Credits {
    /// Most bytes that may be dirty.
    pub max_dirty: u64,
    /// What may be dirty all the same since the quota was lowered below what was: it goes down as that is written.
    pub over: u64,
    /// Dirty bytes in the staging area: written, or set aside for writes to come.
    pub staged: u64,
    /// Bytes being written out that took quota.
    pub in_flight: u64,
    /// All grant ever received.
    pub given: u64,
    /// Grant free to take.
    pub available: u64,
    /// Grant that staged data has taken.
    pub reserved: u64,
    /// Grant of writes that are on their way.
    pub spending: u64,
    /// Grant that writes have used up.
    pub used: u64,
    /// Grant given back.
    pub returned: u64,
    /// Grant lost by evictions.
    pub lost: u64,
}

fn bytes(blocks: usize) -> u64 {
    blocks as u64 * BLOCK_SIZE
}

impl Credits {
    /// No grant yet.
    pub(crate) fn new(max_dirty: u64) -> Self {
        Self { max_dirty, ..Self::default() }
    }

    /// Changes the quota. What is dirty beyond it stays until it is written.
    pub(crate) fn set_max_dirty(&mut self, max_dirty: u64) {
        self.max_dirty = max_dirty;
        self.over = self.dirty().saturating_sub(max_dirty);
    }

    /// Bytes that took quota.
    pub fn dirty(&self) -> u64 {
        self.staged + self.in_flight
    }

    /// How many blocks could be taken now.
    pub(crate) fn room(&self) -> usize {
        let quota = self.max_dirty.saturating_sub(self.dirty());
        (quota.min(self.available) / BLOCK_SIZE) as usize
    }

    /// Takes quota and grant for up to `blocks` blocks; returns for how many.
    pub(crate) fn take(&mut self, blocks: usize) -> usize {
        let n = blocks.min(self.room());
        self.staged += bytes(n);
        self.available -= bytes(n);
        self.reserved += bytes(n);
        n
    }

    /// Gives back what [`Credits::take`] took. `valid` says that it was taken since the last eviction.
    pub(crate) fn free(&mut self, blocks: usize, valid: bool) {
        self.staged -= bytes(blocks);
        self.over = self.over.saturating_sub(bytes(blocks));
        if valid {
            self.reserved -= bytes(blocks);
            self.available += bytes(blocks);
        }
    }

    /// Staged blocks go on their way.
    pub(crate) fn launch(&mut self, blocks: usize, valid: bool) {
        self.staged -= bytes(blocks);
        self.in_flight += bytes(blocks);
        if valid {
            self.reserved -= bytes(blocks);
            self.spending += bytes(blocks);
        }
    }

    /// Blocks on their way have arrived (and used up their grant), or failed (and used none).
    pub(crate) fn land(&mut self, blocks: usize, arrived: bool, valid: bool) {
        self.in_flight -= bytes(blocks);
        self.over = self.over.saturating_sub(bytes(blocks));
        if valid {
            self.spending -= bytes(blocks);
            if arrived {
                self.used += bytes(blocks);
            } else {
                self.available += bytes(blocks);
            }
        }
    }

    /// Grant came with a reply. That of a request from before an eviction is not relied on.
    pub(crate) fn receive(&mut self, bytes: u64, valid: bool) {
        self.given += bytes;
        *(if valid { &mut self.available } else { &mut self.lost }) += bytes;
    }

    /// Takes up to `bytes` of free grant out, to be given back to the target.
    pub(crate) fn give_back(&mut self, bytes: u64) -> u64 {
        let n = bytes.min(self.available);
        self.available -= n;
        self.returned += n;
        n
    }

    /// The target has taken all grant away.
    pub(crate) fn evict(&mut self) {
        self.lost += self.available + self.reserved + self.spending;
        (self.available, self.reserved, self.spending) = (0, 0, 0);
    }

    /// Whether grant is conserved: given = available + reserved + spending + used + returned + lost, and the quota is
    /// kept, but for what was dirty already when it was lowered.
    ///
    /// # Errors
    /// What doesn't add up.
    pub fn check(&self) -> Result<(), String> {
        let sum = self.available + self.reserved + self.spending + self.used + self.returned + self.lost;
        if sum != self.given {
            return Err(format!("grant is not conserved: {self:?}"));
        }
        if self.dirty() > self.max_dirty + self.over {
            return Err(format!("more is dirty than may be: {self:?}"));
        }
        if self.reserved > self.staged || self.spending > self.in_flight {
            return Err(format!("more grant is taken than there is dirty data: {self:?}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Take(usize),
        Free,
        Launch,
        Land(bool),
        Receive(u64),
        GiveBack(u64),
        Evict,
        Quota(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0usize..20).prop_map(Step::Take),
            Just(Step::Free),
            Just(Step::Launch),
            any::<bool>().prop_map(Step::Land),
            (0u64..100_000).prop_map(Step::Receive),
            (0u64..100_000).prop_map(Step::GiveBack),
            Just(Step::Evict),
            (0u64..64).prop_map(Step::Quota),
        ]
    }

    #[test]
    fn more_than_the_quota_is_noticed() {
        let mut c = Credits::new(4 * BLOCK_SIZE);
        c.receive(bytes(10), true);
        assert_eq!(c.take(10), 4);
        c.set_max_dirty(2 * BLOCK_SIZE);
        assert_eq!((c.check(), c.room()), (Ok(()), 0), "lowered");
        c.free(1, true);
        // As if somebody had taken what the lowered quota doesn't give any more.
        (c.staged, c.reserved, c.available) = (bytes(4), bytes(4), bytes(6));
        assert!(c.check().expect_err("over").contains("more is dirty"));
    }

    proptest! {
        /// Whatever happens in whatever order, nothing is lost, nothing is invented, and the limits hold.
        #[test]
        fn conserved(steps in prop::collection::vec(step(), 1..100)) {
            let mut c = Credits::new(64 * BLOCK_SIZE);
            let mut epoch = 0;
            let (mut staged, mut flying) = (Vec::new(), Vec::new());
            for s in steps {
                match s {
                    Step::Take(n) => {
                        let room = c.room();
                        let got = c.take(n);
                        prop_assert_eq!(got, n.min(room));
                        staged.push((got, epoch));
                    }
                    Step::Free => if let Some((n, e)) = staged.pop() { c.free(n, e == epoch) },
                    Step::Launch => if let Some((n, e)) = staged.pop() { c.launch(n, e == epoch); flying.push((n, e)) },
                    Step::Land(ok) => if let Some((n, e)) = flying.pop() { c.land(n, ok, e == epoch) },
                    Step::Receive(n) => c.receive(n, n % 5 > 0),
                    Step::GiveBack(n) => { c.give_back(n); }
                    Step::Evict => { c.evict(); epoch += 1; }
                    Step::Quota(n) => c.set_max_dirty(n * BLOCK_SIZE),
                }
                prop_assert_eq!(c.check(), Ok(()));
                prop_assert!(c.dirty() <= c.max_dirty || c.room() == 0);
                let sum = |v: &[(usize, i32)]| v.iter().map(|(n, _)| bytes(*n)).sum::<u64>();
                prop_assert_eq!((c.staged, c.in_flight), (sum(&staged), sum(&flying)));
            }
        }
    }
}
