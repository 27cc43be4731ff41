//! Pages that go between the end of their transfer and the reader's copy (LU-14541, LU-16160, LU-16935): not valid, but no
//! error either. The read fetches them again, and ends.

use super::{Setup, Stack, read};
use std::io::IoSliceMut;
use std::sync::atomic::Ordering::Relaxed;

/// Folios of sixteen blocks, of which a fetch leaves one: so often does a read come too late for the others.
const TIMES: u64 = 15;

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n / 7 % 251) as u8 + 1).collect()
}

/// A stack whose reads lose pages.
fn stack(content: &[u8]) -> Stack {
    let stack = Stack::new(Setup { read_ahead_bytes: 0, ..Setup::default() });
    stack.store.set_content(content);
    stack.store.delayed.store(true, Relaxed);
    stack.store.take_away.store(true, Relaxed);
    stack
}

#[test]
fn a_read_whose_page_goes_again_and_again_ends() {
    let want = content((64 << 10) - 10);
    let stack = stack(&want);
    assert!(read(&stack.file(), 0, 64 << 10) == want, "right data, up to the end");
    assert_eq!(stack.store.taken_away.load(Relaxed), TIMES);
}

#[test]
fn a_read_into_several_buffers_whose_pages_go_again_and_again_ends() {
    let want = content(4 * (64 << 10));
    let stack = stack(&want);
    let mut got = vec![0xA5; want.len()];
    let (a, b) = got.split_at_mut(70_001);
    let n = stack.file().read_vectored_at(&mut [IoSliceMut::new(a), IoSliceMut::new(b)], 0).expect("no error");
    assert!(n == want.len() && got == want);
    assert_eq!(stack.store.taken_away.load(Relaxed), 4 * TIMES);
}

/// The error of a transfer is one; pages that went are none.
#[test]
fn a_read_that_does_fail_says_so_at_once() {
    let stack = stack(&content(50_000));
    stack.store.fail_reads.store(true, Relaxed);
    let mut got = [0; 50_000];
    assert!(stack.file().read_at(&mut got, 0).is_err());
    assert!(stack.store.reads.load(Relaxed) <= 2, "it isn't tried for long");
    stack.store.fail_reads.store(false, Relaxed);
    assert!(read(&stack.file(), 0, 50_000) == content(50_000), "and leaves nothing valid");
}
