//! A forked child and what it has of its parent's.
#![expect(unsafe_code, reason = "fork")]

use clio::{Client, Layout, OpenOptions};
use std::io::{Read, Seek, SeekFrom};

/// Runs `body` in a forked child; its exit status.
fn in_child(body: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child runs `body` only, and leaves without what is done at exit. The C library's allocator is
    // usable in a child.
    unsafe {
        let pid = libc::fork();
        assert!(pid >= 0, "fork");
        if pid == 0 {
            libc::_exit(if body() { 0 } else { 1 });
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(pid, &raw mut status, 0), pid);
        status
    }
}

fn is_refused<T>(result: clio::Result<T>) -> bool {
    result.is_err_and(|e| e.errno() == clio::Errno::ESTALE)
}

#[test]
fn a_child_is_refused_and_takes_nothing_down() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::open(&format!("dir:{}", folder.path().join("store").display())).unwrap();
    let options = OpenOptions::new().read(true).write(true).create(true);
    let file = client.open_with("/f", options).unwrap();
    file.write_all_at(b"before", 0).unwrap();
    let (childs, childs_file) = (client.clone(), file.clone());
    let status = in_child(|| {
        let mut buf = [0; 6];
        let refused = is_refused(childs_file.read_at(&mut buf, 0))
            && is_refused(childs_file.write_at(b"child", 0))
            && is_refused(childs_file.sync_all())
            && is_refused(childs_file.metadata())
            && is_refused(childs.mkdir("/d"))
            && is_refused(childs.sync())
            && is_refused(childs.second_client())
            && (&childs_file).seek(SeekFrom::Start(0)).is_err()
            && !childs.exists("/f")
            && is_refused(childs.drop_caches())
            && is_refused(childs.check(false))
            && is_refused(childs.check_invariants())
            && is_refused(childs.open_file("/f"))
            && is_refused(childs.set_layout("/new", &Layout::raid0()))
            && is_refused(childs_file.seek_data(0))
            && is_refused(childs_file.flush_data())
            && is_refused(childs_file.lazyio_synchronize(0, 0))
            && childs.space() == (0, 0)
            && childs.lock_counts().is_none()
            && childs.stats().targets.is_empty()
            && format!("{childs:?}{childs_file:?}{:?}", childs.config()).contains("fid");
        drop((childs_file, childs, file.clone(), client.clone()));
        // The last ones: nothing is closed for the parent.
        // SAFETY: never used again in this process, which leaves at once.
        unsafe { drop((std::ptr::read(&raw const file), std::ptr::read(&raw const client))) };
        refused
    });
    assert_eq!(status, 0);
    let mut text = String::new();
    (&file).read_to_string(&mut text).unwrap();
    assert_eq!(text, "before");
    file.write_all_at(b"after", 0).unwrap();
    file.close().unwrap();
    client.mkdir("/d").unwrap();
}
