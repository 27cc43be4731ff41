//! What has lost its last name but is not wholly gone.

use super::{Kind, RECORD_VERSION, Reader, put_bytes};
use crate::limits::MAX_LAYOUT_BYTES;
use clio_core::Result;
use clio_core::units::Fid;

/// A file that has left the namespace: its objects are to be destroyed by whoever got this, who then calls
/// [`Namespace::destroyed`](crate::Namespace::destroyed). Until then the store remembers it over crashes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Doomed {
    /// The file that was.
    pub fid: Fid,
    /// Its layout, which names the objects.
    pub layout: Vec<u8>,
}

/// What became of an inode that lost a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Removed {
    /// The inode.
    pub fid: Fid,
    /// Its kind.
    pub kind: Kind,
    /// Names left.
    pub nlink: u32,
    /// The objects to destroy now. `None` while names are left or it is open, and for what has no objects.
    pub destroy: Option<Doomed>,
}

impl Removed {
    pub(super) fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.fid.to_bytes());
        out.push(self.kind as u8);
        out.extend_from_slice(&self.nlink.to_le_bytes());
        match &self.destroy {
            None => out.push(0),
            Some(doomed) => {
                out.push(1);
                put_bytes(out, &doomed.layout);
            }
        }
    }

    pub(super) fn decode_from(r: &mut Reader<'_>) -> Result<Self> {
        let fid = r.fid()?;
        let kind = r.u8()?;
        let kind = Kind::from_u8(kind).ok_or_else(|| r.damaged(format!("kind {kind}")))?;
        let nlink = r.u32()?;
        let destroy = match r.u8()? {
            0 => None,
            1 => Some(Doomed { fid, layout: r.bytes(MAX_LAYOUT_BYTES)? }),
            tag => return Err(r.damaged(format!("tag {tag}"))),
        };
        Ok(Self { fid, kind, nlink, destroy })
    }
}

/// Record of an inode without a name, under its FID.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unlinked {
    /// It was open when its last name went: the inode is still there.
    Orphan,
    /// The inode is gone, the objects that this layout names may still be there.
    Doomed {
        /// The file's layout.
        layout: Vec<u8>,
    },
}

impl Unlinked {
    /// The record, version byte first.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Unlinked::Orphan => vec![RECORD_VERSION, 0],
            Unlinked::Doomed { layout } => {
                let mut out = vec![RECORD_VERSION, 1];
                put_bytes(&mut out, layout);
                out
            }
        }
    }

    /// The inverse of [`Unlinked::encode`]. Never panics.
    ///
    /// # Errors
    /// `EBADMSG`: damaged. `EOPNOTSUPP`: written by a newer release.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new("unlinked file", bytes)?;
        let record = match r.u8()? {
            0 => Unlinked::Orphan,
            1 => Unlinked::Doomed { layout: r.bytes(MAX_LAYOUT_BYTES)? },
            tag => return Err(r.damaged(format!("tag {tag}"))),
        };
        r.finish()?;
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clio_core::Errno;

    #[test]
    fn round_trip_and_damage() {
        for u in [Unlinked::Orphan, Unlinked::Doomed { layout: vec![] }, Unlinked::Doomed { layout: vec![7; 9] }] {
            let bytes = u.encode();
            assert_eq!(Unlinked::decode(&bytes).unwrap(), u);
            for n in 0..bytes.len() {
                assert_eq!(Unlinked::decode(&bytes[..n]).unwrap_err().errno(), Errno::EBADMSG);
            }
        }
        assert_eq!(Unlinked::decode(&[1, 1, 255, 255, 255, 255]).unwrap_err().errno(), Errno::EBADMSG);
        assert_eq!(Unlinked::decode(&[1, 2]).unwrap_err().errno(), Errno::EBADMSG);
    }
}
