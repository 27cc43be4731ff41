//! Names of a daemon behave as those of this process.

use super::Daemon;
use clio_core::Errno;
use clio_namespace::{Access, IfExists, Kind, Names, NewNode, OpCtx, PathAt, RenameMode, SetAttr, XattrMode};
use clio_node::client::NodeNames;

fn at(path: &str) -> PathAt<'_> {
    path.into()
}

fn node(mode: u32) -> NewNode<'static> {
    NewNode::new(mode, 12, 34)
}

const CTX: OpCtx<'static> = OpCtx::at(0);

#[test]
fn every_operation_reaches_the_namespace() {
    let daemon = Daemon::start();
    let names = NodeNames::new(daemon.connect());
    let there = &daemon.store.namespace;

    let dir = names.mkdir(&CTX, at("/d"), &node(0o750)).unwrap();
    assert_eq!((dir.kind, dir.mode), (Kind::Dir, 0o750));
    assert_eq!(dir.uid, rustix::process::geteuid().as_raw(), "the owner is whom the daemon sees, not who is claimed");
    assert!(dir.ctime > 1_000_000_000, "stamped by the daemon's clock");
    let new = NewNode { layout: Some(b"layout"), ..node(0o640) };
    let (file, made) = names.create(&CTX, at("/d/f"), &new, IfExists::Fail).unwrap();
    assert!(made && file.layout == b"layout");
    assert!(!names.create(&CTX, at("/d/f"), &new, IfExists::Open).unwrap().1);
    let refused = names.create(&CTX, at("/d/f"), &new, IfExists::Fail).unwrap_err();
    assert_eq!(refused.errno(), Errno::EEXIST);
    assert!(refused.to_string().contains("/d/f"), "{refused}");
    assert_eq!(names.resolve(at("/d/f"), true).unwrap(), there.getattr(file.fid).unwrap());
    assert_eq!(names.getattr(file.fid).unwrap().fid, file.fid);

    names.symlink(&CTX, b"/d/f", at("/l"), &node(0o777)).unwrap();
    let link = names.resolve(at("/l"), false).unwrap();
    assert_eq!(names.readlink(link.fid).unwrap(), b"/d/f");
    assert_eq!(names.resolve(at("/l"), true).unwrap().fid, file.fid);
    assert_eq!(names.link(&CTX, at("/d/f"), false, at("/g")).unwrap().nlink, 2);
    assert_eq!(names.readdir(clio_namespace::Namespace::ROOT, None, 10).unwrap().len(), 3);
    assert_eq!(names.readdir(clio_namespace::Namespace::ROOT, Some(b"d"), 1).unwrap()[0].name, b"g");

    let set = SetAttr { mode: Some(0o600), mtime: Some(5), ..SetAttr::default() };
    let inode = names.setattr(&CTX, file.fid, &set).unwrap();
    assert_eq!((inode.mode, inode.mtime), (0o600, 5));
    names.set_layout(&CTX, file.fid, b"other").unwrap();
    assert_eq!(names.get_layout(file.fid).unwrap(), b"other");
    assert_eq!(names.replace_layout(&CTX, file.fid, b"other", b"third").unwrap(), b"third");
    names.set_xattr(&CTX, file.fid, b"user.a", b"1", XattrMode::Create).unwrap();
    assert_eq!(names.get_xattr(file.fid, b"user.a").unwrap(), b"1");
    assert_eq!(names.list_xattrs(file.fid).unwrap(), [b"user.a".to_vec()]);
    names.remove_xattr(&CTX, file.fid, b"user.a").unwrap();
    assert_eq!(names.get_xattr(file.fid, b"user.a").unwrap_err().errno(), Errno::ENODATA);
    names.note_read(&CTX, file.fid, 7).unwrap();
    assert!(there.getattr(file.fid).unwrap().atime > 1_000_000_000);

    let (new, _) = names.create(&CTX, at("/new"), &node(0o640), IfExists::Fail).unwrap();
    names.open_ref(new.fid, Access::READ).unwrap();
    assert_eq!(names.unmake(&CTX, at("/new"), &new).unwrap(), None, "it is open");
    assert_eq!(names.close_ref(new.fid).unwrap(), None);
    assert_eq!(names.unmake(&CTX, at("/new"), &new).unwrap().unwrap().destroy.unwrap().fid, new.fid);
    assert_eq!(there.getattr(new.fid).unwrap_err().errno(), Errno::ENOENT);

    assert!(names.rename(&CTX, at("/g"), at("/h"), RenameMode::NoReplace).unwrap().is_none());
    assert_eq!(names.unlink(&CTX, at("/h")).unwrap().nlink, 1);
    assert_eq!(names.rmdir(&CTX, at("/d")).unwrap_err().errno(), Errno::ENOTEMPTY);
    names.sync().unwrap();
}

#[test]
fn a_file_goes_with_its_last_name_and_its_last_opening() {
    let daemon = Daemon::start();
    let (a, b) = (NodeNames::new(daemon.connect()), NodeNames::new(daemon.connect()));
    let new = NewNode { layout: Some(b"stripes"), ..node(0o644) };
    let fid = a.create(&CTX, at("/f"), &new, IfExists::Fail).unwrap().0.fid;
    a.open_ref(fid, Access::READ).unwrap();
    b.open_ref(fid, Access::READ).unwrap();
    assert_eq!(a.unlink(&CTX, at("/f")).unwrap().destroy, None);
    assert_eq!(a.close_ref(fid).unwrap(), None);
    assert_eq!(a.close_ref(fid).unwrap_err().errno(), Errno::EBADF, "another client's opening is not this one's");
    assert!(daemon.store.destroyed.lock().is_empty());
    let gone = b.close_ref(fid).unwrap().expect("it was the last");
    assert!(gone.fid == fid && gone.layout.is_empty(), "nothing is left for the client to destroy");
    let destroyed = daemon.store.destroyed.lock().clone();
    assert_eq!((destroyed[0].fid, &destroyed[0].layout[..]), (fid, &b"stripes"[..]));

    let fid = a.create(&CTX, at("/f"), &new, IfExists::Fail).unwrap().0.fid;
    assert_eq!(a.unlink(&CTX, at("/f")).unwrap().destroy.unwrap().fid, fid);
    assert_eq!(daemon.store.destroyed.lock().len(), 2);
}

#[test]
fn large_directories_and_attributes_fit() {
    let daemon = Daemon::start();
    let names = NodeNames::new(daemon.connect());
    for i in 0..1500 {
        names.create(&CTX, at(&format!("/{i:0>200}")), &node(0o644), IfExists::Fail).unwrap();
    }
    let all = names.readdir(clio_namespace::Namespace::ROOT, None, 10_000).unwrap();
    assert_eq!(all.len(), 1500);
    assert!(all.is_sorted_by(|a, b| a.name < b.name));
    let fid = all[0].fid;
    names.set_layout(&CTX, fid, &vec![7; clio_namespace::MAX_LAYOUT_BYTES]).unwrap();
    names.set_xattr(&CTX, fid, b"user.big", &vec![8; clio_namespace::MAX_XATTRS_BYTES - 100], XattrMode::Set).unwrap();
    assert_eq!(names.getattr(fid).unwrap().layout.len(), clio_namespace::MAX_LAYOUT_BYTES);
    let layout = vec![9; clio_namespace::MAX_LAYOUT_BYTES];
    assert_eq!(names.replace_layout(&CTX, fid, &vec![7; clio_namespace::MAX_LAYOUT_BYTES], &layout).unwrap(), layout);
}
