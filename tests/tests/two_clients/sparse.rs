//! Holes, and offsets far out.

use clio::{Errno, File, Layout};
use clio_tests::{clients, content, narrow, read_write};

#[test]
fn largest_offsets() {
    let [a, b] = clients(2);
    let file = a.open_with("/f", read_write().layout(narrow(2))).expect("open");
    let max = i64::MAX as u64;
    assert_eq!(file.write_at(b"xy", max).expect_err("beyond").errno(), Errno::EFBIG);
    assert_eq!(file.set_len(max + 1).expect_err("no size").errno(), Errno::EINVAL);
    assert_eq!(file.write_at(b"xy", max + 1).expect_err("no offset").errno(), Errno::EINVAL);
    file.write_all_at(b"far", 1 << 40).expect("write");
    assert_eq!(b.metadata("/f").expect("stat").len(), (1 << 40) + 3);
    let mut got = [1; 6];
    assert_eq!(b.open_file("/f").expect("open").read_at(&mut got, (1 << 40) - 2).expect("read"), 5);
    assert_eq!(&got[..5], b"\0\0far");
}

#[test]
fn sparse_files_are_mapped() {
    let [a, b] = clients(2);
    let file = a.open_with("/f", read_write().layout(narrow(2))).expect("open");
    file.write_all_at(&[1; 4096], 1 << 20).expect("write");
    file.write_all_at(&[1; 4096], 3 << 20).expect("write");
    let watch = b.open_file("/f").expect("open");
    assert_eq!(watch.seek_data(0).expect("data"), 1 << 20);
    assert_eq!(watch.seek_hole(1 << 20).expect("hole"), (1 << 20) + 4096);
    assert_eq!(watch.seek_data((1 << 20) + 4096).expect("data"), 3 << 20);
    assert_eq!(watch.seek_hole(3 << 20).expect("the end is a hole"), (3 << 20) + 4096);
    assert_eq!(watch.seek_data(4 << 20).expect_err("beyond").errno(), Errno::ENXIO);
}

/// Every piece of data in the file, by SEEK_DATA and SEEK_HOLE.
fn map(file: &File) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        match file.seek_data(at) {
            Ok(start) => {
                let end = file.seek_hole(start).expect("a hole, if only at the end");
                assert!(start >= at && end > start);
                // Where two stripes or targets meet, one piece may be told as two.
                match found.last_mut() {
                    Some((_, last)) if *last == start => *last = end,
                    _ => found.push((start, end)),
                }
                at = end;
            }
            Err(e) if e.errno() == Errno::ENXIO => return found,
            Err(e) => panic!("{e}"),
        }
    }
}

fn check_map(layout: Layout) {
    let [a, b] = clients(3);
    let file = a.open_with("/f", read_write().layout(layout)).expect("open");
    let watch = b.open_file("/f").expect("open");
    let block = |n: u64| n * 4096;
    assert_eq!(map(&watch), []);
    file.write_all_at(&[1; 3 * 4096], block(10)).expect("write");
    file.write_all_at(&[2; 49 * 4096], block(100)).expect("write");
    let end = block(149);
    assert_eq!(map(&watch), [(block(10), block(13)), (block(100), end)], "dirty there");
    file.write_all_at(&[3; 4096], block(300)).expect("write");
    file.punch_hole(block(110), block(10)).expect("punch");
    let want = [(block(10), block(13)), (block(100), block(110)), (block(120), end), (block(300), block(301))];
    assert_eq!(map(&watch), want, "a hole punched there");
    file.sync_all().expect("sync");
    assert_eq!(map(&watch), want, "written out");
    file.set_len(block(125)).expect("cut");
    file.set_len(block(400)).expect("grow");
    let want = [(block(10), block(13)), (block(100), block(110)), (block(120), block(125))];
    assert_eq!(map(&watch), want, "cut and grown there");
    assert_eq!(map(&file), want);
    let mut all = vec![0; block(400) as usize];
    all[block(10) as usize..block(13) as usize].fill(1);
    all[block(100) as usize..block(110) as usize].fill(2);
    all[block(120) as usize..block(125) as usize].fill(2);
    assert_eq!(content(&b, "/f"), all);
}

#[test]
fn holes_are_found_while_data_is_dirty_there() {
    check_map(narrow(1));
    check_map(narrow(3));
}

#[test]
fn holes_are_found_in_a_composite_file() {
    let small = Layout::composite().until(128 << 10).stripe_count(1).stripe_size(64 << 10);
    check_map(small.to_eof().stripe_count(3).stripe_size(64 << 10));
}

#[test]
fn a_write_up_to_the_largest_offset() {
    let [a, b] = clients(2);
    let file = a.open_with("/f", read_write().layout(narrow(2))).expect("open");
    let max = i64::MAX as u64;
    assert_eq!(file.write_at(b"abcd", max - 2).expect("what fits"), 2);
    assert_eq!(b.metadata("/f").expect("stat").len(), max);
    let watch = b.open_file("/f").expect("open");
    let mut got = [9; 8];
    assert_eq!(watch.read_at(&mut got, max - 5).expect("read"), 5);
    assert_eq!(&got, b"\0\0\0ab\x09\x09\x09");
    assert_eq!(watch.read_at(&mut got, max).expect("the end"), 0);
    file.set_len(3).expect("cut");
    assert_eq!(content(&b, "/f"), [0; 3]);
}
