//! Settings of the lock manager.

/// Settings of a [`Dlm`](crate::Dlm). Times are milliseconds, sizes bytes.
///
/// Contention has two consequences, with settings of their own. *Growth* of new locks is limited soon (four
/// conflicts within two seconds), because that costs nothing but a few more enqueues and ends the fight of writers
/// that write apart. *Lockless I/O* (`EUSERS`) takes the cache away from everybody, so by default it needs more than
/// 32 conflicting locks at one time: two clients that pass a lock to and fro, however fast, keep their locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DlmConfig {
    /// A client that has not cancelled a lock this long after the blocking AST is evicted. 0: never.
    pub blocking_timeout_ms: u64,
    /// A glimpse waits this long for a holder's reply, then asks all others that may know more, and is answered after
    /// the same time again even if one doesn't reply. 0: it waits for ever.
    pub glimpse_timeout_ms: u64,
    /// Whether `EUSERS` is ever answered.
    pub contention_enabled: bool,
    /// A resource is contended for a request that conflicts with more holders and waiters than this.
    pub contended_locks: usize,
    /// So many requests that had to wait within one window limit growth.
    pub contended_conflicts: u32,
    /// So many requests that had to wait within one window make the next one that would wait get `EUSERS`.
    /// `None`: the number of conflicting locks alone decides.
    pub lockless_conflicts: Option<u32>,
    /// Length of the window in which conflicts are counted, and how long contention is remembered after it.
    pub contention_window_ms: u64,
    /// How far beyond the start of what was asked a lock may reach when growth is limited.
    pub limited_growth_bytes: u64,
}

impl Default for DlmConfig {
    fn default() -> Self {
        Self {
            blocking_timeout_ms: 100_000,
            glimpse_timeout_ms: 10_000,
            contention_enabled: true,
            contended_locks: 32,
            contended_conflicts: 4,
            lockless_conflicts: None,
            contention_window_ms: 2_000,
            limited_growth_bytes: 32 << 20,
        }
    }
}
