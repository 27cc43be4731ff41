//! Messages between clients and daemons.

use super::Seed;
use clio_node::wire::{
    self, Answer, Event, FromClient, FromDaemon, Hello, MAGIC, MAJOR, MINOR, NamesOp, NamesReply, Request, Welcome,
    WireError, WireFlags, WireIfExists, WireLvb, WireMode, WireNode, WireOp, WirePath, WireReply, WireSegment,
};

const FID: [u8; 16] = [1; 16];

pub(super) fn wire_messages() -> Vec<Seed> {
    let seed =
        |name, bytes: clio_core::Result<Vec<u8>>| Seed::accepted("wire_messages", name, bytes.expect("a message"));
    let ask = |request| wire::encode(&FromClient::Request { id: 7, request });
    let on_target = |op| ask(Request::Target { target: 1, client: 3, op });
    let reply = |result| wire::encode(&FromDaemon::Reply { id: 7, result });
    let bulk = vec![
        WireSegment { offset: 4096, at: 1 << 20, len: 70_000 },
        WireSegment { offset: 1 << 30, at: 0, len: 1 << 20 },
    ];
    let outside = vec![WireSegment { offset: 0, at: (2 << 20) - 1, len: 2 }];
    let path = WirePath { base: FID, path: b"/run/ckpt.0".to_vec() };
    let new = WireNode { mode: 0o640, layout: Some(vec![1, 2, 3]) };
    let flags = WireFlags { try_lock: false, glimpse: true, mandatory: false, exact: true };
    let error = WireError { errno: 28, detail: "full".into(), fid: Some(FID), path: None };
    let hello =
        Hello { magic: MAGIC, major: MAJOR, minor: MINOR, arena_bytes: 64 << 20, brings_arena: false, token: 7 };
    let lvb = WireLvb([70_000, 144, 3, 2, 1]);
    let granted =
        WireReply::Granted { handle: Some(5), mode: WireMode::Pw, range: (0, u64::MAX), lvb, grant: 9, blocking: true };
    vec![
        seed("hello", wire::encode(&hello)),
        seed("welcome", wire::encode(&Welcome::Served { minor: MINOR, targets: 4, is_awaited: false })),
        seed("refused", wire::encode(&Welcome::Refused(error.clone()))),
        seed("read", on_target(WireOp::Read { fid: FID, bulk: bulk.clone(), checksum: true })),
        seed("read-outside", on_target(WireOp::Read { fid: FID, bulk: outside, checksum: true })),
        seed(
            "write",
            on_target(WireOp::Write {
                fid: FID,
                bulk,
                checksum: Some(8),
                lock: Some(5),
                grant: 70_000,
                mtime: 6,
                sync: false,
            }),
        ),
        seed("enqueue", on_target(WireOp::Enqueue { fid: FID, range: (4096, 8192), mode: WireMode::Group(4), flags })),
        seed("open", ask(Request::Names(NamesOp::Open { fid: [7; 16], access: 6 }))),
        seed(
            "access",
            ask(Request::Names(NamesOp::Access { path: WirePath { base: [0; 16], path: b"/d".to_vec() }, access: 4 })),
        ),
        seed("touch", ask(Request::Once { xid: 10, op: NamesOp::Touch([7; 16]) })),
        seed("create", ask(Request::Names(NamesOp::Create { path, new, if_exists: WireIfExists::Open }))),
        seed("sync", ask(Request::Sync)),
        seed("resume", ask(Request::Resume { target: 1, grant: 1 << 20 })),
        seed("recovered", ask(Request::Recovered)),
        seed(
            "once",
            ask(Request::Once { xid: 9, op: NamesOp::Rmdir(WirePath { base: [0; 16], path: b"/d".to_vec() }) }),
        ),
        seed("figures", ask(Request::Figures)),
        seed("bye", wire::encode(&FromClient::Bye)),
        seed("stopping", wire::encode(&FromDaemon::Stopping)),
        seed("glimpsed", wire::encode(&FromClient::Glimpsed { token: 2, lvb: Some(lvb) })),
        seed("granted", reply(Ok(Answer::Target(granted)))),
        seed("entries", reply(Ok(Answer::Names(NamesReply::List(vec![b"user.a".to_vec()]))))),
        seed("synced", reply(Ok(Answer::Synced))),
        seed("error", reply(Err(error))),
        seed("blocking", wire::encode(&FromDaemon::Event { target: 1, client: 3, event: Event::Blocking(5) })),
        Seed::refused("wire_messages", "no-message", *b"GET / HTTP/1.1\r\n\r\n"),
    ]
}
