//! Names of users and groups, from the system's files.

use std::collections::HashMap;
use std::fs;

/// Names of users and groups, read once.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
}

impl Owners {
    /// Reads `/etc/passwd` and `/etc/group`. Accounts kept elsewhere are shown as numbers.
    pub(crate) fn read() -> Self {
        let names = |file| fs::read_to_string(file).map(|t| parse(&t)).unwrap_or_default();
        Self { users: names("/etc/passwd"), groups: names("/etc/group") }
    }

    /// The name of a user, or its number.
    pub(crate) fn user(&self, uid: u32) -> String {
        self.users.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }

    /// The name of a group, or its number.
    pub(crate) fn group(&self, gid: u32) -> String {
        self.groups.get(&gid).cloned().unwrap_or_else(|| gid.to_string())
    }
}

/// The third field is the number in both files. The first entry for a number counts.
fn parse(text: &str) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    for line in text.lines() {
        let mut fields = line.split(':');
        if let (Some(name), Some(id)) = (fields.next(), fields.nth(1).and_then(|f| f.parse().ok())) {
            names.entry(id).or_insert_with(|| name.to_string());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        let users = parse("root:x:0:0:root:/root:/bin/sh\n# note\nroot2:x:0:0::/:\nann:x:1000:1000::/:\n");
        let owners = Owners { users, groups: HashMap::new() };
        assert_eq!([owners.user(0), owners.user(1000), owners.user(7), owners.group(0)], ["root", "ann", "7", "0"]);
    }
}
