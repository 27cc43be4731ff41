//! Direct I/O of one client against the cache of another.

use crate::at_once;
use clio_tests::{clients, content, narrow, pattern, read_write};

#[test]
fn direct_here_buffered_there() {
    let [a, b] = clients(2);
    let direct = a.open_with("/f", read_write().direct(true).layout(narrow(2))).expect("open");
    let cached = b.open_with("/f", read_write()).expect("open");
    let mut want = vec![0; 250_000];
    for n in 0..20u64 {
        let at = (n * 12_347) as usize % 150_000;
        let data = pattern(n, 0, 90_001);
        if n % 2 == 0 { &direct } else { &cached }.write_all_at(&data, at as u64).expect("write");
        want[at..at + data.len()].copy_from_slice(&data);
        let mut got = vec![0; 1000];
        for file in [&direct, &cached] {
            file.read_exact_at(&mut got, at as u64 + 500).expect("read");
            assert_eq!(got, want[at + 500..at + 1500]);
        }
    }
    let end = content(&a, "/f").len();
    assert_eq!(content(&b, "/f"), want[..end]);
}

#[test]
fn size_after_a_direct_write_is_seen() {
    let [a, b] = clients(2);
    let direct = a.open_with("/f", read_write().direct(true).layout(narrow(2))).expect("open");
    let watch = b.open_file("/f").expect("open");
    for n in 1..10u64 {
        direct.write_all_at(&[n as u8; 50_000], (n - 1) * 50_000).expect("write");
        assert_eq!(watch.metadata().expect("stat").len(), n * 50_000);
        assert_eq!(a.metadata("/f").expect("stat").len(), n * 50_000);
    }
}

#[test]
fn direct_and_buffered_writers_share_blocks() {
    const RECORD: usize = 1_700;
    let [a, b] = clients(2);
    let direct = a.open_with("/f", read_write().direct(true).layout(narrow(2))).expect("open");
    let cached = b.open_with("/f", read_write()).expect("open");
    let write = |file: &clio::File, first: usize| {
        for n in (first..120).step_by(2) {
            file.write_all_at(&pattern(n as u64, 0, RECORD), (n * RECORD) as u64).expect("write");
        }
    };
    at_once(|| write(&direct, 0), || write(&cached, 1));
    for c in [&a, &b] {
        let got = content(c, "/f");
        assert_eq!(got.len(), 120 * RECORD);
        for (n, record) in got.chunks(RECORD).enumerate() {
            assert_eq!(record, pattern(n as u64, 0, RECORD), "record {n}");
        }
    }
}
