//! What one process has done, all others see.

use crate::store::{Process, Store};

#[test]
fn two_processes_that_take_turns_on_one_byte_see_each_others_last_write() {
    let store = Store::new();
    let [mut a, mut b] = store.processes();
    a.tell("open /f");
    b.tell("open /f");
    for turn in 0..200u32 {
        let byte = turn % 251 + 1;
        let (writer, reader) = if turn % 2 == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
        writer.tell(&format!("write /f 100 1 {byte}"));
        assert_eq!(reader.ask("read /f 100 1"), format!("1x{byte}"), "turn {turn}");
    }
}

#[test]
fn appends_of_eight_processes_are_neither_lost_nor_mixed() {
    const RECORD: usize = 100;
    const EACH: usize = 60;
    let store = Store::new();
    let mut all = store.processes::<8>();
    all.iter_mut().for_each(|p| p.tell("open /log append wide"));
    for (i, process) in all.iter_mut().enumerate() {
        process.begin(&format!("append /log {RECORD} {} {EACH}", i + 1));
    }
    all.iter_mut().for_each(|p| assert_eq!(p.answer(), "ok"));
    let content = all[0].ask(&format!("read /log 0 {}", 2 * 8 * EACH * RECORD));
    let mut bytes = [0; 9];
    for run in content.split(' ') {
        let (count, byte) = run.split_once('x').expect("a run");
        let count: usize = count.parse().expect("a number");
        assert_eq!(count % RECORD, 0, "a record is torn: {run}");
        bytes[byte.parse::<usize>().expect("a byte")] += count;
    }
    assert_eq!(bytes, [0, 6000, 6000, 6000, 6000, 6000, 6000, 6000, 6000]);
}

/// How a process reaches the file.
const WAYS: [&str; 4] = ["", " direct", " dsync", " wide"];

/// Each way of one process, against each way of another: writes, overwrites, truncates and holes are seen at once, sizes
/// with them.
#[test]
fn every_way_to_write_is_seen_by_every_way_to_read() {
    for one in WAYS {
        for other in WAYS {
            let store = Store::new();
            let [mut a, mut b] = store.processes();
            a.tell(&format!("open /f{one}"));
            b.tell(&format!("open /f{other}"));
            let ways = format!("{one}, then {other}");
            both_ways(&mut a, &mut b, &ways);
            both_ways(&mut b, &mut a, &ways);
        }
    }
}

fn both_ways(writer: &mut Process, reader: &mut Process, ways: &str) {
    let check = |reader: &mut Process, content: &str, size: u64| {
        assert_eq!(reader.ask("read /f 0 1000000"), content, "{ways}");
        assert_eq!(reader.ask("size /f"), size.to_string(), "{ways}");
    };
    writer.tell("truncate /f 0");
    check(reader, "", 0);
    writer.tell("write /f 0 8192 1");
    check(reader, "8192x1", 8192);
    writer.tell("write /f 4000 200 2");
    check(reader, "4000x1 200x2 3992x1", 8192);
    writer.tell("write /f 100000 100000 3");
    check(reader, "4000x1 200x2 3992x1 91808x0 100000x3", 200_000);
    writer.tell("truncate /f 150000");
    check(reader, "4000x1 200x2 3992x1 91808x0 50000x3", 150_000);
    writer.tell("punch /f 4096 100000");
    check(reader, "4000x1 96x2 100000x0 45904x3", 150_000);
    writer.tell("truncate /f 160000");
    check(reader, "4000x1 96x2 100000x0 45904x3 10000x0", 160_000);
}

#[test]
fn a_file_renamed_or_unlinked_while_open_stays_one_file() {
    let store = Store::new();
    let [mut a, mut b] = store.processes();
    a.tell("open /f");
    a.tell("write /f 0 10 1");
    b.tell("open /f");
    b.tell("rename /f /g");
    a.tell("write /f 10 10 2");
    assert_eq!(b.ask("read /f 0 100"), "10x1 10x2");
    assert_eq!((a.ask("exists /f"), a.ask("exists /g")), ("false".into(), "true".into()));
    a.tell("unlink /g");
    a.tell("write /f 20 10 3");
    assert_eq!(b.ask("read /f 0 100"), "10x1 10x2 10x3");
    b.tell("open /g");
    assert_eq!(b.ask("size /g"), "0", "the name is another file's now");
    a.tell("close /f");
    assert_eq!(b.ask("read /f 0 100"), "10x1 10x2 10x3");
    b.tell("close /f");
}

#[test]
fn two_clients_of_a_process_have_a_cache_each() {
    let store = Store::new();
    let mut process = store.process();
    process.tell("open /f wide");
    process.tell("write /f 0 8388608 1");
    process.tell("sync /f");
    process.tell("open /other");
    process.tell("write /other 0 14680064 2");
    process.tell("sync /other");
    assert_eq!(process.ask("twin /f"), "8 MiB, 0 blocks missed twice");
}

/// Both keep a cached copy and a lock on every stripe; then the size is cut and grown by one of them.
#[test]
fn a_truncate_takes_what_others_have_cached() {
    let store = Store::new();
    let [mut a, mut b, mut c] = store.processes();
    for p in [&mut a, &mut b, &mut c] {
        p.tell("open /f wide");
    }
    a.tell("write /f 0 500000 9");
    for round in 0..20u32 {
        assert_eq!(b.ask("read /f 0 500000"), "500000x9");
        assert_eq!(c.ask("read /f 0 500000"), "500000x9");
        a.tell("truncate /f 1000");
        let (first, second) = if round % 2 == 0 { (&mut b, &mut c) } else { (&mut c, &mut b) };
        first.tell("truncate /f 500000");
        assert_eq!(second.ask("read /f 0 600000"), "1000x9 499000x0");
        second.tell("write /f 1000 499000 9");
    }
}
