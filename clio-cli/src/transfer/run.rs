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
