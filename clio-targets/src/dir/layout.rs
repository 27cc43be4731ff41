//! Where an object's files are: `objects/xx/<fid as 32 hex digits>`, and the same with `.sum` for the side file. A second
//! name of the side file, `made/xx/<fid as 32 hex digits>`, tells that the object was made, should both be lost.

use clio_core::units::Fid;
use std::path::{Path, PathBuf};

/// Folders that objects are spread over.
pub(super) const FOLDERS: u64 = 256;

/// Spreads FIDs evenly over 64 bits. Part of the format: it must never change.
pub(super) fn spread(fid: Fid) -> u64 {
    let low = u64::from(fid.oid) << 32 | u64::from(fid.ver);
    let mixed = (fid.seq ^ low.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ low;
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 32
}

/// The number of the folder that holds an object's files.
pub(super) fn number(fid: Fid) -> u64 {
    spread(fid) % FOLDERS
}

/// The folder number `n` below the store's `root`.
pub(super) fn folder(root: &Path, n: u64) -> PathBuf {
    root.join("objects").join(format!("{n:02x}"))
}

/// The folder number `n` of traces below the store's `root`.
pub(super) fn trace_folder(root: &Path, n: u64) -> PathBuf {
    root.join("made").join(format!("{n:02x}"))
}

/// The folder that holds an object's trace. Made with its first.
pub(super) fn trace_folder_of(root: &Path, fid: Fid) -> PathBuf {
    trace_folder(root, number(fid))
}

/// The folder that holds an object's files.
pub(super) fn folder_of(root: &Path, fid: Fid) -> PathBuf {
    folder(root, number(fid))
}

fn name(fid: Fid) -> String {
    format!("{:032x}", u128::from_be_bytes(fid.to_bytes()))
}

/// An object's data.
pub(super) fn data(root: &Path, fid: Fid) -> PathBuf {
    folder_of(root, fid).join(name(fid))
}

/// What tells that an object was made.
pub(super) fn trace(root: &Path, fid: Fid) -> PathBuf {
    trace_folder_of(root, fid).join(name(fid))
}

/// An object's side file.
pub(super) fn side(root: &Path, fid: Fid) -> PathBuf {
    data(root, fid).with_extension("sum")
}

/// What a name in one of the folders stands for.
pub(super) enum Name {
    Data(Fid),
    Side(Fid),
    Foreign,
}

pub(super) fn parse(name: &std::ffi::OsStr) -> Name {
    let Some(name) = name.to_str() else { return Name::Foreign };
    let (stem, side) = name.strip_suffix(".sum").map_or((name, false), |stem| (stem, true));
    let hex = stem.len() == 32 && stem.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    match u128::from_str_radix(stem, 16) {
        Ok(n) if hex && side => Name::Side(Fid::from_bytes(n.to_be_bytes())),
        Ok(n) if hex => Name::Data(Fid::from_bytes(n.to_be_bytes())),
        _ => Name::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_folders_are_part_of_the_format() {
        let fid = Fid::new(1, 2).sub_object(0, 3);
        let path = data(Path::new("/s"), fid);
        starts_and_ends(&path, "/s/objects/", "/00000000000000010000000200000004");
        assert!(matches!(parse(path.file_name().unwrap()), Name::Data(f) if f == fid));
        assert!(matches!(parse(side(Path::new("/s"), fid).file_name().unwrap()), Name::Side(f) if f == fid));
        assert!(matches!(parse("00".as_ref()), Name::Foreign));
        assert!(matches!(parse("+0000000000000010000000200000004".as_ref()), Name::Foreign));
        assert_eq!(spread(fid), 9_318_045_156_437_940_448);
    }

    proptest::proptest! {
        #[test]
        fn a_name_is_an_objects_or_foreign(name in "[0-9a-f]{30,33}(\\.sum|\\.tmp)?|.{0,40}", fid: [u8; 16]) {
            match parse(name.as_ref()) {
                Name::Data(fid) => assert_eq!(data(Path::new("/s"), fid).file_name().unwrap(), name.as_str()),
                Name::Side(fid) => assert_eq!(side(Path::new("/s"), fid).file_name().unwrap(), name.as_str()),
                Name::Foreign => assert!(name.len() != 32 || name.bytes().any(|b| !b"0123456789abcdef".contains(&b))),
            }
            let fid = Fid::from_bytes(fid);
            assert!(matches!(parse(data(Path::new("/s"), fid).file_name().unwrap()), Name::Data(f) if f == fid));
        }
    }

    fn starts_and_ends(path: &Path, start: &str, end: &str) {
        let text = path.to_str().unwrap();
        assert!(text.starts_with(start) && text.ends_with(end), "{text}");
    }

    #[test]
    fn folders_fill_evenly() {
        let mut count = [0u32; FOLDERS as usize];
        for oid in 0..25_600 {
            count[(spread(Fid::new(0x200, oid).sub_object(0, (oid % 4) as u16)) % FOLDERS) as usize] += 1;
        }
        assert!(count.iter().all(|n| (50..200).contains(n)), "{count:?}");
    }
}
