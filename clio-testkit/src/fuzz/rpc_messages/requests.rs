//! Locks, and changes of objects.

use super::model::{Held, Object};
use super::{Session, gone, stale};
use crate::fuzz::script::Script;
use clio_core::Errno;
use clio_core::attr::{Attr, AttrMask};
use clio_core::target::{EnqueueFlags, LockMode, Op, Reply};
use clio_core::units::{ClientId, Extent, Fid, MAX_FILE_SIZE};

impl Session {
    pub(super) fn enqueue(&self, client: ClientId, fid: Fid, s: &mut Script<'_>) -> Option<()> {
        let (how, mode, extent) = (s.byte()?, s.byte()?, Extent::new(s.number()?, s.number()?));
        let modes = [LockMode::Pr, LockMode::Pw, LockMode::Ex, LockMode::Group(1), LockMode::Group(2)];
        let mode = modes[usize::from(mode) % modes.len()];
        let bit = |n: u8| how >> n & 1 != 0;
        let flags = EnqueueFlags { try_lock: bit(0), glimpse: bit(1), mandatory: bit(2), exact: bit(3) };
        self.send(client, Op::Enqueue { fid, extent, mode, flags }, move |w, answer| match answer {
            Ok(Reply::Granted { handle: Some(handle), mode: got, extent: over, lvb, grant, .. }) => {
                assert!(over.covers(extent) && got.serves(if flags.glimpse { LockMode::Pr } else { mode }));
                w.model.granted(Held { client, handle, fid, extent: over, mode: got });
                assert!(w.told.contains(&fid) || lvb.size == w.model.size(fid), "{lvb:?}");
                w.model.grants.entry(client).and_modify(|held| *held += grant);
            }
            Ok(Reply::Granted { handle: None, .. }) => assert!(flags.glimpse),
            Ok(other) => panic!("an enqueue was answered with {other:?}"),
            Err(e) => {
                let fits = match e.errno() {
                    Errno::EAGAIN => flags.try_lock,
                    Errno::EUSERS => !flags.mandatory && !flags.try_lock && !matches!(mode, LockMode::Group(_)),
                    Errno::EINVAL => extent.is_empty(),
                    Errno::ESTALE | Errno::ESHUTDOWN => !w.model.is_connected(client),
                    _ => false,
                };
                assert!(fits, "an enqueue was refused: {e}");
            }
        });
        Some(())
    }

    pub(super) fn punch(&self, client: ClientId, fid: Fid, extent: Extent) {
        let beyond = extent.start > MAX_FILE_SIZE || (extent.end > MAX_FILE_SIZE && extent.end != Extent::EOF);
        self.send(client, Op::Punch { fid, extent, lock: None, mtime: 1 }, move |w, answer| match answer {
            Ok(reply) => {
                assert!(reply == Reply::Done && !beyond && w.model.is_connected(client));
                if extent.end == Extent::EOF {
                    w.model.objects.entry(fid).or_default();
                }
                w.model.objects.entry(fid).and_modify(|o| o.punch(extent));
            }
            Err(e) if beyond => assert_eq!(e.errno(), Errno::EFBIG),
            Err(e) => gone(w.model.is_connected(client), Err(e)),
        });
    }

    pub(super) fn set_attr(&self, client: ClientId, fid: Fid, s: &mut Script<'_>) -> Option<()> {
        let mask = AttrMask::from_bits_truncate(s.byte()?.into());
        let n = s.number()?;
        let attr = Attr { size: n, kms: n, blocks: n, atime: n, mtime: n, ctime: n, uid: n as u32, gid: !n as u32 };
        let bad = mask.intersects(AttrMask::SIZE | AttrMask::KMS | AttrMask::BLOCKS);
        self.send(client, Op::SetAttr { fid, attr, mask }, move |w, answer| match answer {
            Ok(reply) => {
                assert!(reply == Reply::Done && !bad && w.model.is_connected(client));
                w.model.objects.entry(fid).or_default();
            }
            Err(e) if w.model.is_connected(client) => assert!(bad && e.errno() == Errno::EINVAL, "{e}"),
            Err(e) => stale(&e),
        });
        Some(())
    }

    pub(super) fn seek(&self, client: ClientId, fid: Fid, s: &mut Script<'_>) -> Option<()> {
        let (hole, offset) = (s.byte()? % 2 == 1, s.number()?);
        self.send(client, Op::Seek { fid, offset, hole }, move |w, answer| {
            let (nothing, connected) = (Object::default(), w.model.is_connected(client));
            let object = w.model.objects.get(&fid).unwrap_or(&nothing);
            match answer {
                Ok(Reply::Offset(at)) => {
                    assert!(connected && offset < object.size && (offset..=object.size).contains(&at));
                    assert!(hole || object.is_zero(offset, at), "data was skipped");
                }
                Ok(other) => panic!("a seek was answered with {other:?}"),
                Err(e) if connected => {
                    assert_eq!(e.errno(), Errno::ENXIO, "{e}");
                    assert!(offset >= object.size || (!hole && object.is_zero(offset, object.size)));
                }
                Err(e) => stale(&e),
            }
        });
        Some(())
    }
}
