//! What comes of a read besides its bytes: read-ahead, and the time of the last read.
//!
//! That time is kept as `relatime` has it: it is worth telling if the file was changed since it was last told, or after a
//! day. Reads that the cache serves at one stroke must cost nothing, so of these only the first of an open file counts.

use super::VvpFile;
use clio_core::clock::{is_read_worth_noting, now_ns};
use clio_core::env::{Env, EnvTags};
use clio_core::sync::atomic::Ordering;
use clio_core::units::Extent;
use std::fmt;
use std::sync::Arc;

/// Who is told that a file was read, and keeps the time: see [`VvpFile::on_access`].
#[derive(Clone)]
pub(super) struct AccessHook(Arc<dyn Fn(u64) + Send + Sync>);

impl fmt::Debug for AccessHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessHook")
    }
}

impl VvpFile {
    /// Has `told` called after the first read of this open file, and after such later reads as may be worth noting
    /// ([`is_read_worth_noting`]). It is given the time of the last change of the file's data, in nanoseconds since 1970, as far
    /// as this client knows it; it is called without any lock, and must not read this file.
    #[must_use]
    pub fn on_access(mut self, told: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.access = Some(AccessHook(Arc::new(told)));
        self
    }

    /// A cached read is the first, or came to the middle of what was read ahead.
    #[cold]
    pub(super) fn cached_read_is_due(&self, read: Extent) {
        let env = Env::get(EnvTags::IO);
        self.plan_next(read);
        self.note_access(&env);
        self.read_deferred(&env);
    }

    /// After a read that took an IO.
    pub(super) fn read_went_slow(&self, env: &Env, read: Extent) {
        if self.ahead.is_due(read.end) {
            self.plan_next(read);
        }
        self.note_access(env);
    }

    /// Plans the next window of read-ahead.
    fn plan_next(&self, read: Extent) {
        if self.ahead.begin() || self.is_direct() {
            return;
        }
        let size = self.object.attrs().kms();
        let advice = self.ahead.on_read(read, size, false, self.state.read_ahead_limits());
        self.state.cache.counters().ahead(&advice);
        for extent in advice.ahead {
            self.ahead.defer(extent);
        }
    }

    fn note_access(&self, env: &Env) {
        let Some(AccessHook(told)) = &self.access else { return };
        let Ok(attr) = self.object.attr_get(env) else { return };
        let now = now_ns();
        let is_first = !self.was_read.swap(true, Ordering::Relaxed);
        if is_first || is_read_worth_noting(self.state.access_told.load(Ordering::Relaxed), attr.mtime, now) {
            told(attr.mtime);
            self.state.access_told.fetch_max(now, Ordering::Relaxed);
        }
    }
}
