//! The use cases of the CLIO notes, one test each: sections 5.6 and 9.

use clio::{Client, Layout, LockDemand, OpenOptions};
use clio_tests::{clients, content, narrow, pattern, read_write};

/// 9.1: a file's object is made with its stripes, and both live in one table; they go together.
#[test]
fn inode_creation_makes_the_file_and_its_stripes() {
    let [client] = clients(3);
    assert_eq!(client.stats().objects, 0);
    let file = client.open_with("/f", read_write().layout(narrow(3))).expect("open");
    file.write_all_at(&pattern(1, 0, 300_000), 0).expect("write");
    assert_eq!(client.stats().objects, 1 + 3, "the file and three stripes");
    drop(file);
    assert_eq!(client.stats().objects, 1 + 3, "they stay cached when the file is closed");
    client.remove_file("/f").expect("remove");
    assert_eq!(client.stats().objects, 0, "they go with the file");
}

/// 9.2 i: a first read takes a lock on every stripe it meets, reads ahead, and later reads find what it read.
#[test]
fn first_read_reads_ahead() {
    const STEP: usize = 64 << 10;
    let [writer, reader] = clients(3);
    let data = pattern(2, 0, 8 << 20);
    let layout = Layout::raid0().stripe_count(3).stripe_size(1 << 20);
    let file = writer.open_with("/f", read_write().layout(layout)).expect("open");
    file.write_all_at(&data, 0).expect("write");
    file.flush_data().expect("flush");
    let file = reader.open_file("/f").expect("open");
    let locks = || reader.stats().targets.iter().map(|t| (t.locks_enqueued, t.locks_cached)).collect::<Vec<_>>();
    assert_eq!(locks(), [(0, 0); 3]);
    // Into the third stripe.
    let mut first = vec![0; (2 << 20) + STEP];
    file.read_exact_at(&mut first, 0).expect("read");
    assert!(first == data[..first.len()]);
    assert_eq!(locks(), [(1, 1); 3], "a lock on each stripe");
    let mut buf = [0; STEP];
    for at in (first.len()..6 << 20).step_by(STEP) {
        file.read_exact_at(&mut buf, at as u64).expect("read");
        assert!(buf == data[at..][..STEP], "at {at}");
    }
    assert_eq!(locks(), [(1, 1); 3], "which serves all reads");
    let stats = reader.stats();
    let ahead = &stats.cache;
    assert!(ahead.readahead_issued_bytes > 2 << 20, "{stats}");
    assert!(ahead.readahead_hit_bytes + ahead.readahead_wasted_bytes <= ahead.readahead_issued_bytes, "{stats}");
    let rpcs: u64 = stats.targets.iter().flat_map(|t| &t.read_rpc_pages).map(|(_, n)| n).sum();
    assert!(rpcs < 32, "fewer transfers than reads: {stats}");
    let read: u64 = stats.targets.iter().map(|t| t.read_bytes).sum();
    assert!(read <= 8 << 20, "never beyond the end of file: {stats}");
}

/// 9.2 ii: a first write takes a lock, stages its pages, and goes out later in few transfers.
#[test]
fn first_write_is_staged() {
    let [client] = clients(1);
    let file = client.create("/f").expect("create");
    for n in 0..256u64 {
        file.write_all_at(&pattern(3, n * 4096, 4096), n * 4096).expect("write");
    }
    let before = client.stats();
    assert_eq!(before.targets[0].written_bytes, 0, "nothing has gone out yet: {before}");
    assert!(before.targets[0].dirty_bytes >= 1 << 20);
    file.flush_data().expect("flush");
    let after = client.stats();
    let rpcs: u64 = after.targets[0].write_rpc_pages.iter().map(|(_, n)| n).sum();
    assert_eq!(after.targets[0].written_bytes, 1 << 20);
    assert!(rpcs <= 2, "small writes are not sent one by one: {after}");
}

/// 9.3: cached IO finds its lock cached, whatever the extent: the first grant was as large as nobody minded.
#[test]
fn cached_io_enqueues_no_lock() {
    let [client] = clients(1);
    let file = client.create("/f").expect("create");
    file.write_all_at(&pattern(4, 0, 100_000), 0).expect("write");
    let before = client.stats().targets[0].locks_enqueued;
    let mut buf = [0; 1000];
    for n in 0..200u64 {
        file.write_all_at(&[n as u8; 100], (n * 7_919) % 2_000_000).expect("write");
        file.read_at(&mut buf, (n * 104_729) % 2_000_000).expect("read");
    }
    let after = client.stats().targets[0].locks_enqueued;
    assert_eq!(after, before, "one large lock serves all");
}

/// 9.4: an IO that demands no locks bypasses the cache, and still sees and shows what is stored.
#[test]
fn lockless_io_caches_nothing() {
    let [locking, lockless] = clients(2);
    let file = locking.open_with("/f", read_write().layout(narrow(2))).expect("open");
    file.write_all_at(&pattern(5, 0, 200_000), 0).expect("write");
    let bare = lockless.open_with("/f", read_write().lock_demand(LockDemand::Never)).expect("open");
    let mut got = vec![0; 200_000];
    assert_eq!(bare.read_at(&mut got, 0).expect("read"), 200_000, "the holder's dirty data is written out first");
    assert_eq!(got, pattern(5, 0, 200_000));
    bare.write_all_at(&[9; 70_000], 30_000).expect("write");
    let stats = lockless.stats();
    assert_eq!(stats.targets.iter().map(|t| t.locks_cached).sum::<u64>(), 0, "{stats}");
    assert_eq!(stats.cache.used_bytes, 0, "{stats}");
    let mut want = pattern(5, 0, 200_000);
    want[30_000..100_000].fill(9);
    assert_eq!(content(&locking, "/f"), want);
}

/// 9.4: append and truncate take locks even where none are demanded.
#[test]
fn append_and_truncate_are_mandatory() {
    let [client] = clients(1);
    client.create("/f").expect("create").write_all_at(&[1; 10_000], 0).expect("write");
    client.drop_caches().expect("drop");
    let before = client.stats().targets[0].locks_enqueued;
    let options = OpenOptions::new().append(true).lock_demand(LockDemand::Never);
    client.open_with("/f", options).expect("open").append(&[2; 10]).expect("append");
    assert!(client.stats().targets[0].locks_enqueued > before, "the append took a lock");
    let mut want = vec![1; 10_000];
    want.extend([2; 10]);
    assert_eq!(content(&client, "/f"), want);
    client.drop_caches().expect("drop");
    let before = client.stats().targets[0].locks_enqueued;
    let options = OpenOptions::new().write(true).lock_demand(LockDemand::Never);
    client.open_with("/f", options).expect("open").set_len(5_000).expect("truncate");
    assert!(client.stats().targets[0].locks_enqueued > before, "the truncate took a lock");
    assert_eq!(content(&client, "/f"), want[..5_000]);
}

/// 5.6: one stripe's lock is wanted elsewhere. Its pages are written out and dropped; the other stripes' stay.
#[test]
fn lock_invalidation_concerns_one_stripe() {
    const UNIT: usize = 64 << 10;
    let [c0, c1] = clients(3);
    let data = pattern(6, 0, 6 * UNIT);
    let file = c0.open_with("/f", read_write().layout(narrow(3))).expect("open");
    file.write_all_at(&data, 0).expect("write");
    assert_eq!(c0.stats().targets.iter().map(|t| t.written_bytes).sum::<u64>(), 0, "all is still dirty");

    // Another client writes into stripe 1.
    let other = c1.open_with("/f", read_write()).expect("open");
    other.write_all_at(&[0xEE; 100], UNIT as u64 + 50).expect("write");

    let stats = c0.stats();
    let (_, layout) = c0.layout("/f").expect("layout");
    let on: Vec<usize> = layout.stripes().map(|(_, target)| target.0 as usize).collect();
    assert_eq!(stats.targets[on[1]].written_bytes, 2 * UNIT as u64, "stripe 1 was written out: {stats}");
    assert_eq!(stats.targets[on[0]].written_bytes, 0, "stripe 0 was left alone: {stats}");
    assert_eq!(stats.targets[on[2]].written_bytes, 0, "stripe 2 was left alone: {stats}");
    assert_eq!(stats.targets[on[1]].blocking_asts, 1, "{stats}");

    // What stays is still served from the cache, and what went is read again.
    let mut want = data;
    want[UNIT + 50..UNIT + 150].fill(0xEE);
    assert_eq!(content(&c0, "/f"), want);
    assert_eq!(content(&c1, "/f"), want);
}

/// 2.2, 3.4: size and times are merged over the stripes.
#[test]
fn attributes_are_merged() {
    let [c0, c1] = clients(3);
    let file = c0.open_with("/f", read_write().layout(narrow(3))).expect("open");
    file.write_all_at(b"x", 200_000).expect("write");
    assert_eq!(c0.metadata("/f").expect("stat").len(), 200_001);
    assert_eq!(c1.metadata("/f").expect("stat").len(), 200_001, "a glimpse asks the holder");
    assert_eq!(c0.stats().targets.iter().map(|t| t.blocking_asts).sum::<u64>(), 0, "and takes no lock away");
    file.write_all_at(b"y", 10).expect("write");
    assert_eq!(c1.metadata("/f").expect("stat").len(), 200_001);
    file.set_len(65_536 * 2 + 5).expect("truncate");
    assert_eq!(c1.metadata("/f").expect("stat").len(), 65_536 * 2 + 5);
    assert!(c1.metadata("/f").expect("stat").mtime_ns() > 0);
}

/// A store in memory is shared by name, and gone with its last client.
#[test]
fn named_memory_stores_are_shared() {
    let a = Client::open("mem:shared-use-case?targets=2").expect("open");
    let b = Client::open("mem:shared-use-case?targets=2").expect("open");
    a.create("/f").expect("create").write_all_at(b"hello", 0).expect("write");
    assert_eq!(content(&b, "/f"), b"hello");
    drop((a, b));
    let c = Client::open("mem:shared-use-case?targets=2").expect("open");
    assert!(!c.exists("/f"));
}
