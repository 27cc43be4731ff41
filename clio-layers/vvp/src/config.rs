//! What can be set for the layer.

/// Settings of a [`crate::VvpDevice`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VvpConfig {
    /// Most bytes that the read-ahead of one open file may be ahead of its reader; 0 turns read-ahead off. It is also
    /// kept to an eighth of the cache.
    pub read_ahead_max_bytes: u64,
    /// Files of up to this many bytes are read whole on the first miss.
    pub small_file_bytes: u64,
}

impl Default for VvpConfig {
    fn default() -> Self {
        Self { read_ahead_max_bytes: 64 << 20, small_file_bytes: 2 << 20 }
    }
}
