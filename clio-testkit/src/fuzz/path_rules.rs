//! Rules for paths, against a search of the plainest kind.

use super::script::Script;
use super::{Verdict, refused};
use clio_core::Errno;
use clio_namespace::rules::PathRules;

/// A path's components, as text: "." dropped, ".." taken with the one before; `None` unless it starts with a slash.
type Components = Option<Vec<Vec<u8>>>;

fn components(path: &[u8]) -> Components {
    let mut all = Vec::new();
    for c in path.strip_prefix(b"/")?.split(|b| *b == b'/') {
        match c {
            b"" | b"." => {}
            b".." => drop(all.pop()),
            name => all.push(name.to_vec()),
        }
    }
    Some(all)
}

/// A script of rules set, removed and looked up: a byte for which, then a path.
pub fn path_rules(input: &[u8]) -> Verdict {
    let mut script = Script::new(input);
    let (mut rules, mut naive) = (PathRules::new(), Vec::<(Vec<Vec<u8>>, usize)>::new());
    let mut verdict = Verdict::Refused;
    for n in 0.. {
        let (Some(op), Some(path)) = (script.byte(), script.string()) else { break };
        let wanted = components(&path);
        let had = wanted.as_ref().and_then(|w| naive.iter().find(|(p, _)| p == w).map(|(_, v)| *v));
        let changed = match op % 3 {
            0 => rules.insert(&path, n),
            1 => rules.remove(&path),
            _ => {
                look_up(&rules, &naive, &path);
                continue;
            }
        };
        match (changed, wanted) {
            (Ok(before), Some(wanted)) => {
                assert_eq!(before, had);
                naive.retain(|(p, _)| *p != wanted);
                if op % 3 == 0 {
                    naive.push((wanted, n));
                }
                verdict = Verdict::Accepted;
            }
            (Err(e), None) => drop(refused(&e, &[Errno::EINVAL])),
            (changed, wanted) => panic!("{changed:?} for {wanted:?}"),
        }
        assert_eq!((rules.len(), rules.is_empty()), (naive.len(), naive.is_empty()));
        look_up(&rules, &naive, &path);
    }
    verdict
}

fn look_up(rules: &PathRules<usize>, naive: &[(Vec<Vec<u8>>, usize)], path: &[u8]) {
    let wanted = components(path);
    let holding = naive.iter().filter(|(p, _)| wanted.as_ref().is_some_and(|w| w.starts_with(p)));
    let best = holding.max_by_key(|(p, _)| p.len());
    let found = rules.find(path);
    assert_eq!(found.as_ref().map(|m| *m.value), best.map(|(_, v)| *v));
    if let Some(m) = found {
        assert_eq!(components(&[m.prefix, &m.rest].concat()), wanted, "prefix and rest are the path");
        assert_eq!(components(m.prefix).as_ref(), best.map(|(p, _)| p));
    }
}
