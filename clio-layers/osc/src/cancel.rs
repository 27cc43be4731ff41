//! What comes with a lock and goes with it: knowledge of the object, and the right to cache.

use crate::device::OscDevice;
use crate::engine::forget;
use crate::rpc::evicted;
use crate::state::ObjectKey;
use crate::stats::bump;
use clio_core::attr::{AttrMask, Lvb};
use clio_core::env::Env;
use clio_core::lock::LockDescr;
use clio_core::object::Object;
use clio_core::target::DlmHandle;
use clio_core::units::Extent;
use std::sync::Arc;

/// Takes over what a grant or a glimpse tells of an object. `known_to` is the end of what a lock protects: below it,
/// the size is a known minimum.
pub(crate) fn learn(object: &Object, lvb: &Lvb, known_to: u64) {
    let attrs = object.attrs();
    attrs.raise(lvb.size.min(known_to), lvb.mtime);
    attrs.update_size(lvb.size);
    object.attr_modify(AttrMask::BLOCKS | AttrMask::ATIME, |a| {
        a.blocks = lvb.blocks;
        a.atime = a.atime.max(lvb.atime);
    });
}

impl OscDevice {
    pub(crate) fn receive_grant(&self, bytes: u64) {
        if bytes > 0 {
            self.books.receive_grant(bytes);
        }
    }

    /// Gives a lock back under which nothing is cached.
    pub(crate) fn release(&self, handle: DlmHandle) {
        self.locks.remove(handle);
        self.give_back(handle);
    }

    pub(crate) fn give_back(&self, handle: DlmHandle) {
        bump(&self.counters.locks_cancelled);
        self.send_cancel(handle, 1);
    }

    /// Undoes what a lock protects, in this order: writes out, drops pages that no other lock covers, cuts the pointer
    /// from the handle, and with it KMS. Blocks.
    pub(crate) fn end_protection(
        self: &Arc<Self>,
        env: &Env,
        key: ObjectKey,
        object: &Arc<Object>,
        handle: DlmHandle,
        descr: &LockDescr,
    ) {
        let extent = descr.extent;
        if descr.mode.can_write() {
            self.flush(env, key, extent, true);
        }
        // Reads under the lock that wait for a slot hold up the lock's end.
        let heated = self.lock_state().heat(key, extent);
        if heated {
            self.pump(env);
        }
        let others = self.locks.begin_end(key, handle, extent);
        self.invalidate(env, object, extent, &others);
        self.locks.remove(handle);
        object.attr_modify(AttrMask::empty(), |_| {});
    }

    /// The lock `handle` was lost: drops what is cached under it and under no other, dirty or not. Blocks.
    pub(crate) fn void_protection(
        self: &Arc<Self>,
        env: &Env,
        key: ObjectKey,
        object: &Arc<Object>,
        handle: DlmHandle,
    ) {
        let Some(extent) = self.locks.extent(handle) else { return };
        let dropped = {
            let mut state = self.lock_state();
            let dropped = state.drop_under(key, Some(handle));
            self.wake(&state);
            dropped
        };
        if forget(env, &dropped) {
            object.latch_error(&evicted().on(object.fid()));
        }
        let others = self.locks.begin_end(key, handle, extent);
        self.invalidate(env, object, extent, &others);
    }

    /// Drops what is cached of `extent`, except what lies in one of `keep`. Waits for transfers and owners.
    pub(crate) fn invalidate(&self, env: &Env, object: &Arc<Object>, extent: Extent, keep: &[Extent]) {
        let folio = object.folio_size();
        let (mut next, end) = (extent.start / folio, extent.end.div_ceil(folio));
        loop {
            let pages = object.pages().range(next..end, 64);
            let Some(last) = pages.last() else { return };
            next = last.index().0 + 1;
            for page in pages {
                let blocks = keep.iter().fold(page.blocks_of(extent), |b, k| b.minus(page.blocks_of(*k)));
                if !blocks.is_empty() {
                    page.discard(env, blocks);
                    page.delete_if_unused(env);
                }
            }
        }
    }
}
