//! The record that the file `state` holds: see `intent`.

/// Bytes of it; the last four are the crc32c of the others.
pub(super) const SIZE: usize = 64;

/// The content of the file `state`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Record {
    pub(super) epoch: u64,
    /// Groups written to since the last time everything was on disk.
    pub(super) intent: u64,
    /// Groups whose objects are suspect if last checked before `suspect_epoch`.
    pub(super) suspect: u64,
    pub(super) suspect_epoch: u64,
    /// The boot of the machine under which `intent` was gathered.
    pub(super) boot: [u8; 16],
}

impl Record {
    /// As it is stored.
    pub(super) fn encode(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        for (i, n) in [self.epoch, self.intent, self.suspect, self.suspect_epoch].iter().enumerate() {
            bytes[i * 8..i * 8 + 8].copy_from_slice(&n.to_le_bytes());
        }
        bytes[32..48].copy_from_slice(&self.boot);
        let crc = crc32c::crc32c(&bytes[..SIZE - 4]);
        bytes[SIZE - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `None` if damaged.
    pub(super) fn decode(bytes: &[u8; SIZE]) -> Option<Record> {
        let crc = crc32c::crc32c(&bytes[..SIZE - 4]);
        let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|b| bytes[i * 8 + b]));
        let boot = std::array::from_fn(|b| bytes[32 + b]);
        (bytes[SIZE - 4..] == crc.to_le_bytes()).then(|| Record {
            epoch: word(0),
            intent: word(1),
            suspect: word(2),
            suspect_epoch: word(3),
            boot,
        })
    }

    /// What a start at `now` (nanoseconds since 1970) under boot `boot` makes of it. Epochs follow the clock, so that
    /// they grow even if the record before was lost.
    #[must_use]
    pub(super) fn next(mut self, boot: [u8; 16], now: u64) -> Record {
        self.epoch = now.max(self.epoch.saturating_add(1));
        if self.boot != boot && self.intent != 0 {
            self.suspect |= self.intent;
            self.suspect_epoch = self.epoch;
            self.intent = 0;
        }
        self.boot = boot;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_sealed_record_can_be_used(mut bytes: [u8; SIZE], boot: [u8; 16], now: u64) {
            let sum = crc32c::crc32c(&bytes[..SIZE - 4]).to_le_bytes();
            bytes[SIZE - 4..].copy_from_slice(&sum);
            let old = Record::decode(&bytes).expect("its checksum is right");
            let new = old.next(boot, now);
            prop_assert_eq!(Record::decode(&new.encode()), Some(new));
            prop_assert!(new.epoch >= old.epoch && new.epoch >= now);
            let forgotten = old.intent & !(new.intent | new.suspect);
            prop_assert_eq!(forgotten, 0, "what may have been lost stays known");
        }
    }

    #[test]
    fn the_last_epoch_is_no_overflow() {
        let last = Record { epoch: u64::MAX, ..Record::default() };
        assert_eq!(last.next([1; 16], 5).epoch, u64::MAX);
    }
}
