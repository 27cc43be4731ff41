//! Rules for paths: the longest prefix wins, component by component.
//!
//! Used for prefix mounts and default layouts. Paths are taken as text: "." and empty components are dropped, ".."
//! takes the one before away; symbolic links are not followed.

use clio_core::{Errno, Error, Result};
use radix_trie::{Trie, TrieCommon};

/// A value for each of a set of path prefixes.
#[derive(Debug, Clone)]
pub struct PathRules<T>(Trie<Vec<u8>, T>);

/// The rule that a path falls under.
#[derive(Debug, PartialEq, Eq)]
pub struct Match<'a, T> {
    /// The rule's value.
    pub value: &'a T,
    /// The rule's path, normalised: "/" or "/a/b".
    pub prefix: &'a [u8],
    /// What remains of the path below the prefix: "/" or "/c/d".
    pub rest: Vec<u8>,
}

impl<T> Default for PathRules<T> {
    fn default() -> Self {
        Self(Trie::new())
    }
}

impl<T> PathRules<T> {
    /// No rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the rule for `prefix` and all below; gives the value that it had before.
    ///
    /// # Errors
    /// `EINVAL` if the path doesn't start with a slash.
    pub fn insert(&mut self, prefix: &[u8], value: T) -> Result<Option<T>> {
        Ok(self.0.insert(key(prefix)?, value))
    }

    /// Removes the rule for exactly `prefix`; gives its value.
    ///
    /// # Errors
    /// `EINVAL` if the path doesn't start with a slash.
    pub fn remove(&mut self, prefix: &[u8]) -> Result<Option<T>> {
        let key = key(prefix)?;
        // The trie leaves nodes behind when it is asked to remove what isn't there.
        if self.0.get(&key).is_none() { Ok(None) } else { Ok(self.0.remove(&key)) }
    }

    /// The rule with the longest prefix of `path`; `None` if there is none, or the path doesn't start with a slash.
    pub fn find(&self, path: &[u8]) -> Option<Match<'_, T>> {
        let path = key(path).ok()?;
        let rule = self.0.get_ancestor(&path)?;
        let (prefix, value) = (rule.key()?, rule.value()?);
        let mut rest = path[prefix.len() - 1..].to_vec();
        if rest.len() > 1 {
            rest.pop();
        }
        let prefix = if prefix.len() > 1 { &prefix[..prefix.len() - 1] } else { prefix };
        Some(Match { value, prefix, rest })
    }

    /// All rules: the prefixes, normalised as [`Match::prefix`], in byte order, and their values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &T)> {
        self.0
            .iter()
            .map(|(prefix, value)| (prefix.strip_suffix(b"/").filter(|p| !p.is_empty()).unwrap_or(b"/"), value))
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The normalised path with a slash after each component, so that a prefix in bytes is one in components.
fn key(path: &[u8]) -> Result<Vec<u8>> {
    if path.first() != Some(&b'/') {
        return Err(
            Error::new(Errno::EINVAL, "path rule", "the path must start with '/'").at(String::from_utf8_lossy(path))
        );
    }
    let mut key = vec![b'/'];
    for component in path.split(|b| *b == b'/') {
        match component {
            b"" | b"." => {}
            b".." => {
                key.pop();
                let parent = key.iter().rposition(|b| *b == b'/').map_or(0, |slash| slash + 1);
                key.truncate(parent);
                if key.is_empty() {
                    key.push(b'/'); // above the root is the root
                }
            }
            name => {
                key.extend_from_slice(name);
                key.push(b'/');
            }
        }
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn found<'a>(rules: &'a PathRules<u32>, path: &str) -> Option<(u32, &'a str, String)> {
        let m = rules.find(path.as_bytes())?;
        Some((*m.value, std::str::from_utf8(m.prefix).unwrap(), String::from_utf8(m.rest).unwrap()))
    }

    #[test]
    fn components_not_bytes() {
        let mut rules = PathRules::new();
        rules.insert(b"/a", 1).unwrap();
        rules.insert(b"/a/b/", 2).unwrap();
        assert_eq!(found(&rules, "/ab"), None);
        assert_eq!(found(&rules, "/a"), Some((1, "/a", "/".into())));
        assert_eq!(found(&rules, "/a/bc/d"), Some((1, "/a", "/bc/d".into())));
        assert_eq!(found(&rules, "//a/./b//c/"), Some((2, "/a/b", "/c".into())));
        assert_eq!(found(&rules, "/a/b/../x"), Some((1, "/a", "/x".into())));
        assert_eq!(found(&rules, "/a/../../x"), None);
        assert_eq!(found(&rules, "a"), None);
        rules.insert(b"/", 0).unwrap();
        assert_eq!(rules.iter().collect::<Vec<_>>(), [(&b"/"[..], &0), (b"/a", &1), (b"/a/b", &2)]);
        assert_eq!(found(&rules, "/x/y"), Some((0, "/", "/x/y".into())));
        assert_eq!(found(&rules, "/.."), Some((0, "/", "/".into())));
        assert_eq!(rules.insert(b"a", 9).unwrap_err().errno(), Errno::EINVAL);
        assert_eq!((rules.remove(b"/a/b/c").unwrap(), rules.remove(b"/a/b").unwrap()), (None, Some(2)));
        assert_eq!(found(&rules, "/a/b/c"), Some((1, "/a", "/b/c".into())));
        assert_eq!((rules.len(), rules.is_empty()), (2, false));
    }

    fn path() -> impl Strategy<Value = String> {
        prop::collection::vec("[ab]{1,2}", 0..4).prop_map(|c| format!("/{}", c.join("/")))
    }

    proptest! {
        #[test]
        fn as_a_naive_search(
            inserts in prop::collection::vec(path(), 0..8),
            removes in prop::collection::vec(path(), 0..4),
            query in path(),
        ) {
            let (mut rules, mut naive) = (PathRules::new(), BTreeMap::new());
            for (i, p) in inserts.iter().enumerate() {
                prop_assert_eq!(rules.insert(p.as_bytes(), i as u32).unwrap(), naive.insert(p.clone(), i as u32));
            }
            for p in &removes {
                prop_assert_eq!(rules.remove(p.as_bytes()).unwrap(), naive.remove(p));
            }
            let holds = |p: &str| p == "/" || query == p || query.starts_with(&format!("{p}/"));
            let want = naive.iter().filter(|(p, _)| holds(p)).max_by_key(|(p, _)| p.len());
            let got = rules.find(query.as_bytes());
            prop_assert_eq!(got.as_ref().map(|m| *m.value), want.map(|(_, v)| *v));
            if let Some(m) = got {
                let joined = [m.prefix, &m.rest[..]].concat();
                prop_assert_eq!(key(&joined).unwrap(), key(query.as_bytes()).unwrap());
            }
        }
    }
}
