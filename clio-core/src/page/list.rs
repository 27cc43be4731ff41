//! Lists of pages for transfer.

use super::{Page, SyncIo};
use crate::units::BlockSet;
use smallvec::SmallVec;
use std::sync::Arc;

/// A page and the blocks of it that are meant.
#[derive(Clone, Debug)]
pub struct PageSpan {
    /// The page.
    pub page: Arc<Page>,
    /// Which of its blocks.
    pub blocks: BlockSet,
}

/// Pages of one object, in ascending order of index.
#[derive(Clone, Debug, Default)]
#[doc(alias = "cl_page_list")]
pub struct PageList(SmallVec<[PageSpan; 4]>);

impl PageList {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends.
    pub fn push(&mut self, page: Arc<Page>, blocks: BlockSet) {
        self.0.push(PageSpan { page, blocks });
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of pages.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.0.iter().map(|s| s.blocks.count()).sum()
    }

    /// The spans.
    pub fn iter(&self) -> std::slice::Iter<'_, PageSpan> {
        self.0.iter()
    }

    /// Takes all out.
    pub fn drain(&mut self) -> impl Iterator<Item = PageSpan> {
        std::mem::take(&mut self.0).into_iter()
    }

    /// Takes out what `keep` says no to.
    pub fn retain(&mut self, keep: impl FnMut(&mut PageSpan) -> bool) {
        self.0.retain(keep);
    }
}

impl FromIterator<PageSpan> for PageList {
    fn from_iter<I: IntoIterator<Item = PageSpan>>(iter: I) -> Self {
        Self(iter.into_iter().collect())
    }
}

/// The two queues of an immediate transfer: what is to be submitted, and what was; and who waits for it.
#[derive(Debug, Default)]
#[doc(alias = "cl_2queue")]
pub struct PageQueues {
    /// To submit; what needs no transfer or could not be submitted stays here.
    pub qin: PageList,
    /// Submitted: completion will come for these.
    pub qout: PageList,
    /// Told of each block that was submitted, when its transfer completes. To be set before the submission: a transfer
    /// may complete, and fail, before the call returns, so that [`Page::notify`] after it can come too late to hear
    /// of an error. A layer that splits passes it on.
    pub sync: Option<Arc<SyncIo>>,
}
