//! Replies to operations, kept so that a resent operation gets the answer of its first run.

use super::{Inode, RECORD_VERSION, Reader, Removed};
use crate::limits::MAX_INODE_RECORD_BYTES;
use clio_core::Result;

/// The successful outcome of a changing operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Nothing to tell.
    Done,
    /// An inode as it was right after the operation.
    Node {
        /// The inode.
        inode: Inode,
        /// Whether the operation made it.
        created: bool,
    },
    /// A name went, or, for a rename that replaced nothing, none did.
    Removed(Option<Removed>),
}

impl Reply {
    /// The record of this reply, version byte first.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![RECORD_VERSION];
        match self {
            Reply::Done => out.push(0),
            Reply::Node { inode, created } => {
                out.push(if *created { 2 } else { 1 });
                super::put_bytes(&mut out, &inode.encode());
            }
            Reply::Removed(None) => out.push(3),
            Reply::Removed(Some(removed)) => {
                out.push(4);
                removed.encode_into(&mut out);
            }
        }
        out
    }

    /// The inverse of [`Reply::encode`]. Never panics.
    ///
    /// # Errors
    /// `EBADMSG`: damaged. `EOPNOTSUPP`: written by a newer release.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new("reply", bytes)?;
        let reply = match r.u8()? {
            0 => Reply::Done,
            tag @ (1 | 2) => {
                Reply::Node { inode: Inode::decode(&r.bytes(MAX_INODE_RECORD_BYTES)?)?, created: tag == 2 }
            }
            3 => Reply::Removed(None),
            4 => Reply::Removed(Some(Removed::decode_from(&mut r)?)),
            tag => return Err(r.damaged(format!("tag {tag}"))),
        };
        r.finish()?;
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::super::inode::tests::any_inode;
    use super::super::{Doomed, Kind};
    use super::*;
    use clio_core::units::Fid;
    use proptest::prelude::*;

    #[test]
    fn round_trip() {
        let fid = Fid::new(1, 2);
        let removed = |destroy| Reply::Removed(Some(Removed { fid, kind: Kind::File, nlink: 3, destroy }));
        let doomed = Doomed { fid, layout: vec![1, 2, 3] };
        for reply in [Reply::Done, Reply::Removed(None), removed(None), removed(Some(doomed))] {
            assert_eq!(Reply::decode(&reply.encode()).unwrap(), reply);
        }
    }

    proptest! {
        #[test]
        fn with_inodes(inode in any_inode(), created in any::<bool>()) {
            let reply = Reply::Node { inode, created };
            prop_assert_eq!(Reply::decode(&reply.encode()).unwrap(), reply);
        }

        #[test]
        fn what_decodes_is_canonical(bytes in prop::collection::vec(0..6u8, 0..60)) {
            if let Ok(reply) = Reply::decode(&bytes) {
                prop_assert_eq!(reply.encode(), bytes);
            }
        }
    }
}
