//! Messages of clients and daemons: either side must be able to take anything for one.

use super::{Verdict, refused};
use clio_arena::Mapping;
use clio_core::Errno;
use clio_core::target::Op;
use clio_node::wire::{self, FromClient, FromDaemon, Hello, MAX_MESSAGE_BYTES, Request, Welcome, WireOp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::OnceLock;

/// One packet, taken for a message of every kind. What a client asks of a target is turned into what the target is asked,
/// with bulk data in an arena of 2 MiB.
pub fn wire_messages(input: &[u8]) -> Verdict {
    if input.len() > MAX_MESSAGE_BYTES {
        return Verdict::Refused;
    }
    let client: Option<FromClient> = message(input);
    let others = [
        message::<Hello>(input).is_some(),
        message::<Welcome>(input).is_some(),
        message::<FromDaemon>(input).is_some(),
    ];
    if let Some(FromClient::Request { request: Request::Target { op, .. }, .. }) = &client {
        asked(op);
    }
    if client.is_some() || others.contains(&true) { Verdict::Accepted } else { Verdict::Refused }
}

/// The message, if it is one; then it means the same when it is encoded again.
fn message<T: DeserializeOwned + Serialize + PartialEq + Debug>(input: &[u8]) -> Option<T> {
    match wire::decode::<T>(input) {
        Ok(message) => {
            let again = wire::encode(&message).expect("what fitted, fits again");
            assert_eq!(wire::decode::<T>(&again).expect("it decodes"), message);
            Some(message)
        }
        Err(e) => {
            refused(&e, &[Errno::EPROTO]);
            None
        }
    }
}

fn asked(op: &WireOp) {
    static ARENA: OnceLock<Mapping> = OnceLock::new();
    let arena = ARENA.get_or_init(|| Mapping::for_arena(1).expect("memory"));
    let op = match clio_node::fuzz::target_op(op.clone(), arena) {
        Ok(op) => op,
        Err(e) => {
            refused(&e, &[Errno::EINVAL, Errno::EFBIG]);
            return;
        }
    };
    let (Op::Read { bulk, .. } | Op::Write { bulk, .. }) = &op else { return };
    let mut end = 0;
    for segment in bulk {
        assert!(!segment.mem.is_empty() && segment.offset >= end, "segments have bytes, and ascend");
        end = segment.offset.checked_add(segment.mem.len() as u64).expect("no segment ends beyond all numbers");
        let at = arena.offset_of(segment.mem).expect("in the arena");
        assert!(at + segment.mem.len() as u64 <= arena.len() as u64);
    }
}
