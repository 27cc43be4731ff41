//! A tree in memory, as simple as can be: link counts and reachability are counted, not kept.

use super::ops::Op;
use clio_core::Errno::{self, *};
use clio_namespace::{IfExists, RenameMode, XattrMode};
use std::collections::BTreeMap;
use std::fmt::Write;

pub type Outcome = Result<String, Errno>;
type Id = usize;
const ROOT: Id = 0;

#[derive(Clone, Debug)]
enum Body {
    File(Vec<u8>),
    Dir { children: BTreeMap<String, Id>, default_layout: Vec<u8> },
    Link(String),
}

#[derive(Clone, Debug)]
struct Node {
    body: Body,
    mode: u32,
    mtime: u64,
    ctime: u64,
    xattrs: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, Debug)]
pub struct Model {
    nodes: BTreeMap<Id, Node>,
    open: Vec<Id>,
    next: Id,
}

enum Last {
    Name(String),
    Dot,
    DotDot,
    Root,
}

struct Place {
    dir: Id,
    last: Last,
    found: Option<Id>,
    slash: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Final {
    Follow,
    FollowBeforeSlash,
    Never,
}

impl Model {
    pub fn new() -> Self {
        let children = BTreeMap::new();
        let body = Body::Dir { children, default_layout: vec![] };
        let root = Node { body, mode: 0o755, mtime: 0, ctime: 0, xattrs: BTreeMap::new() };
        Self { nodes: [(ROOT, root)].into(), open: vec![], next: 1 }
    }

    fn children(&self, id: Id) -> Result<&BTreeMap<String, Id>, Errno> {
        match &self.nodes[&id].body {
            Body::Dir { children, .. } => Ok(children),
            _ => Err(ENOTDIR),
        }
    }

    fn is_dir(&self, id: Id) -> bool {
        self.children(id).is_ok()
    }

    fn parent(&self, id: Id) -> Id {
        let holds = |n: &Node| matches!(&n.body, Body::Dir { children, .. } if children.values().any(|c| *c == id));
        self.nodes.iter().find(|(_, n)| holds(n)).map_or(ROOT, |(p, _)| *p)
    }

    fn is_below(&self, mut id: Id, above: Id) -> bool {
        while id != above && id != ROOT {
            id = self.parent(id);
        }
        id == above
    }

    fn nlink(&self, id: Id) -> usize {
        let dirs = self.nodes.keys().filter_map(|d| self.children(*d).ok());
        match self.children(id) {
            Ok(children) => 2 + children.values().filter(|c| self.is_dir(**c)).count(),
            Err(_) => dirs.flat_map(|c| c.values()).filter(|c| **c == id).count(),
        }
    }

    fn kind(&self, id: Id) -> char {
        match self.nodes[&id].body {
            Body::File(_) => 'f',
            Body::Dir { .. } => 'd',
            Body::Link(_) => 'l',
        }
    }

    fn describe(&self, id: Id) -> String {
        format!("{}{} {:o}", self.kind(id), self.nlink(id), self.nodes[&id].mode)
    }

    fn walk(&self, from: Id, path: &str, last: Final, budget: &mut u32) -> Result<Place, Errno> {
        let dir = if path.starts_with('/') { ROOT } else { from };
        let names: Vec<&str> = path.split('/').filter(|c| !c.is_empty()).collect();
        self.steps(dir, &names, path.ends_with('/'), last, budget)
    }

    fn steps(&self, dir: Id, names: &[&str], slash: bool, last: Final, budget: &mut u32) -> Result<Place, Errno> {
        let Some((name, rest)) = names.split_first() else {
            return Ok(Place { dir, last: Last::Root, found: Some(dir), slash: true });
        };
        let children = self.children(dir)?;
        let special = match *name {
            "." => Some((dir, Last::Dot)),
            ".." => Some((self.parent(dir), Last::DotDot)),
            _ => None,
        };
        if let Some((to, which)) = special {
            return match rest {
                [] => Ok(Place { dir: to, last: which, found: Some(to), slash }),
                _ => self.steps(to, rest, slash, last, budget),
            };
        }
        let found = children.get(*name).copied();
        let follow = !rest.is_empty() || last == Final::Follow || (last == Final::FollowBeforeSlash && slash);
        match found.map(|id| (id, &self.nodes[&id].body)) {
            Some((_, Body::Link(target))) if follow => {
                *budget = budget.checked_sub(1).ok_or(ELOOP)?;
                let tail = if rest.is_empty() { String::new() } else { format!("/{}", rest.join("/")) };
                let path = format!("{target}{tail}{}", if slash { "/" } else { "" });
                self.walk(dir, &path, last, budget)
            }
            _ if rest.is_empty() => Ok(Place { dir, last: Last::Name(name.to_string()), found, slash }),
            Some((id, _)) => self.steps(id, rest, slash, last, budget),
            None => Err(ENOENT),
        }
    }

    fn place(&self, path: &str, last: Final) -> Result<Place, Errno> {
        self.walk(ROOT, path, last, &mut 40)
    }

    fn resolve(&self, path: &str, follow: bool) -> Result<Id, Errno> {
        let place = self.place(path, if follow { Final::Follow } else { Final::FollowBeforeSlash })?;
        let id = place.found.ok_or(ENOENT)?;
        if place.slash && !self.is_dir(id) { Err(ENOTDIR) } else { Ok(id) }
    }

    /// Directory and name where something new comes.
    fn new_name(&self, path: &str, for_dir: bool) -> Result<(Id, String), Errno> {
        let place = self.place(path, Final::Never)?;
        let Last::Name(name) = place.last else { return Err(EEXIST) };
        match place.found {
            Some(_) => Err(EEXIST),
            None if place.slash && !for_dir => Err(ENOENT),
            None => Ok((place.dir, name)),
        }
    }

    fn enter(&mut self, dir: Id, name: String, id: Option<Id>, now: u64) {
        let node = self.nodes.get_mut(&dir).unwrap();
        (node.mtime, node.ctime) = (now, now);
        let Body::Dir { children, .. } = &mut node.body else { unreachable!() };
        match id {
            Some(id) => drop(children.insert(name, id)),
            None => drop(children.remove(&name)),
        }
    }

    fn add(&mut self, dir: Id, name: String, mut body: Body, now: u64) -> Id {
        if let Body::Dir { default_layout, .. } = &self.nodes[&dir].body {
            match &mut body {
                Body::File(layout) | Body::Dir { default_layout: layout, .. } => *layout = default_layout.clone(),
                Body::Link(_) => {}
            }
        }
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, Node { body, mode: 0o640, mtime: now, ctime: now, xattrs: BTreeMap::new() });
        self.enter(dir, name, Some(id), now);
        id
    }

    /// What is told of an inode that lost a name.
    fn removed(&mut self, id: Id, now: u64) -> String {
        self.nodes.get_mut(&id).unwrap().ctime = now;
        let left = if self.is_dir(id) { 0 } else { self.nlink(id) };
        let mut text = format!("{}{left}", self.kind(id));
        if left == 0 && !self.open.contains(&id) {
            text += &self.gone(id);
        }
        text
    }

    fn gone(&mut self, id: Id) -> String {
        match self.nodes.remove(&id).unwrap().body {
            Body::File(layout) => format!(" destroy {layout:?}"),
            _ => String::new(),
        }
    }

    fn rename(&mut self, old: &str, new: &str, mode: RenameMode, now: u64) -> Outcome {
        let (from, to) = (self.place(old, Final::Never)?, self.place(new, Final::Never)?);
        let (Last::Name(name), Last::Name(new_name)) = (from.last, to.last) else { return Err(EBUSY) };
        let id = from.found.ok_or(ENOENT)?;
        match (to.found, mode) {
            (Some(_), RenameMode::NoReplace) => return Err(EEXIST),
            (None, RenameMode::Exchange) => return Err(ENOENT),
            _ => {}
        }
        let exchange = mode == RenameMode::Exchange;
        let at_new = if exchange { to.found } else { Some(id) };
        if (from.slash && !self.is_dir(id)) || (to.slash && !at_new.is_some_and(|i| self.is_dir(i))) {
            return Err(ENOTDIR);
        }
        if self.is_dir(id) && self.is_below(to.dir, id) {
            return Err(EINVAL);
        }
        if let Some(there) = to.found {
            if self.is_dir(there) && self.is_below(from.dir, there) {
                return Err(if exchange { EINVAL } else { ENOTEMPTY });
            } else if there == id {
                return Ok("nothing".into());
            } else if exchange {
                self.enter(from.dir, name, Some(there), now);
                self.enter(to.dir, new_name, Some(id), now);
                self.nodes.get_mut(&id).unwrap().ctime = now;
                self.nodes.get_mut(&there).unwrap().ctime = now;
                return Ok("nothing".into());
            }
            match (self.is_dir(id), self.children(there)) {
                (true, Err(_)) => return Err(ENOTDIR),
                (false, Ok(_)) => return Err(EISDIR),
                (true, Ok(children)) if !children.is_empty() => return Err(ENOTEMPTY),
                _ => {}
            }
        }
        self.enter(from.dir, name, None, now);
        self.enter(to.dir, new_name, Some(id), now);
        self.nodes.get_mut(&id).unwrap().ctime = now;
        Ok(to.found.map_or("nothing".into(), |there| self.removed(there, now)))
    }

    fn remove(&mut self, path: &str, dir_wanted: bool, special: [Errno; 3], now: u64) -> Outcome {
        let place = self.place(path, Final::Never)?;
        let name = match place.last {
            Last::Name(name) => name,
            Last::Dot => return Err(special[0]),
            Last::DotDot => return Err(special[1]),
            Last::Root => return Err(special[2]),
        };
        let id = place.found.ok_or(ENOENT)?;
        match self.children(id) {
            Ok(_) if !dir_wanted => return Err(EISDIR),
            Ok(children) if !children.is_empty() => return Err(ENOTEMPTY),
            Err(_) if dir_wanted || place.slash => return Err(ENOTDIR),
            _ => {}
        }
        self.enter(place.dir, name, None, now);
        Ok(self.removed(id, now))
    }

    fn create(&mut self, path: &str, if_exists: IfExists, now: u64) -> Outcome {
        let exclusive = if_exists == IfExists::Fail;
        let place = self.place(path, if exclusive { Final::Never } else { Final::Follow })?;
        let name = match place.last {
            Last::Name(name) if !place.slash => name,
            Last::Name(_) => return Err(EISDIR),
            _ => return Err(if exclusive { EEXIST } else { EISDIR }),
        };
        match place.found {
            Some(_) if exclusive => Err(EEXIST),
            Some(id) if self.is_dir(id) => Err(EISDIR),
            Some(id) => Ok(format!("false {}", self.describe(id))),
            None => {
                let id = self.add(place.dir, name, Body::File(vec![]), now);
                Ok(format!("true {}", self.describe(id)))
            }
        }
    }

    fn set_xattr(&mut self, path: &str, n: u8, mode: XattrMode, now: u64) -> Outcome {
        let id = self.resolve(path, true)?;
        let node = self.nodes.get_mut(&id).unwrap();
        let name = format!("user.{n}");
        match (node.xattrs.contains_key(&name), mode) {
            (true, XattrMode::Create) => return Err(EEXIST),
            (false, XattrMode::Replace) => return Err(ENODATA),
            _ => drop(node.xattrs.insert(name, now.to_string().into_bytes())),
        }
        node.ctime = now;
        Ok(String::new())
    }

    /// Runs `op` at time `now`.
    pub fn apply(&mut self, op: &Op, now: u64) -> Outcome {
        match op {
            Op::Create(path, if_exists) => self.create(path, *if_exists, now),
            Op::Mkdir(path) => {
                let (dir, name) = self.new_name(path, true)?;
                let id = self.add(dir, name, Body::Dir { children: BTreeMap::new(), default_layout: vec![] }, now);
                Ok(self.describe(id))
            }
            Op::Symlink(target, path) => {
                let (dir, name) = self.new_name(path, false)?;
                let id = self.add(dir, name, Body::Link(target.clone()), now);
                Ok(self.describe(id))
            }
            Op::Link(old, follow, new) => {
                let id = self.resolve(old, *follow)?;
                let (dir, name) = self.new_name(new, false)?;
                if self.is_dir(id) {
                    return Err(EPERM);
                }
                self.enter(dir, name, Some(id), now);
                self.nodes.get_mut(&id).unwrap().ctime = now;
                Ok(self.describe(id))
            }
            Op::Unlink(path) => self.remove(path, false, [EISDIR; 3], now),
            Op::Rmdir(path) => self.remove(path, true, [EINVAL, ENOTEMPTY, EBUSY], now),
            Op::Rename(old, new, mode) => self.rename(old, new, *mode, now),
            Op::Chmod(path, mode) => {
                let id = self.resolve(path, true)?;
                let node = self.nodes.get_mut(&id).unwrap();
                (node.mode, node.ctime) = (*mode, now);
                Ok(self.describe(id))
            }
            Op::SetXattr(path, n, mode) => self.set_xattr(path, *n, *mode, now),
            Op::RemoveXattr(path, n) => {
                let id = self.resolve(path, true)?;
                let node = self.nodes.get_mut(&id).unwrap();
                node.xattrs.remove(&format!("user.{n}")).ok_or(ENODATA)?;
                node.ctime = now;
                Ok(String::new())
            }
            Op::SetLayout(path, byte) => {
                let id = self.resolve(path, false)?;
                let node = self.nodes.get_mut(&id).unwrap();
                match &mut node.body {
                    Body::File(layout) | Body::Dir { default_layout: layout, .. } => *layout = vec![*byte],
                    Body::Link(_) => return Err(EINVAL),
                }
                node.ctime = now;
                Ok(String::new())
            }
            Op::Resolve(path, follow) => Ok(self.describe(self.resolve(path, *follow)?)),
            Op::List(path) => {
                let children = self.children(self.resolve(path, true)?)?;
                Ok(children.iter().map(|(n, c)| format!("{n}{} ", self.kind(*c))).collect())
            }
            Op::Open(path) => {
                let id = self.resolve(path, true)?;
                self.open.push(id);
                Ok(self.describe(id))
            }
            Op::Close(n) => Ok(self.close(*n)),
            Op::Reopen => Ok(self.reopen()),
        }
    }

    fn is_named(&self, id: Id) -> bool {
        id == ROOT || self.nodes.keys().any(|d| self.children(*d).is_ok_and(|c| c.values().any(|c| *c == id)))
    }

    fn close(&mut self, n: usize) -> String {
        if self.open.is_empty() {
            return String::new();
        }
        let id = self.open.remove(n % self.open.len());
        if self.open.contains(&id) || self.is_named(id) { String::new() } else { self.gone(id) }
    }

    /// Everything is closed; what had no name is gone, in order of age.
    fn reopen(&mut self) -> String {
        self.open.clear();
        let orphans: Vec<Id> = self.nodes.keys().copied().filter(|id| !self.is_named(*id)).collect();
        orphans.into_iter().map(|id| format!("orphan{}", self.gone(id))).collect()
    }

    /// All that can be seen from the root. Inodes are numbered as they are met, so that hard links show.
    pub fn dump(&self) -> String {
        let (mut text, mut seen) = (String::new(), Vec::new());
        self.dump_dir(ROOT, "", &mut text, &mut seen);
        text
    }

    fn dump_dir(&self, dir: Id, path: &str, text: &mut String, seen: &mut Vec<Id>) {
        let number = seen.iter().position(|s| *s == dir).unwrap_or_else(|| {
            seen.push(dir);
            seen.len() - 1
        });
        let node = &self.nodes[&dir];
        let body = match &node.body {
            Body::File(layout) => format!("{layout:?}"),
            Body::Dir { children, default_layout } => format!("{} {default_layout:?}", children.len()),
            Body::Link(target) => target.clone(),
        };
        let times = format!("{} {}", node.mtime, node.ctime);
        writeln!(text, "{path}/ {number} {} {times} {body} {:?}", self.describe(dir), node.xattrs).unwrap();
        for (name, child) in self.children(dir).into_iter().flatten() {
            self.dump_dir(*child, &format!("{path}/{name}"), text, seen);
        }
    }
}
