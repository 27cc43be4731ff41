//! Carrying out a plan.

use super::copy::{Buffer, copy_file};
use super::place::{Info, Kind, Place};
use super::plan::{Item, Plan, check_name};
use super::progress::Progress;
use crate::app::Failures;
use clio::{Errno, Error, Result};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Files copied at a time: while one waits to become durable, others move.
const WORKERS: usize = 4;

/// Copies all that is planned. Failures are reported, each with its source, and the rest goes on.
pub(crate) fn run(plan: &Plan, from: &dyn Place, to: &dyn Place, failures: &Failures) {
    let progress = Progress::new(plan.bytes);
    let fail = |path: &Path, e: &Error| progress.suspend(|| failures.add(path, e));
    for dir in &plan.dirs {
        if let Err(e) = to.make_dir(&dir.to).map_err(|e| e.at(dir.to.display().to_string())) {
            fail(&dir.from, &e);
        }
    }
    copy_files(plan, from, to, &progress, &fail);
    for link in &plan.links {
        if let Err(e) = from.read_link(&link.from).and_then(|target| to.make_link(&target, &link.to)) {
            fail(&link.from, &e);
        }
    }
    // Last, and the innermost first: a folder's time changes with what is put into it, and it may be read-only.
    for dir in plan.dirs.iter().rev() {
        // One that couldn't be made has been reported.
        if to.info(&dir.to, true).is_ok_and(|i| i.kind == Kind::Dir)
            && let Err(e) = to.set_info(&dir.to, &dir.info)
        {
            fail(&dir.from, &e);
        }
    }
    if let Err(e) = to.sync() {
        fail(Path::new("sync"), &e);
    }
}

fn copy_files(
    plan: &Plan,
    from: &dyn Place,
    to: &dyn Place,
    progress: &Progress,
    fail: &(dyn Fn(&Path, &Error) + Sync),
) {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut buffer = Buffer::new();
        while let Some(item) = plan.files.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(e) = copy_one(item, from, to, &mut buffer, progress) {
                fail(&item.from, &e);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..WORKERS.min(plan.files.len()) {
            scope.spawn(work);
        }
        work();
    });
}

fn copy_one(item: &Item, from: &dyn Place, to: &dyn Place, buffer: &mut Buffer, progress: &Progress) -> Result<()> {
    // Failures are told by their source; those of the destination name it besides.
    let there = |e: Error| e.at(item.to.display().to_string());
    check_name(&item.to).and_then(|()| refuse_folder(to, &item.to)).map_err(there)?;
    // The source first: where it can't be read, nothing is cut to nothing.
    let source = from.open(&item.from)?;
    let sink = to.create(&item.to, item.info.mode).map_err(there)?;
    copy_file(source.as_ref(), sink, buffer, progress)?;
    to.set_info(&item.to, &item.info).map_err(there)
}

/// That a file isn't to take the place of a folder.
fn refuse_folder(to: &dyn Place, path: &Path) -> Result<()> {
    match to.info(path, true) {
        Ok(Info { kind: Kind::Dir, .. }) => {
            Err(Error::new(Errno::EISDIR, "copy", "a folder is in its place; move it away"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::{Sink, Source};
    use super::super::{Local, Stored};
    use super::*;
    use clio::Client;
    use std::ffi::OsString;
    use std::fs;
    use std::ops::Range;
    use std::path::PathBuf;

    const BYTES: usize = 6 << 20;
    /// What can be read of a broken file: no whole number of what is copied at a time.
    const GOOD: usize = (4 << 20) + 1234;

    /// The local files, of which those named `broken` fail in the middle.
    struct Failing;

    struct FailingSource(Box<dyn Source>);

    impl Source for FailingSource {
        fn size(&self) -> Result<u64> {
            self.0.size()
        }
        fn data_after(&self, offset: u64) -> Result<Option<Range<u64>>> {
            self.0.data_after(offset)
        }
        fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
            match GOOD.saturating_sub(offset as usize) {
                0 => Err(Error::new(Errno::EIO, "read", "a bad sector")),
                left => {
                    let n = left.min(buf.len());
                    self.0.read_at(&mut buf[..n], offset)
                }
            }
        }
    }

    impl Place for Failing {
        fn info(&self, path: &Path, follow: bool) -> Result<Info> {
            Local.info(path, follow)
        }
        fn list(&self, path: &Path) -> Result<Vec<OsString>> {
            Local.list(path)
        }
        fn read_link(&self, path: &Path) -> Result<PathBuf> {
            Local.read_link(path)
        }
        fn make_dir(&self, path: &Path) -> Result<()> {
            Local.make_dir(path)
        }
        fn make_link(&self, target: &Path, path: &Path) -> Result<()> {
            Local.make_link(target, path)
        }
        fn open(&self, path: &Path) -> Result<Box<dyn Source>> {
            let source = Local.open(path)?;
            Ok(if path.ends_with("broken") { Box::new(FailingSource(source)) } else { source })
        }
        fn create(&self, path: &Path, mode: u32) -> Result<Box<dyn Sink>> {
            Local.create(path, mode)
        }
        fn set_info(&self, path: &Path, info: &Info) -> Result<()> {
            Local.set_info(path, info)
        }
        fn sync(&self) -> Result<()> {
            Local.sync()
        }
    }

    fn content(client: &Client, path: &str) -> Vec<u8> {
        let file = client.open_file(path).unwrap();
        let mut all = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut all, 0).unwrap();
        all
    }

    /// A store with `/tree` as it was, and the local tree as it is now, which is planned to be copied over it.
    fn planned(names: &[&str], failures: &Failures) -> (tempfile::TempDir, Stored, Plan) {
        let local = tempfile::tempdir().unwrap();
        let store = Stored(Client::open("mem:?targets=2").unwrap());
        store.0.mkdir("/tree").unwrap();
        for (n, name) in names.iter().enumerate() {
            store.0.create(format!("/tree/{name}")).unwrap().write_all_at(b"as it was", 0).unwrap();
            fs::write(local.path().join(name), vec![n as u8 + 1; BYTES]).unwrap();
        }
        let mut plan = Plan::default();
        plan.add(&Local, local.path(), Path::new("/tree"), true, failures);
        (local, store, plan)
    }

    #[test]
    fn a_source_that_vanishes_after_it_was_planned_leaves_what_was_there() {
        let failures = Failures::new("put");
        let (local, store, plan) = planned(&["a", "gone", "now-a-folder", "z"], &failures);
        fs::write(local.path().join("late"), "not planned").unwrap();
        fs::remove_file(local.path().join("gone")).unwrap();
        fs::remove_file(local.path().join("now-a-folder")).unwrap();
        fs::create_dir(local.path().join("now-a-folder")).unwrap();
        assert!(!failures.are_any());
        run(&plan, &Local, &store, &failures);
        assert!(failures.are_any());
        assert!(content(&store.0, "/tree/a") == vec![1; BYTES] && content(&store.0, "/tree/z") == vec![4; BYTES]);
        assert_eq!(content(&store.0, "/tree/gone"), b"as it was");
        assert_eq!(content(&store.0, "/tree/now-a-folder"), b"as it was");
        assert!(!store.0.exists("/tree/late"));
    }

    /// What was read of it is there, and nothing else: neither zeros nor a rest of what was there before.
    #[test]
    fn a_source_that_fails_in_the_middle_leaves_what_was_read() {
        let failures = Failures::new("put");
        let (_local, store, plan) = planned(&["a", "broken", "z"], &failures);
        run(&plan, &Failing, &store, &failures);
        assert!(failures.are_any());
        assert!(content(&store.0, "/tree/broken") == vec![2; GOOD]);
        assert!(content(&store.0, "/tree/a") == vec![1; BYTES] && content(&store.0, "/tree/z") == vec![3; BYTES]);
        store.0.check_invariants().unwrap();
    }
}
