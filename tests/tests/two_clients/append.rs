//! Appends of two clients to one file.

use crate::append;
use clio_tests::{clients, content, narrow, pattern, read_write};
use std::thread;

#[test]
fn appends_of_less_than_a_page_take_turns() {
    let [a, b] = clients(2);
    let (fa, fb) = (a.open_with("/f", append()).expect("open"), b.open_with("/f", append()).expect("open"));
    let mut want = Vec::new();
    for n in 0..100u64 {
        let data = pattern(n, 0, 1 + (n as usize * 37) % 900);
        let file = if n % 2 == 0 { &fa } else { &fb };
        assert_eq!(file.append(&data).expect("append"), want.len() as u64);
        want.extend(data);
    }
    assert_eq!(content(&a, "/f"), want);
    assert_eq!(content(&b, "/f"), want);
}

#[test]
fn append_to_a_striped_sparse_file() {
    let [a, b] = clients(3);
    let file = a.open_with("/f", read_write().layout(narrow(3))).expect("open");
    file.set_len(1_000_000).expect("grow");
    let at = b.open_with("/f", append()).expect("open").append(b"tail").expect("append");
    assert_eq!(at, 1_000_000);
    let all = content(&a, "/f");
    assert!(all[..1_000_000].iter().all(|x| *x == 0) && &all[1_000_000..] == b"tail");
}

#[test]
fn concurrent_appenders_lose_and_mix_nothing() {
    const EACH: usize = 200;
    let all = clients::<4>(2);
    thread::scope(|s| {
        for (who, client) in all.iter().enumerate() {
            s.spawn(move || {
                let file = client.open_with("/f", append()).expect("open");
                for n in 0..EACH {
                    file.append(&[who as u8 + 1; 100].map(|b| b + (n % 2) as u8 * 100)).expect("append");
                }
            });
        }
    });
    let got = content(&all[0], "/f");
    assert_eq!(got.len(), 4 * EACH * 100);
    for record in got.chunks(100) {
        assert!(record.iter().all(|b| *b == record[0]), "a record is mixed");
    }
}

#[test]
fn an_append_finds_the_end_that_a_waiting_truncate_left() {
    let [a, b] = clients(2);
    let (fa, fb) = (a.open_with("/f", read_write()).expect("open"), b.open_with("/f", append()).expect("open"));
    for n in 0..20u64 {
        fa.write_all_at(&pattern(n, 0, 150_000), 0).expect("write");
        let cut = n * 7_001;
        fa.set_len(cut).expect("truncate");
        assert_eq!(fb.append(b"tail").expect("append"), cut, "round {n}");
        let mut want = pattern(n, 0, cut as usize);
        want.extend(b"tail");
        assert_eq!(content(&a, "/f"), want, "round {n}");
    }
}
