//! The operations, by FID of the directory and name, or by FID.

pub(crate) mod attr;
pub(crate) mod create;
mod link;
mod orphan;
pub(crate) mod read;
mod remove;
pub(crate) mod rename;
mod rights;
pub(crate) mod xattr;

#[cfg(test)]
mod rename_tests;
#[cfg(test)]
mod tests;
