//! Transfers of cached pages: top-pages come in, sub-pages go to the sub-IOs of their stripes.

use crate::io::LovIo;
use crate::layout::{Location, StripeRef};
use crate::scope::Share;
use crate::sub_io::SubIo;
use clio_core::env::Env;
use clio_core::io::{IoCommon, IoCx, IoKind};
use clio_core::page::{Page, PageList, PageQueues, PageSpan, Rw, SyncIo};
use clio_core::target::Bulk;
use clio_core::units::Extent;
use clio_core::{Errno, Error, Result};
use smallvec::SmallVec;
use std::sync::Arc;

/// Sub-pages of one stripe, with their top-pages' pointers kept by `tops` meanwhile.
#[derive(Default)]
struct Group {
    at: Option<StripeRef>,
    subs: PageList,
    tops: SmallVec<[PageSpan; 4]>,
    /// In bytes of the stripe's object.
    extent: Option<Extent>,
}

impl Group {
    fn push(&mut self, at: Option<StripeRef>, top: PageSpan) {
        self.at = at;
        if let Some(child) = top.page.child() {
            self.subs.push(child.clone(), top.blocks);
            self.extent = Some(self.extent.map_or(child.extent(), |e| e.hull(child.extent())));
        }
        self.tops.push(top);
    }

    /// The spans of top-pages for spans of sub-pages, which are a part of this group, in the same order.
    fn tops_of(&self, subs: &mut PageList, to: &mut Vec<PageSpan>) {
        let mut tops = self.tops.iter();
        for PageSpan { page, blocks } in subs.drain() {
            let is_its = |t: &&PageSpan| t.page.child().is_some_and(|c| Arc::ptr_eq(c, &page));
            // Normally the next one.
            let top = tops.find(is_its).or_else(|| self.tops.iter().find(is_its));
            to.extend(top.map(|t| PageSpan { page: t.page.clone(), blocks }));
        }
    }
}

/// Sorts spans by stripe. Pages in a hole have none.
fn group(pages: &mut PageList) -> SmallVec<[Group; 1]> {
    let mut groups = SmallVec::<[Group; 1]>::new();
    for span in pages.drain() {
        let at = span.page.child().and_then(|c| StripeRef::of(c.fid()));
        // Most often the one before.
        match groups.iter_mut().rev().find(|g| g.at == at) {
            Some(group) => group.push(at, span),
            None => {
                let mut group = Group::default();
                group.push(at, span);
                groups.push(group);
            }
        }
    }
    groups
}

/// What becomes of the pages of a submission.
#[derive(Default)]
struct Submission {
    sync: Option<Arc<SyncIo>>,
    /// Not submitted.
    rest: Vec<PageSpan>,
    submitted: Vec<PageSpan>,
}

/// Spans in order of their pages.
fn in_order(mut spans: Vec<PageSpan>) -> PageList {
    spans.sort_by_key(|s| s.page.index());
    spans.into_iter().collect()
}

impl LovIo {
    /// See [`clio_core::io::IoSlice::submit`].
    pub(crate) fn submit_pages(&mut self, cx: &mut IoCx<'_>, rw: Rw, queues: &mut PageQueues) -> Result<()> {
        let mut submission = Submission { sync: queues.sync.clone(), ..Submission::default() };
        let mut result = Ok(());
        for group in group(&mut queues.qin) {
            if result.is_err() {
                submission.rest.extend(group.tops);
                continue;
            }
            result = match group.at {
                Some(at) => self.submit_group(cx, rw, at, group, &mut submission),
                None => self.submit_hole(cx, rw, group.tops, &mut submission),
            };
        }
        queues.qin = in_order(submission.rest);
        in_order(submission.submitted).drain().for_each(|s| queues.qout.push(s.page, s.blocks));
        result
    }

    fn submit_group(
        &mut self,
        cx: &mut IoCx<'_>,
        rw: Rw,
        at: StripeRef,
        mut group: Group,
        submission: &mut Submission,
    ) -> Result<()> {
        let qin = std::mem::take(&mut group.subs);
        let mut queues = PageQueues { qin, qout: PageList::new(), sync: submission.sync.clone() };
        let result = self
            .sub_for_pages(cx.env, cx.io, at, &group)
            .and_then(|sub| sub.with(cx.env, |io, env| io.submit(env, rw, &mut queues)));
        group.tops_of(&mut queues.qin, &mut submission.rest);
        group.tops_of(&mut queues.qout, &mut submission.submitted);
        result
    }

    /// Pages in a component without targets read as zeros at once.
    fn submit_hole(
        &mut self,
        cx: &mut IoCx<'_>,
        rw: Rw,
        tops: SmallVec<[PageSpan; 4]>,
        submission: &mut Submission,
    ) -> Result<()> {
        let mut result = Ok(());
        for PageSpan { page, blocks } in tops {
            if result.is_ok() && rw == Rw::Read && !self.is_in_hole() {
                // A mere context, that nobody waits for: the page would stay, and no lock protects it.
                submission.rest.push(PageSpan { page, blocks });
                continue;
            }
            if result.is_ok() {
                result = self.check_hole(cx.io, rw, &page);
            }
            let moved = result.clone().and_then(|()| page.prep(cx.env, cx.io.id, rw, blocks));
            match moved {
                Ok(moved) if !moved.is_empty() => {
                    if let Some(sync) = &submission.sync {
                        page.notify(moved, sync);
                    }
                    let mut bulk = Bulk::new();
                    page.bulk(rw, moved, &mut bulk);
                    bulk.iter().for_each(|segment| segment.mem.zero());
                    page.completion(cx.env, rw, moved, &Ok(()));
                    submission.submitted.push(PageSpan { page, blocks: moved });
                }
                Ok(_) => submission.rest.push(PageSpan { page, blocks }),
                Err(e) => {
                    submission.rest.push(PageSpan { page, blocks });
                    result = Err(e);
                }
            }
        }
        result
    }

    /// Whether `page`, which has no sub-page, may be read as a hole.
    fn check_hole(&self, io: &mut IoCommon, rw: Rw, page: &Arc<Page>) -> Result<()> {
        let is_missing = matches!(self.striped().layout().locate(page.offset()), Location::Missing { .. });
        if rw == Rw::Read && is_missing {
            return Ok(());
        }
        io.need_restart = true;
        Err(Error::new(Errno::ESTALE, "io", "a hole of the file was filled, or written to; start again").on(page.fid()))
    }

    /// See [`clio_core::io::IoSlice::commit`].
    pub(crate) fn commit_pages(&mut self, cx: &mut IoCx<'_>, pages: &mut PageList) -> Result<()> {
        let mut rest = Vec::new();
        let mut result = Ok(());
        for mut group in group(pages) {
            let (Ok(()), Some(at)) = (&result, group.at) else {
                if let (Ok(()), Some(span)) = (&result, group.tops.first()) {
                    result = self.check_hole(cx.io, Rw::Write, &span.page);
                }
                rest.extend(group.tops);
                continue;
            };
            let mut subs = std::mem::take(&mut group.subs);
            result = self
                .sub_for_pages(cx.env, cx.io, at, &group)
                .and_then(|sub| sub.with(cx.env, |io, env| io.commit(env, &mut subs)));
            group.tops_of(&mut subs, &mut rest);
        }
        *pages = in_order(rest);
        result
    }

    /// The sub-IO for pages of a stripe, at work. Its iteration is what the IO's is in the stripe: exact to the byte,
    /// as an append knows only now. Pages beyond the iteration are read-ahead's.
    fn sub_for_pages(&mut self, env: &Env, io: &IoCommon, at: StripeRef, group: &Group) -> Result<&mut SubIo> {
        let pages = group.extent.unwrap_or(Extent::new(0, 0));
        let part = self.striped().layout().sub_extents(io.iteration).find(|s| s.at == at).map(|s| s.object);
        let extent = part.filter(|p| p.overlaps(pages)).unwrap_or(pages);
        let kind = match io.kind {
            // What is transferred on the way are mere pages.
            IoKind::Truncate { .. } | IoKind::Punch | IoKind::Fsync | IoKind::Seek { .. } => IoKind::Misc,
            kind => kind,
        };
        let moves_data = matches!(io.kind, IoKind::Read | IoKind::Write { .. } | IoKind::Fault { .. });
        let sub = self.sub_io(env, io, Share { at, kind, extent }, false)?;
        if moves_data {
            // The layers above come first in a start: they are at work now.
            sub.start(env)?;
            if part.is_some_and(|p| p.overlaps(pages)) {
                sub.common().iteration = extent;
            }
        }
        Ok(sub)
    }
}
