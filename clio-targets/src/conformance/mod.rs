//! The suite that every storage target passes.
//!
//! A target's tests name a function that makes a fresh one, and get one test for each case:
//!
//! ```text
//! fn fixture() -> clio_targets::conformance::Fixture { … }
//! clio_targets::conformance_tests!(fixture);
//! ```
//!
//! Cases panic on what does not conform. Nothing depends on time; a request that is never answered fails after a
//! minute.

mod buffer;
mod client;
pub mod data;
pub mod grants;
pub mod locks;
mod reboot;
pub mod sessions;

pub use buffer::Buffer;
pub use client::{Ast, Client, Pending, pattern};
pub use reboot::pretend_reboot;

use crate::GrantStats;
use clio_core::target::Target;
use std::any::Any;
use std::sync::Arc;

/// A fresh, empty target, and what has to stay while it is used.
pub struct Fixture {
    /// The target.
    pub target: Arc<dyn Target>,
    /// What the target believes about grants, if it can be asked.
    pub grants: Option<Box<dyn Fn() -> GrantStats>>,
    /// Dropped after the target: a temporary folder, for example.
    pub keep: Box<dyn Any>,
}

impl Fixture {
    /// A client with the target.
    pub fn client(&self) -> Client {
        Client::connect(self.target.clone())
    }
}

/// One `#[test]` for each case, on what `$fixture()` makes.
#[macro_export]
macro_rules! conformance_tests {
    ($fixture:ident) => {
        $crate::conformance_tests!(@ $fixture, data:
            create_and_destroy, missing_objects_read_as_empty, sparse_objects_read_as_zeros, vectored_round_trip,
            partial_blocks_keep_their_neighbours, punch_frees_the_middle, truncate_down_and_up,
            attributes_by_mask, mtime_is_never_lowered, seek_finds_data_and_holes, statfs_counts,
            checksum_of_a_request_is_checked, checksum_of_a_reply_fits, largest_offsets, bad_requests_are_refused,
            synchronous_writes);
        $crate::conformance_tests!(@ $fixture, locks:
            a_conflict_is_called_back_and_granted_after, try_locks_dont_wait, glimpses_ask_the_writer,
            glimpses_without_answer_tell_what_is_stored, attributes_come_with_the_lock,
            a_write_needs_its_lock, a_punch_needs_its_lock, lockless_writes_wait_for_locks, lockless_reads_wait_for_locks,
            reads_under_a_lock_dont_wait, reads_under_two_locks_dont_wait, cancels_are_idempotent, handles_grow, readers_share, groups_share,
            callbacks_may_submit);
        $crate::conformance_tests!(@ $fixture, grants:
            grants_are_conserved, returned_grant_is_gone, more_than_was_given_is_refused,
            a_failed_write_uses_none);
        $crate::conformance_tests!(@ $fixture, sessions:
            strangers_are_refused, disconnect_frees_locks, disconnect_answers_those_who_wait,
            each_request_is_answered_once);
    };
    (@ $fixture:ident, $module:ident: $($case:ident),* $(,)?) => {
        mod $module {
            $(
                #[test]
                fn $case() {
                    $crate::conformance::$module::$case(&super::$fixture());
                }
            )*
        }
    };
}
