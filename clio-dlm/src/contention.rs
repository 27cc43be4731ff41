//! How fiercely a resource is fought over, and what follows from it for growth.

use crate::DlmConfig;
use clio_core::units::Extent;

/// How far a lock may be widened at its grant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Growth {
    /// To the nearest conflict, both ways.
    Free,
    /// Upwards only, to so many bytes beyond its start.
    Limited(u64),
    /// Not at all.
    Exact,
}

impl Growth {
    /// The extent to grant where `asked` may be widened to `room`.
    pub(crate) fn apply(self, asked: Extent, room: Extent) -> Extent {
        match self {
            Growth::Free => room,
            Growth::Limited(bytes) => {
                let limit = Extent::with_len(asked.start, bytes).align_to_blocks().end;
                Extent { start: asked.start, end: room.end.min(limit.max(asked.end)) }
            }
            Growth::Exact => asked,
        }
    }
}

/// Counts the requests that had to wait, by windows of time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Contention {
    window: u64,
    current: u32,
    previous: u32,
}

impl Contention {
    /// Records a request that has to wait.
    pub(crate) fn note(&mut self, now_ms: u64, config: &DlmConfig) {
        self.roll(now_ms, config);
        self.current = self.current.saturating_add(1);
    }

    /// Conflicts in this window and the one before.
    pub(crate) fn recent(&mut self, now_ms: u64, config: &DlmConfig) -> u32 {
        self.roll(now_ms, config);
        self.current.saturating_add(self.previous)
    }

    /// What the conflicts of late allow, on a resource with `rivals` granted or waiting locks of modes that are
    /// incompatible with the new one, wherever they lie.
    pub(crate) fn growth(&mut self, rivals: usize, now_ms: u64, config: &DlmConfig) -> Growth {
        let recent = self.recent(now_ms, config);
        if recent as usize > config.contended_locks {
            Growth::Exact
        } else if recent >= config.contended_conflicts || rivals > config.contended_locks {
            Growth::Limited(config.limited_growth_bytes)
        } else {
            Growth::Free
        }
    }

    fn roll(&mut self, now_ms: u64, config: &DlmConfig) {
        let window = now_ms / config.contention_window_ms.max(1);
        if window != self.window {
            self.previous = if window == self.window + 1 { self.current } else { 0 };
            self.current = 0;
            self.window = window;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_are_forgotten_after_a_window_without_any() {
        let config = DlmConfig { contention_window_ms: 100, ..DlmConfig::default() };
        let mut c = Contention::default();
        for _ in 0..4 {
            c.note(50, &config);
        }
        assert_eq!(c.recent(99, &config), 4);
        assert_eq!(c.recent(199, &config), 4);
        assert_eq!(c.recent(200, &config), 0);
    }

    #[test]
    fn growth_narrows_with_the_fight() {
        let config = DlmConfig { contended_locks: 8, contended_conflicts: 2, ..DlmConfig::default() };
        let mut c = Contention::default();
        assert_eq!(c.growth(8, 0, &config), Growth::Free);
        assert_eq!(c.growth(9, 0, &config), Growth::Limited(config.limited_growth_bytes));
        c.note(0, &config);
        c.note(0, &config);
        assert_eq!(c.growth(0, 0, &config), Growth::Limited(config.limited_growth_bytes));
        for _ in 0..7 {
            c.note(0, &config);
        }
        assert_eq!(c.growth(0, 0, &config), Growth::Exact);
    }

    #[test]
    fn a_limit_within_a_block_grants_the_whole_block() {
        let room = Extent::WHOLE;
        assert_eq!(Growth::Limited(5000).apply(Extent::new(4096, 8192), room), Extent::new(4096, 12288));
        assert_eq!(Growth::Limited(u64::MAX).apply(Extent::new(4096, 8192), room), Extent::new(4096, Extent::EOF));
    }
}
