//! Reads and writes, with bulk data of any shape.

use super::model::Object;
use super::{GRANT, Session};
use crate::fuzz::script::Script;
use clio_core::Errno;
use clio_core::target::{Bulk, Op, Reply};
use clio_core::units::{ClientId, Extent, Fid, MAX_FILE_SIZE};
use clio_targets::conformance::Buffer;
use std::sync::Arc;

/// Bulk data: offsets, and memory that stays for as long as the request.
struct Segments(Vec<(u64, Arc<Buffer>)>);

impl Segments {
    /// Segments in any order.
    fn read(s: &mut Script<'_>, seed: u8) -> Option<Self> {
        let mut all = Vec::new();
        for n in 0..s.byte()? % 4 {
            let (offset, len) = (s.number()?, usize::from(s.byte()?));
            // Up to two blocks and a bit.
            let len = if len < 160 { len } else { (len - 160) * 88 };
            let content: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(7) ^ seed ^ n << 6).collect();
            all.push((offset, Arc::new(Buffer::new(&content))));
        }
        Some(Self(all))
    }

    fn bulk(&self) -> Bulk {
        self.0.iter().map(|(at, buffer)| buffer.segment(0, buffer.mem().len(), *at)).collect()
    }

    /// What the target must say to it, if it isn't right.
    fn errno(&self) -> Option<Errno> {
        let mut from = 0;
        for (at, buffer) in &self.0 {
            let end = u128::from(*at) + buffer.mem().len() as u128;
            match () {
                () if *at < from => return Some(Errno::EINVAL),
                () if end > u128::from(MAX_FILE_SIZE) => return Some(Errno::EFBIG),
                () => from = end as u64,
            }
        }
        None
    }

    fn hull(&self) -> Extent {
        let extents = self.0.iter().map(|(at, buffer)| Extent::with_len(*at, buffer.mem().len() as u64));
        extents.fold(Extent::new(0, 0), Extent::hull)
    }

    fn checksum(&self) -> u32 {
        self.0.iter().fold(0, |sum, (_, buffer)| crc32c::crc32c_append(sum, &buffer.content()))
    }
}

impl Session {
    pub(super) fn write(&self, client: ClientId, fid: Fid, s: &mut Script<'_>) -> Option<()> {
        let (how, grant, handle, seed) = (s.byte()?, s.number()?, s.byte()?, s.byte()?);
        let segments = Segments::read(s, seed)?;
        let lock = (how & 1 != 0).then(|| self.handle(handle));
        let sums = how & 2 != 0;
        let damaged = sums && how & 4 != 0;
        let checksum = sums.then(|| segments.checksum() ^ u32::from(damaged));
        let bad = segments.errno();
        let (connected, covered, used) = {
            let model = &mut self.world.lock().model;
            let covered = lock.is_none_or(|h| model.may_write(client, h, fid, segments.hull()));
            let held = model.grants.get_mut(&client);
            let connected = held.is_some();
            // What a request uses up is gone as soon as it is accepted.
            let used = held.filter(|held| bad.is_none() && **held >= grant).map(|held| *held -= grant).is_some();
            (connected, covered, used)
        };
        let bulk = segments.bulk();
        let op = Op::Write { fid, bulk, checksum, lock, grant, mtime: seed.into(), sync: how & 8 != 0 };
        self.send(client, op, move |w, answer| match answer {
            Ok(Reply::Written { grant: new, lvb }) => {
                assert!(bad.is_none() && used && covered && !damaged, "this write should have been refused");
                let object = w.model.objects.entry(fid).or_default();
                segments.0.iter().for_each(|(at, buffer)| object.write(*at, &buffer.content()));
                assert_eq!(lvb.size, object.size);
                let held = w.model.grants.get_mut(&client).expect("who has gone writes nothing");
                *held += new;
                assert!(*held <= GRANT.per_client.max(GRANT.initial));
            }
            Ok(other) => panic!("a write was answered with {other:?}"),
            Err(e) => {
                let here = w.model.grants.get_mut(&client);
                let fits = match e.errno() {
                    Errno::EPROTO => connected && bad.is_none() && !used,
                    Errno::ESTALE => here.is_none() || !covered,
                    Errno::EBADMSG => damaged && covered,
                    Errno::ENOSPC => covered && !damaged,
                    Errno::EINVAL => bad == Some(Errno::EINVAL) || !covered,
                    errno => bad == Some(errno),
                };
                assert!(fits, "a write was refused: {e}");
                if let Some(held) = here.filter(|_| used) {
                    *held += grant;
                }
                if e.errno() == Errno::ENOSPC {
                    // Any part of it may be there; of this kind of target, it is the object only.
                    w.model.objects.entry(fid).or_default();
                }
            }
        });
        Some(())
    }

    pub(super) fn read(&self, client: ClientId, fid: Fid, s: &mut Script<'_>) -> Option<()> {
        let (checksum, segments) = (s.byte()? % 2 == 1, Segments::read(s, 0xee)?);
        let (bulk, bad) = (segments.bulk(), segments.errno());
        self.send(client, Op::Read { fid, bulk, checksum }, move |w, answer| match answer {
            Ok(Reply::Read { size, checksum: sum }) => {
                assert!(bad.is_none() && w.model.is_connected(client), "this read should have been refused");
                let (nothing, object) = (Object::default(), w.model.objects.get(&fid));
                let object = object.unwrap_or(&nothing);
                assert_eq!((size, sum), (object.size, checksum.then(|| segments.checksum())));
                for (at, buffer) in &segments.0 {
                    let content = buffer.content();
                    assert!(content == object.read(*at, content.len()), "read of {} bytes at {at}", content.len());
                }
            }
            Ok(other) => panic!("a read was answered with {other:?}"),
            Err(e) => assert!(bad == Some(e.errno()) || !w.model.is_connected(client), "a read was refused: {e}"),
        });
        Some(())
    }
}
