//! What is left after a kill, against the model.

use super::model::Tree;
use clio::{CheckReport, Client, FileType};
use std::collections::BTreeMap;

/// A round's folder as it was found: what is in it stays as it is in the rounds after.
pub struct Settled {
    root: String,
    found: Found,
}

/// Files with their content by their paths below the root, and folders.
type Found = BTreeMap<String, Option<Vec<u8>>>;

fn look(client: &Client, root: &str, below: &str, found: &mut Found, what: &str) {
    let dir = format!("{root}{below}");
    for entry in client.read_dir(&dir).unwrap_or_else(|e| panic!("{what}: {dir}: {e}")) {
        let path = format!("{below}/{}", entry.file_name().to_string_lossy());
        if entry.file_type() == FileType::Dir {
            found.insert(path.clone(), None);
            look(client, root, &path, found, what);
            continue;
        }
        let file = client.open_file(format!("{root}{path}")).unwrap_or_else(|e| panic!("{what}: {path}: {e}"));
        let mut content = vec![0; file.metadata().expect("metadata").len() as usize];
        file.read_exact_at(&mut content, 0).unwrap_or_else(|e| panic!("{what}: {path}: {e}"));
        found.insert(path, Some(content));
    }
}

/// All that is wrong are objects that no file owns any more, or not yet: a kill between two steps leaves them.
fn only_orphans(report: &CheckReport, what: &str) {
    for finding in &report.findings {
        assert!(finding.ends_with("belongs to no file"), "{what}: {finding}");
    }
    for repair in &report.repaired {
        assert!(repair.contains("belongs to no file: "), "{what}: {repair}");
    }
}

/// Opens the store and looks at everything: at what this round has made, and at what the one before had left.
pub fn check(uri: &str, before: &Tree, after: &Tree, settled: Option<Settled>, what: &str) -> Settled {
    let client = Client::open(uri).unwrap_or_else(|e| panic!("{what}: {e}"));
    let (root, mut found) = (before.root.clone(), Found::new());
    look(&client, &root, "", &mut found, what);
    let names = |tree: &Tree| tree.entries().iter().map(|(path, c)| (path.clone(), c.is_some())).collect::<Vec<_>>();
    let got: Vec<_> = found.iter().map(|(path, c)| (path.clone(), c.is_some())).collect();
    // A rename onto another file changes no set of names, so the files have to say which it is.
    let fits = |tree: &Tree| match got == names(tree) {
        false => Err(format!("the names are {got:?}, should be {:?}", names(tree))),
        true => {
            tree.entries().iter().zip(&found).try_for_each(|((path, allowed), (_, content))| match (allowed, content) {
                (Some(allowed), Some(content)) => allowed.allows(content).map_err(|e| format!("{path}: {e}")),
                _ => Ok(()),
            })
        }
    };
    if let (Err(without), Err(with)) = (fits(before), fits(after)) {
        panic!("{what}: without the operation under way: {without}; with it: {with}");
    }
    if let Some(old) = settled {
        let mut now = Found::new();
        look(&client, &old.root, "", &mut now, what);
        assert!(now == old.found, "{what}: what the round before had left has changed");
        client.remove_dir_all(&old.root).unwrap_or_else(|e| panic!("{what}: {e}"));
    }
    let check = |repair| client.check(repair).unwrap_or_else(|e| panic!("{what}: {e}"));
    only_orphans(&check(false), what);
    only_orphans(&check(true), what);
    let clean = check(false);
    assert!(clean.is_clean() && clean.repaired.is_empty(), "{what}: after a repair: {clean}");
    Settled { root, found }
}
