//! The headers of stores, targets and side files, and what is noted of a store's parts.

use super::{Verdict, refused};
use clio_core::Errno;
use clio_targets::{SideHeader, StoreHeader};

/// Bytes of a target's header and of a side file's; the last four are the crc32c of the others.
const HEADER_BYTES: usize = 128;
const SUM_BYTES: usize = 4;

/// A header of any kind, tried as every kind: as it is, and with its checksum put right, which no fuzzer would find.
pub fn store_headers(input: &[u8]) -> Verdict {
    let mut sealed = input.to_vec();
    sealed.resize(HEADER_BYTES, 0);
    let sum = crc32c::crc32c(&sealed[..HEADER_BYTES - SUM_BYTES]).to_le_bytes();
    sealed[HEADER_BYTES - SUM_BYTES..].copy_from_slice(&sum);

    let is_sealed = input.starts_with(&sealed);
    let plain = [target(input), side(input)];
    assert!(is_sealed || plain == [Verdict::Refused; 2], "a wrong checksum is noticed");
    let all = [plain[0], plain[1], target(&sealed), side(&sealed), store(input), parts(input)];
    if all.contains(&Verdict::Accepted) { Verdict::Accepted } else { Verdict::Refused }
}

fn target(bytes: &[u8]) -> Verdict {
    match StoreHeader::decode(bytes) {
        Ok(header) => {
            assert_eq!(StoreHeader::decode(&header.encode()).expect("it can be stored"), header);
            assert_eq!(header.uuid.to_string().len(), 36);
            Verdict::Accepted
        }
        Err(e) => refused(&e, &[Errno::EBADMSG, Errno::EPROTO]),
    }
}

fn side(bytes: &[u8]) -> Verdict {
    match SideHeader::decode(bytes) {
        Ok(header) => {
            assert_eq!(SideHeader::decode(&header.encode()).expect("it can be stored"), header);
            Verdict::Accepted
        }
        Err(e) => refused(&e, &[Errno::EBADMSG, Errno::EPROTO]),
    }
}

fn store(text: &[u8]) -> Verdict {
    use clio::fuzz::StoreHeader;
    match StoreHeader::parse(text) {
        Ok(header) => {
            let again = serde_json::to_vec(&header).expect("it can be written");
            assert_eq!(StoreHeader::parse(&again).expect("it can be stored"), header);
            assert!((1..=1024).contains(&header.targets));
            Verdict::Accepted
        }
        Err(e) => refused(&e, &[Errno::EBADMSG, Errno::EPROTO]),
    }
}

/// What can't be read is as if it were not there: no error tells of it.
fn parts(text: &[u8]) -> Verdict {
    use clio::fuzz::StoreParts;
    let Some(parts) = StoreParts::parse(text) else { return Verdict::Refused };
    let again = serde_json::to_vec_pretty(&parts).expect("it can be written");
    assert_eq!(StoreParts::parse(&again), Some(parts), "it can be stored");
    Verdict::Accepted
}
