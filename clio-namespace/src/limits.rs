//! Bounds on names and records.

/// Longest name of an entry, in bytes (NAME_MAX).
pub const MAX_NAME_BYTES: usize = 255;
/// Longest path, in bytes: PATH_MAX is 4096 with the terminator.
pub const MAX_PATH_BYTES: usize = 4095;
/// Longest target of a symbolic link, in bytes.
pub const MAX_SYMLINK_BYTES: usize = MAX_PATH_BYTES;
/// Symbolic links followed in one resolution before it fails with `ELOOP`.
pub const MAX_SYMLINKS_FOLLOWED: usize = 40;
/// Most hard links of a file.
pub const MAX_LINKS: u32 = 65_000;
/// Longest name of an extended attribute, in bytes.
pub const MAX_XATTR_NAME_BYTES: usize = 255;
/// Most bytes of extended attributes of an inode, names and values together.
pub const MAX_XATTRS_BYTES: usize = 64 << 10;
/// Longest encoded layout, in bytes.
pub const MAX_LAYOUT_BYTES: usize = 64 << 10;
/// Replies kept for each client: it may have no more operations unanswered at once.
pub const REPLIES_PER_CLIENT: usize = 256;

/// More than any inode's record can need: fixed part, layouts, target, attributes with their lengths.
pub(crate) const MAX_INODE_RECORD_BYTES: usize = 1 << 20;
