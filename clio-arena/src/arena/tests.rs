use super::*;
use std::os::fd::AsFd;

fn both(limit_bytes: usize) -> [Arena; 2] {
    [Arena::private(limit_bytes).unwrap(), Arena::shared(limit_bytes).unwrap()]
}

#[test]
fn memory_is_usable_aligned_and_distinct() {
    for arena in both(8 << 20) {
        let pieces: Vec<_> = SizeClass::ALL.iter().cycle().take(20).filter_map(|c| arena.alloc(c.bytes())).collect();
        assert!(pieces.len() >= 16);
        for (i, piece) in pieces.iter().enumerate() {
            assert_eq!(piece.as_ptr() as usize % piece.len(), 0);
            piece.write_at(0, &vec![i as u8; piece.len()]);
        }
        for (i, piece) in pieces.iter().enumerate() {
            let mut buf = vec![0; piece.len()];
            piece.read_at(0, &mut buf);
            assert!(buf.iter().all(|b| *b == i as u8));
        }
        assert_eq!(arena.used(), pieces.iter().map(MemRef::len).sum::<usize>());
        pieces.into_iter().for_each(|p| arena.free(p));
        assert_eq!(arena.used(), 0);
    }
}

#[test]
fn the_limit_is_kept_and_memory_is_mapped_as_needed() {
    for arena in both(4 << 20) {
        assert_eq!(arena.mapped(), 0);
        let first = arena.alloc(4096).unwrap();
        assert_eq!(arena.mapped(), CHUNK_BYTES);
        let rest: Vec<_> = std::iter::from_fn(|| arena.alloc(1 << 20)).collect();
        assert_eq!((rest.len(), arena.mapped()), (3, 4 << 20));
        assert!(arena.alloc(1 << 20).is_none());
        arena.free(first);
        assert!(arena.alloc(1 << 20).is_some(), "the small block is joined again");
    }
    assert!(Arena::private(0).unwrap().alloc(4096).is_none());
}

#[test]
fn offsets_name_memory() {
    for arena in both(4 << 20) {
        let a = arena.alloc(65536).unwrap();
        let offset = arena.offset_of(a).unwrap();
        assert_eq!(arena.at(offset, 65536), Some(a));
        assert_eq!(arena.offset_of(a.slice(5..7)), Some(offset + 5));
        let mapped = (offset / CHUNK_BYTES as u64 + 1) * CHUNK_BYTES as u64;
        assert_eq!(arena.at(mapped - 1, 2), None, "not mapped yet");
        assert_eq!(arena.at(u64::MAX, 2), None);
        assert_eq!(arena.at(1, usize::MAX), None);
        let other = Arena::private(4096).unwrap();
        assert_eq!(arena.offset_of(other.alloc(4096).unwrap()), None);
    }
}

#[test]
fn a_second_mapping_sees_the_same_bytes() {
    let arena = Arena::shared(4 << 20).unwrap();
    let fd = arena.fd().unwrap().try_clone_to_owned().unwrap();
    let peer = Mapping::attach(fd).unwrap();
    let mem = arena.alloc(4096).unwrap();
    mem.write_at(100, b"published");
    let mut buf = [0; 9];
    peer.at(arena.offset_of(mem).unwrap() + 100, 9).unwrap().read_at(0, &mut buf);
    assert_eq!(&buf, b"published");
    // With a chunk of head.
    assert_eq!(peer.at((6 << 20) - 1, 2), None);
    assert!(peer.at((6 << 20) - 1, 1).is_some());
}

#[test]
fn what_is_dirty_is_said_at_the_head_of_a_shared_arena() {
    use clio_core::memory::staging;
    use clio_core::units::{BlockSet, Fid};
    let daemon = Arc::new(Mapping::for_arena(3 << 20).unwrap());
    assert!(daemon.records().is_none(), "nobody keeps any");
    let client = Arena::attach(daemon.fd().unwrap().try_clone_to_owned().unwrap()).unwrap();
    let table = client.staging().unwrap();
    let mem = client.alloc(4096).unwrap();
    let record = table.claim(Fid::new(1, 2), 1 << 20).unwrap();
    table.set_piece(record, 0, 7, mem);
    table.add(record, BlockSet::range(7..8));
    let found: Vec<_> = staging::read(&daemon.records().unwrap(), daemon.len() as u64).map(Result::unwrap).collect();
    let [folio] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((folio.fid, folio.runs[0].extent.start), (Fid::new(1, 2), (1 << 20) + 7 * 4096));
    assert_eq!(Some(folio.runs[0].at), client.offset_of(mem));
    assert!(folio.runs[0].at >= CHUNK_BYTES as u64, "page memory comes after the head");
    // The records outlive the arena, as whoever uses them may.
    drop(client);
    table.remove(record, BlockSet::range(7..8));
    assert_eq!(staging::read(&daemon.records().unwrap(), daemon.len() as u64).count(), 0);
}

#[test]
fn an_arena_over_a_peers_memfd_allocates() {
    let daemon = Mapping::for_arena(2 * CHUNK_BYTES).unwrap();
    let client = Arena::attach(daemon.fd().unwrap().try_clone_to_owned().unwrap()).unwrap();
    let pieces: Vec<_> = std::iter::from_fn(|| client.alloc(1 << 20)).collect();
    assert_eq!(pieces.len(), 4);
    pieces.into_iter().for_each(|mem| client.free(mem));
    assert_eq!(client.used(), 0);
    let too_small = Mapping::create_shared(1).unwrap();
    let refused = Arena::attach(too_small.fd().unwrap().try_clone_to_owned().unwrap()).unwrap_err();
    assert_eq!(refused.errno(), Errno::EINVAL);
}

#[test]
fn the_size_of_a_shared_arena_is_sealed_and_checked() {
    let arena = Arena::shared(2 << 20).unwrap();
    let file = std::fs::File::from(arena.fd().unwrap().try_clone_to_owned().unwrap());
    assert!(file.set_len(0).is_err() && file.set_len(8 << 20).is_err());
    let plain = std::fs::File::open("/proc/self/exe").unwrap();
    let error = Mapping::attach(plain.as_fd().try_clone_to_owned().unwrap()).unwrap_err();
    assert_eq!(error.errno(), Errno::EINVAL);
}

#[test]
fn absurd_limits_are_refused() {
    assert_eq!(Arena::private(usize::MAX).unwrap_err().errno(), Errno::EINVAL);
    assert_eq!(Mapping::create_shared(usize::MAX / CHUNK_BYTES).unwrap_err().errno(), Errno::EINVAL);
}

#[test]
fn memory_in_use_outlives_the_arena() {
    let arena = Arena::private(4096).unwrap();
    let mem = arena.alloc(4096).unwrap();
    mem.write_at(0, b"late");
    drop(arena);
    let mut buf = [0; 4];
    mem.read_at(0, &mut buf);
    assert_eq!(&buf, b"late");
}

#[test]
#[should_panic(expected = "isn't from")]
fn foreign_memory_is_refused() {
    let [a, b] = both(4096);
    a.free(b.alloc(4096).unwrap());
}

#[test]
fn threads_share_an_arena() {
    for arena in both(16 << 20) {
        std::thread::scope(|s| {
            for t in 0u8..4 {
                let arena = &arena;
                s.spawn(move || {
                    let mut held: Vec<MemRef> = Vec::new();
                    for i in 0..3000usize {
                        if i % 7 < 4 {
                            let class = SizeClass::ALL[(i + t as usize) % 3];
                            held.extend(arena.alloc(class.bytes()).inspect(|m| m.write_at(0, &[t; 64])));
                        } else if !held.is_empty() {
                            let mem = held.swap_remove(i % held.len());
                            let mut buf = [0; 64];
                            mem.read_at(0, &mut buf);
                            assert_eq!(buf, [t; 64], "another thread was given the same memory");
                            arena.free(mem);
                        }
                    }
                    held.into_iter().for_each(|m| arena.free(m));
                });
            }
        });
        assert_eq!(arena.used(), 0);
        assert_eq!(std::iter::from_fn(|| arena.alloc(1 << 20)).count(), 16);
    }
}
