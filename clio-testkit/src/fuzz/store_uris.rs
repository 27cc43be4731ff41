//! Names of stores.

use super::{Verdict, refused};
use clio::StoreUri;
use clio_core::Errno;

/// The text of a URI.
pub fn store_uris(input: &[u8]) -> Verdict {
    let Ok(text) = std::str::from_utf8(input) else { return Verdict::Refused };
    let uri = match text.parse::<StoreUri>() {
        Ok(uri) => uri,
        Err(e) => return refused(&e, &[Errno::EINVAL, Errno::EOPNOTSUPP]),
    };
    assert_eq!(uri.to_string().parse::<StoreUri>().expect("it can be written down"), uri);
    match uri {
        StoreUri::Mem { targets, .. } => assert!(targets.is_none_or(|n| (1..=1024).contains(&n))),
        StoreUri::Dir { path, targets } | StoreUri::Node { path, targets } => {
            assert!(!path.as_os_str().is_empty() && targets.is_none_or(|n| (1..=1024).contains(&n)));
        }
    }
    Verdict::Accepted
}
