//! A write that was reported as staged survives `kill -9` of the process that made it.
//!
//! The test starts itself again as the client, which maps the arena through the parent's descriptor, publishes writes
//! and reports each on its output once it counts. The parent drains meanwhile, kills it at some point, and reclaims.
#![cfg(not(clio_loom))]

use clio_arena::staging::{LockStatus, RECORD_BYTES, RecordView, Staged, StagingDrainer, StagingWriter, Taken};
use clio_arena::{CHUNK_BYTES, Mapping};
use clio_core::memory::words::{LockStamp, LockWordTable, LockWords};
use clio_core::units::{BlockSet, Fid};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

const CLIENT_OF: &str = "CLIO_ARENA_TEST_CLIENT_OF";
const RECORDS: usize = 64;
const LOCK_WORDS: usize = 8;
const RECORDS_AT: u64 = 4096;
const DATA_AT: u64 = 1 << 20;
const REPORT: &str = "staged ";

/// The client's half; does nothing when run as a test of its own.
#[test]
fn client() {
    let Ok(path) = std::env::var(CLIENT_OF) else { return };
    let arena = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let arena = Arc::new(Mapping::attach(OwnedFd::from(arena)).unwrap());
    let locks = LockWords::new(arena.words(0, LOCK_WORDS).unwrap());
    let records = arena.words(RECORDS_AT, RECORDS * RECORD_BYTES / 8).unwrap();
    let writer = StagingWriter::new(records, locks.clone(), 0);
    let stamp = LockStamp { index: 0, generation: locks.load(0).generation() };
    for number in 0u64.. {
        let claim = loop {
            match writer.claim() {
                Some(claim) => break claim,
                None => std::thread::yield_now(),
            }
        };
        let memory_offset = DATA_AT + u64::from(claim.id().index) * 4096;
        arena.at(memory_offset, 4096).unwrap().write_at(0, &number.to_le_bytes().repeat(512));
        let view = RecordView {
            fid: Fid::new(1, 1),
            object_offset: number * 4096,
            len: 4096,
            memory_offset,
            handle: 0,
            stamp,
            order: 0,
            blocks: BlockSet::range(0..1),
        };
        match claim.publish(view) {
            Staged::Yes(_) => writeln!(std::io::stdout(), "{REPORT}{number}").unwrap(),
            Staged::Redo => return,
        }
    }
}

/// Doesn't outlive a test that fails.
struct Client(Child);

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Notes the numbers of the writes taken, whose bytes must be whole.
fn drain(arena: &Mapping, drainer: &StagingDrainer, taken: Vec<Taken>, drained: &mut BTreeSet<u64>) {
    for record in taken {
        let write = record.write.clone().unwrap();
        let number = write.record().object_offset / 4096;
        for run in write.runs() {
            let mut bytes = vec![0; run.extent.len() as usize];
            arena.at(run.memory_offset, bytes.len()).unwrap().read_at(0, &mut bytes);
            assert!(bytes == number.to_le_bytes().repeat(512), "write {number} is torn");
        }
        assert!(drained.insert(number), "write {number} was drained twice");
        drainer.retire(&record);
    }
}

#[test]
fn what_a_killed_writer_was_told_counts_is_drained() {
    for acknowledged_before_kill in [0, 1, 7, 50, 500, 3000] {
        let arena = Arc::new(Mapping::create_shared(1).unwrap());
        assert_eq!(arena.len(), CHUNK_BYTES);
        let locks = LockWordTable::new(arena.words(0, LOCK_WORDS).unwrap());
        let stamp = locks.alloc().unwrap();
        assert_eq!(stamp.index, 0);
        let records = arena.words(RECORDS_AT, RECORDS * RECORD_BYTES / 8).unwrap();
        let drainer = StagingDrainer::new(records, arena.len() as u64);

        let path = format!("/proc/{}/fd/{}", std::process::id(), arena.fd().unwrap().as_raw_fd());
        let mut client = Client(
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "client", "--nocapture"])
                .env(CLIENT_OF, path)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let lines = BufReader::new(client.0.stdout.take().unwrap()).lines();
        let mut acknowledged = Vec::new();
        let mut drained = BTreeSet::new();
        for line in lines {
            let line = line.unwrap();
            // A line cut off by the kill is a report that was never made.
            acknowledged.extend(line.split(REPORT).nth(1).and_then(|n| n.parse::<u64>().ok()));
            if acknowledged.len() >= acknowledged_before_kill {
                client.0.kill().unwrap();
            }
            drain(&arena, &drainer, drainer.take_published(8, |_| LockStatus::Held), &mut drained);
        }
        client.0.wait().unwrap();

        assert!(locks.revoke(stamp));
        drain(&arena, &drainer, drainer.sweep(stamp).taken, &mut drained);
        assert!(drainer.reclaim(|_| LockStatus::Lost).is_empty());
        assert!(acknowledged.len() >= acknowledged_before_kill);
        let lost: Vec<_> = acknowledged.iter().filter(|n| !drained.contains(n)).collect();
        assert!(lost.is_empty(), "acknowledged, and lost: {lost:?}");
        assert!(drained.len() <= acknowledged.len() + 2, "all but the last was reported");

        let next = StagingWriter::new(arena.words(RECORDS_AT, RECORDS * RECORD_BYTES / 8).unwrap(), locks.view(), 0);
        let claims: Vec<_> = std::iter::from_fn(|| next.claim()).collect();
        assert_eq!(claims.len(), RECORDS, "every record is free again");
    }
}
