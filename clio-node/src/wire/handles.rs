//! Numbers of locks on their way.

use super::{WireOp, WireReply};

/// Sets the numbers of locks that one daemon gives apart from those of the daemons before: a client may still name one
/// that it got from them. They grow with time, and leave the highest bits free, as those of any target do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Salt(u64);

/// A daemon can give so many locks for each unit of time of [`UNIT_BITS`] without coming near the numbers of the next one.
const NUMBERS_BITS: u32 = 22;
/// Time is taken in units of 2^20 ns, about a millisecond: starts are further apart.
const UNIT_BITS: u32 = 20;
/// Numbers stay below 2^62 and what is added to them, for some decades.
const MASK: u64 = u64::MAX >> 2;

impl Salt {
    /// The salt of a daemon that starts at `now`, nanoseconds since 1970.
    pub(crate) fn new(now: u64) -> Self {
        Self((now >> UNIT_BITS << NUMBERS_BITS) & MASK)
    }

    /// A target's number, as clients know it.
    pub(crate) fn out(self, handle: u64) -> u64 {
        handle.wrapping_add(self.0)
    }

    /// The inverse of [`Salt::out`].
    pub(crate) fn back(self, handle: u64) -> u64 {
        handle.wrapping_sub(self.0)
    }

    /// `reply`, as clients know it.
    pub(crate) fn reply(self, reply: WireReply) -> WireReply {
        match reply {
            WireReply::Granted { handle: Some(handle), mode, range, lvb, grant, blocking } => {
                WireReply::Granted { handle: Some(self.out(handle)), mode, range, lvb, grant, blocking }
            }
            other => other,
        }
    }

    /// What a client asks, as the target knows it.
    pub(crate) fn op(self, mut op: WireOp) -> WireOp {
        match &mut op {
            WireOp::Write { lock: Some(handle), .. }
            | WireOp::Punch { lock: Some(handle), .. }
            | WireOp::Cancel(handle) => *handle = self.back(*handle),
            _ => {}
        }
        op
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_are_none_of_another_daemon() {
        let (one, next) = (Salt::new(1_796_000_000_000_000_000), Salt::new(1_796_000_000_002_000_000));
        for handle in [1, 77, 1 << 21] {
            assert_eq!(one.back(one.out(handle)), handle);
            assert!(one.out(handle) < next.out(1) && one.out(handle) < 1 << 63);
            assert!(next.back(one.out(handle)) > 1 << 62, "the next one gives no such number");
        }
        assert_eq!(one.op(WireOp::Cancel(one.out(5))), WireOp::Cancel(5));
        let lock = Some(one.out(6));
        let punch = |lock| WireOp::Punch { fid: [0; 16], range: (0, 1), lock, mtime: 0 };
        assert_eq!(one.op(punch(lock)), punch(Some(6)));
        assert_eq!(one.op(punch(None)), punch(None));
    }
}
