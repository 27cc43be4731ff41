//! Layouts: changed by one client, used by another.

use crate::at_once;
use clio::{Client, Errno, Layout};
use clio_tests::{clients, content, narrow, pattern, read_write};

/// Nothing beyond 128 KiB and 1 MiB has stripes until it is written.
fn three_parts() -> Layout {
    let first = Layout::composite().until(128 << 10).stripe_count(1).stripe_size(64 << 10);
    let second = first.until(1 << 20).stripe_count(2).stripe_size(64 << 10);
    second.to_eof().stripe_count(3).stripe_size(128 << 10)
}

fn stripes(client: &Client) -> usize {
    client.layout("/f").expect("layout").1.stripes().count()
}

#[test]
fn more_stripes_than_targets_need_overstriping() {
    let [a] = clients(2);
    let e = a.open_with("/f", read_write().layout(narrow(4))).expect_err("too many");
    assert_eq!(e.errno(), Errno::EINVAL);
    assert!(e.to_string().contains("overstriping"), "{e}");
    let layout = Layout::raid0().overstripe_count(5).stripe_size(64 << 10);
    let file = a.open_with("/g", read_write().layout(layout)).expect("open");
    let data = pattern(3, 0, 1_000_000);
    file.write_all_at(&data, 0).expect("write");
    a.drop_caches().expect("drop");
    assert_eq!(content(&a, "/g"), data);
}

#[test]
fn many_stripes() {
    let [a, b] = clients(3);
    let layout = Layout::raid0().overstripe_count(300).stripe_size(64 << 10);
    let file = a.open_with("/f", read_write().layout(layout)).expect("open");
    let data = pattern(4, 0, 25 << 20);
    file.write_all_at(&data, 0).expect("write");
    assert_eq!(content(&b, "/f"), data);
}

#[test]
fn composite_files_grow_through_their_components() {
    let [a, b] = clients(3);
    let layout = Layout::composite()
        .until(256 << 10)
        .stripe_count(1)
        .stripe_size(64 << 10)
        .to_eof()
        .stripe_count(3)
        .stripe_size(128 << 10);
    let file = a.open_with("/f", read_write().layout(layout)).expect("open");
    let watch = b.open_file("/f").expect("open");
    let made = |c: &Client| c.layout("/f").expect("layout").1.stripes().count();
    file.write_all_at(&pattern(5, 0, 1000), 0).expect("write");
    assert_eq!(made(&a), 1, "only the first component has stripes");
    let mut buf = [9; 10];
    assert_eq!(watch.read_at(&mut buf, 300 << 10).expect("read"), 0, "short at a missing component");
    let data = pattern(5, 0, 1_000_000);
    file.write_all_at(&data, 0).expect("write");
    assert_eq!(made(&b), 4);
    watch.read_exact_at(&mut buf, 300 << 10).expect("the other client learns of it");
    assert_eq!(content(&b, "/f"), data);
    a.drop_caches().expect("drop");
    assert_eq!(content(&a, "/f"), data);
}

#[test]
fn a_component_that_was_made_there_is_written_here() {
    let [a, b] = clients(3);
    let file = a.open_with("/f", read_write().layout(three_parts())).expect("open");
    let other = b.open_with("/f", read_write()).expect("open");
    let mut want = pattern(1, 0, 2_000_000);
    want[1000..].fill(0);
    file.write_all_at(&want[..1000], 0).expect("write");
    assert_eq!((stripes(&a), stripes(&b)), (1, 1));
    // The other client makes the third, skipping the second.
    other.write_all_at(&pattern(2, 0, 500_000), 1_500_000).expect("write");
    want[1_500_000..].copy_from_slice(&pattern(2, 0, 500_000));
    assert_eq!((stripes(&a), stripes(&b)), (4, 4));
    // This one learns of it by writing there, over what is dirty at the other.
    file.write_all_at(&[7; 1000], 1_700_000).expect("write");
    want[1_700_000..1_701_000].fill(7);
    assert_eq!(stripes(&a), 4, "no second set of stripes is made");
    file.write_all_at(&[8; 400_000], 700_000).expect("write");
    want[700_000..1_100_000].fill(8);
    assert_eq!((stripes(&a), stripes(&b)), (6, 6));
    assert_eq!(content(&b, "/f"), want);
    a.drop_caches().expect("drop");
    assert_eq!(content(&a, "/f"), want);
}

#[test]
fn a_size_is_right_after_the_layout_changed_there() {
    let [a, b] = clients(3);
    let file = a.open_with("/f", read_write().layout(three_parts())).expect("open");
    let other = b.open_with("/f", read_write()).expect("open");
    file.write_all_at(&[1; 10], 0).expect("write");
    assert_eq!(other.metadata().expect("stat").len(), 10);
    for (n, at) in [200_000, 2_000_000].into_iter().enumerate() {
        // Alternately, so that the one who asks is not the one who made the component.
        let (writer, watcher) = if n == 0 { (&file, &other) } else { (&other, &file) };
        writer.write_all_at(&[2; 5], at).expect("write");
        assert_eq!(watcher.metadata().expect("stat").len(), at + 5, "dirty data in a component made there");
        assert_eq!(watcher.seek_data(at - at % 65_536).expect("data") / 65_536, at / 65_536);
    }
    file.set_len(150_000).expect("truncate");
    assert_eq!(other.metadata().expect("stat").len(), 150_000);
}

#[test]
fn both_make_one_component_at_once() {
    for n in 0..40u64 {
        let [a, b] = clients(3);
        let fa = a.open_with("/f", read_write().layout(three_parts())).expect("open");
        let fb = b.open_with("/f", read_write()).expect("open");
        let (da, db) = (pattern(n, 0, 150_000), pattern(n + 1, 0, 150_000));
        at_once(|| fa.write_all_at(&da, 300_000).expect("write"), || fb.write_all_at(&db, 450_000).expect("write"));
        assert_eq!((stripes(&a), stripes(&b)), (2, 2), "round {n}: one set of stripes");
        let want = [vec![0; 300_000], da, db].concat();
        assert_eq!(content(&a, "/f"), want, "round {n}");
        assert_eq!(content(&b, "/f"), want, "round {n}");
        drop((fa, fb));
        assert!(a.check(false).expect("check").is_clean(), "round {n}");
    }
}

#[test]
fn a_layout_set_here_is_used_there() {
    let [a, b] = clients(3);
    a.set_layout("/f", &narrow(2)).expect("setstripe");
    let file = b.open_with("/f", read_write().layout(narrow(3))).expect("open");
    file.write_all_at(&pattern(6, 0, 300_000), 0).expect("write");
    assert_eq!(b.layout("/f").expect("layout"), a.layout("/f").expect("layout"));
    assert_eq!(stripes(&b), 2, "the file had its layout already");
    assert_eq!(b.stats().objects, 1 + 2);
    assert_eq!(content(&a, "/f"), pattern(6, 0, 300_000));
    assert_eq!(a.set_layout("/f", &narrow(3)).expect_err("too late").errno(), Errno::EEXIST);
    // A directory's layout is for what is made in it from now on, whoever makes it.
    a.mkdir("/d").expect("mkdir");
    a.set_layout("/d", &narrow(3)).expect("setstripe");
    b.create("/d/g").expect("create").write_all_at(&[1; 10], 0).expect("write");
    assert_eq!(a.layout("/d/g").expect("layout").1.stripes().count(), 3);
}
