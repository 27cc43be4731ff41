//! Store URIs.

use clio_core::{Errno, Error, Result};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Most storage targets of a store.
pub const MAX_TARGETS: u16 = 1024;

/// Names a store: `mem:`, `mem:NAME?targets=4`, `dir:/path?targets=4`, `node:/path`, or a bare path, which is a `dir:` store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreUri {
    /// Memory of this process. Two clients that give the same name share a store; without a name each has its own.
    Mem {
        /// Name, possibly empty.
        name: String,
        /// Number of targets for a store that has to be made; `None`: as it is, or one.
        targets: Option<u16>,
    },
    /// Folders under one folder.
    Dir {
        /// The store's folder.
        path: PathBuf,
        /// Number of targets for a store that has to be made; `None`: as it is, or one.
        targets: Option<u16>,
    },
    /// A store that a daemon serves to all processes of the machine.
    Node {
        /// The daemon's socket, or the store's folder; for a folder, the daemon is started if none runs.
        path: PathBuf,
        /// Number of targets for a store that has to be made; `None`: as it is, or one.
        targets: Option<u16>,
    },
}

impl FromStr for StoreUri {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self> {
        let bad = |why: String| Error::new(Errno::EINVAL, "open", why).at(s);
        let (scheme, rest) = match s.split_once(':') {
            Some((scheme, rest)) if !scheme.contains('/') => (scheme, rest),
            _ => ("dir", s),
        };
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut targets = None;
        for pair in query.split('&').filter(|p| !p.is_empty()) {
            match pair.split_once('=') {
                Some(("targets", n)) => {
                    let n = n.parse().ok().filter(|n| (1..=MAX_TARGETS).contains(n));
                    targets = Some(n.ok_or_else(|| bad(format!("targets must be from 1 to {MAX_TARGETS}")))?);
                }
                _ => return Err(bad(format!("unknown parameter '{pair}'; known: targets=N"))),
            }
        }
        match scheme {
            "mem" => Ok(StoreUri::Mem { name: place.to_string(), targets }),
            "dir" if place.is_empty() => Err(bad("a folder is missing: give dir:/path or a path".into())),
            "dir" => Ok(StoreUri::Dir { path: place.into(), targets }),
            "node" if place.is_empty() => {
                Err(bad("a place is missing: give node:/path, of a store's folder or a socket".into()))
            }
            "node" => Ok(StoreUri::Node { path: place.into(), targets }),
            "rados" | "s3" => Err(Error::new(
                Errno::EOPNOTSUPP,
                "open",
                format!("this build has no '{scheme}:' stores yet; use dir:/path, node:/path or mem:"),
            )
            .at(s)),
            _ => Err(bad(format!("unknown kind of store '{scheme}:'; use dir:/path, node:/path, a path, or mem:"))),
        }
    }
}

impl fmt::Display for StoreUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreUri::Mem { name, targets: Some(n) } => write!(f, "mem:{name}?targets={n}"),
            StoreUri::Mem { name, targets: None } => write!(f, "mem:{name}"),
            StoreUri::Dir { path, targets: Some(n) } => write!(f, "dir:{}?targets={n}", path.display()),
            StoreUri::Dir { path, targets: None } => write!(f, "dir:{}", path.display()),
            StoreUri::Node { path, targets: Some(n) } => write!(f, "node:{}?targets={n}", path.display()),
            StoreUri::Node { path, targets: None } => write!(f, "node:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let dir = |p: &str, targets| StoreUri::Dir { path: p.into(), targets };
        assert_eq!("dir:/a/b?targets=4".parse::<StoreUri>().unwrap(), dir("/a/b", Some(4)));
        assert_eq!("/a/b".parse::<StoreUri>().unwrap(), dir("/a/b", None));
        assert_eq!("a/b:c".parse::<StoreUri>().unwrap(), dir("a/b:c", None));
        let node = StoreUri::Node { path: "/run/x.socket".into(), targets: None };
        assert_eq!("node:/run/x.socket".parse::<StoreUri>().unwrap(), node);
        assert_eq!(node.to_string(), "node:/run/x.socket");
        assert_eq!("mem:".parse::<StoreUri>().unwrap(), StoreUri::Mem { name: String::new(), targets: None });
        for (bad, says) in [
            ("dir:/a?targets=0", "from 1 to"),
            ("dir:/a?stripes=2", "unknown parameter 'stripes=2'"),
            ("ftp:/x", "unknown kind of store"),
            ("rados://pool/x", "no 'rados:' stores yet"),
            ("dir:", "a folder is missing"),
        ] {
            let e = bad.parse::<StoreUri>().unwrap_err();
            assert!(e.to_string().contains(says), "{bad}: {e}");
        }
    }
}
